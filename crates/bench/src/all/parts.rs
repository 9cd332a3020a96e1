//! The parts of the report: which commands, with how much.

use std::path::Path;

use super::Size;
use super::made::{CHAIN, EVENTS, NEW_EVENTS, QUERIES, SAMPLES};

/// A run of this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) name: &'static str,
    pub(super) args: Vec<String>,
}

/// In the order of the report. `tip` is last of those with a chain, for it makes the chain longer.
pub(super) fn parts(size: Size, out: &Path, birdhouse: &Path, electrum: &[&str], relays: &[&str]) -> Vec<Part> {
    let in_out = |name: &str| out.join(name).display().to_string();
    let binary = ["--birdhouse".to_owned(), birdhouse.display().to_string()];
    let servers = [&["full", "lean"], electrum].concat().join(",");
    let chain = [
        "--chain".to_owned(),
        in_out(CHAIN),
        "--work".to_owned(),
        in_out("indexes"),
        "--servers".to_owned(),
        servers,
        binary[0].clone(),
        binary[1].clone(),
    ];
    let with_samples = [&chain[..], &["--samples".to_owned(), in_out(SAMPLES)]].concat();
    let relays = [&["birdhouse"], relays].concat().join(",");
    let relay =
        ["--servers".to_owned(), relays, "--work".to_owned(), in_out("relays"), binary[0].clone(), binary[1].clone()];
    let stored = ["--events".to_owned(), in_out(EVENTS), "--queries".to_owned(), in_out(QUERIES)];
    let new = [&relay[..], &["--events".to_owned(), in_out(NEW_EVENTS)]].concat();
    let mine = ["--work".to_owned(), in_out("nostream"), binary[0].clone(), binary[1].clone()];
    let part = |name, small: &str, parts: &[&[String]]| {
        let more = if size == Size::Small { small } else { "" };
        let args = std::iter::once(name).chain(more.split_whitespace()).map(str::to_owned);
        Part { name, args: args.chain(parts.concat()).collect() }
    };
    vec![
        part("build", "", &[&chain]),
        part("wallet", "", &[&with_samples]),
        part("latency", "--scripts 25 --budget-ms 500", &[&with_samples]),
        part("throughput", "--seconds 2 --rounds 2", &[&with_samples]),
        part("tip", "--blocks 3 --transactions 3", &[&with_samples]),
        part("idle", "--connections 1000", &[&binary]),
        part("attack", "--rounds 1 --seconds 2", &[&binary]),
        part("relay", "--passes 6 --budget-s 1", &[&relay, &stored]),
        part("relay-ingest", "--count 4000", &[&new]),
        part("relay-fan-out", "--paced 100 --burst 300 --subscribers 50 --skip 10000", &[&new]),
        part("nostream", "", &[&stored, &mine]),
    ]
}
