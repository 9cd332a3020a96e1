//! Runs a Bitcoin Core without a wallet behind a front that has one, with the command line of `bitcoind`: what test
//! suites of other projects start as `BITCOIND_EXE`.

#![forbid(unsafe_code)]

use std::env;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use anyhow::Context;
use birdhouse_testkit::node_wallet::Front;
use birdhouse_testkit::{Bitcoind, Options};

/// Core's default, for suites that mine with today's clock: at genesis the node is in initial block download, and they
/// wait for its end.
const TIP_AGE: &str = "-maxtipage=86400";
/// Fee rate if no `-fallbackfee` is given.
const RATE_SAT_VB: u64 = 10;
const SAT_VB_PER_BTC_KVB: f64 = 1e5;

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let datadir = PathBuf::from(value(&args, "-datadir").context("-datadir is missing")?);
    let port: u16 =
        value(&args, "-rpcport").context("-rpcport is missing")?.parse().context("failed to parse -rpcport")?;
    let mut options = Options::default().in_datadir(datadir).arg(TIP_AGE);
    for arg in args.iter().filter(|arg| !arg.starts_with("-datadir=") && !arg.starts_with("-rpcport=")) {
        options = options.arg(arg);
    }
    let front = Front::new(Bitcoind::start(options)?, rate_sat_vb(&args));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).context("failed to listen on -rpcport")?;
    match tokio::runtime::Runtime::new()?.block_on(front.serve(listener))? {}
}

fn value<'a>(args: &'a [String], name: &str) -> Option<&'a str> {
    args.iter().find_map(|arg| arg.strip_prefix(name)?.strip_prefix('='))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fee rate is small and positive")]
fn rate_sat_vb(args: &[String]) -> u64 {
    let given = value(args, "-fallbackfee").and_then(|btc_kvb| btc_kvb.parse::<f64>().ok());
    given.map_or(RATE_SAT_VB, |btc_kvb| (btc_kvb * SAT_VB_PER_BTC_KVB).round() as u64)
}
