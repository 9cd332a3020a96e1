//! The parts of the report: their commands and sizes.

use std::path::Path;

use super::inputs::{CHAIN, EVENTS, NEW_EVENTS, QUERIES, SAMPLES};
use super::size::Size;

/// A run of this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) args: Vec<String>,
}

/// Returns the parts in the order of the report. `tip` is the last one with a chain, because it mines blocks.
pub(super) fn parts(size: Size, out: &Path, birdhouse: &Path, electrum: &[&str], relays: &[&str]) -> Vec<Part> {
    let in_out = |name: &str| out.join(name).display().to_string();
    let [chain, indexes, samples] = [CHAIN, "indexes", SAMPLES].map(in_out);
    let [events, queries, new_events] = [EVENTS, QUERIES, NEW_EVENTS].map(in_out);
    let [filled, nostream] = ["relays", "nostream"].map(in_out);
    let birdhouse = birdhouse.display().to_string();
    let electrum = [&["full", "lean"], electrum].concat().join(",");
    let relays = [&["birdhouse"], relays].concat().join(",");

    let binary = ["--birdhouse", &birdhouse];
    let chain = ["--chain", &chain, "--work", &indexes, "--servers", &electrum];
    let samples = ["--samples", &samples];
    let relay = ["--work", &filled, "--servers", &relays];
    let stored = ["--events", &events, "--queries", &queries];
    let new = ["--events", &new_events];
    let nostream = ["--work", &nostream];
    let part = |name, small: &str, parts: &[&[&str]]| {
        let more = if size == Size::Small { small } else { "" };
        let args = [name].into_iter().chain(more.split_whitespace()).chain(binary);
        Part { name, args: args.chain(parts.concat()).map(str::to_owned).collect() }
    };
    vec![
        part("build", "", &[&chain]),
        part("wallet", "", &[&chain, &samples]),
        part("latency", "--scripts 25 --budget-ms 500", &[&chain, &samples]),
        part("throughput", "--seconds 2 --rounds 2 --connections 20 --window 20", &[&chain, &samples]),
        part("rest", "--scripts 10 --passes 4 --requests 100 --seconds 1", &[&chain, &samples]),
        part("tip", "--blocks 3 --transactions 3", &[&chain, &samples]),
        part("idle", "--connections 1000", &[]),
        part("attack", "--rounds 1 --seconds 2", &[]),
        part("relay", "--passes 6 --budget-s 1", &[&relay, &stored]),
        part("relay-ingest", "--count 4000", &[&relay, &new]),
        part("relay-fan-out", "--paced 100 --burst 300 --subscribers 50 --skip 10000", &[&relay, &new]),
        part("nostream", "", &[&stored, &nostream]),
    ]
}
