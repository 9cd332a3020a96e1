//! The two clocks. A duration is a difference of [`elapsed`], which no setting of the system's clock moves. What
//! belongs to the protocol (`created_at`, `since`, windows of time, places of streams) is of the [`WallClock`].

use std::fmt;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// The beginning of [`elapsed`].
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The clock that people set, which may jump either way.
#[derive(Clone)]
pub struct WallClock(Arc<dyn Fn() -> u64 + Send + Sync>);

impl WallClock {
    /// The system's clock.
    #[expect(clippy::disallowed_methods, reason = "the clock: the rest of the crate takes it as an argument")]
    pub fn system() -> Self {
        Self::new(|| SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }

    /// A clock that returns the seconds since 1970.
    pub fn new(seconds: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(seconds))
    }

    /// Returns the seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("WallClock")
    }
}

/// Returns the time since the first call in this process. It never goes back.
pub(crate) fn elapsed() -> Duration {
    BEGAN.elapsed()
}
