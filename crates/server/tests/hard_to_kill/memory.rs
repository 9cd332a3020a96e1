//! Memory of a server as its metrics and `/proc` have it.

use birdhouse_testkit::http_client::HttpClient;
use birdhouse_testkit::metrics;
use birdhouse_testkit::usage::Usage;

/// Metric of the memory in use.
const ALLOCATED: &str = "birdhouse_allocated_bytes";
/// Metrics of memory whose bound is far above what an hour fills: what the log of the relay's store has alone, and its
/// newest events.
pub(super) const BOUNDED_OF_RELAY: [&str; 2] =
    [r#"birdhouse_store_unflushed_bytes{part="relay"}"#, "birdhouse_relay_memtable_bytes"];

/// Memory at one moment, in bytes.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Resident memory without mapped files: what is in use, with what the allocator keeps.
    pub(super) own: u64,
    /// Memory in use.
    pub(super) allocated: u64,
    /// Values of the metrics that were asked for.
    pub(super) bounded: Vec<u64>,
}

impl Sample {
    /// Reads the metrics of a server, and these values of them.
    pub(super) fn take(metrics: &str, pid: u32, bounded: &[&str]) -> Self {
        let text = HttpClient::connect(metrics).unwrap().text("/metrics").unwrap();
        let values = metrics::values(&text);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of bytes")]
        let bytes = |name: &str| *values.get(name).unwrap_or_else(|| panic!("{name} is not in\n{text}")) as u64;
        let bounded = bounded.iter().map(|name| bytes(name)).collect();
        Self { own: Usage::of(pid).unwrap().own_bytes, allocated: bytes(ALLOCATED), bounded }
    }

    /// Returns the memory in use without those values.
    pub(super) fn rest(&self) -> u64 {
        self.allocated.saturating_sub(self.bounded.iter().sum())
    }
}
