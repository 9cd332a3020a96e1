//! `ElectrumX` 2.0.0.

use std::ffi::OsString;
use std::fs;

use birdhouse_regtest::bitcoind::Bitcoind;
use birdhouse_regtest::child_guard::Launch;
use birdhouse_regtest::program::find_program;

use super::peer::{Home, Kind, Peer};
use crate::error::{Result, at};

/// Starts the server without a delay of small answers. Against eavesdroppers it pads answers to 1 KiB and delays
/// smaller ones by up to a second. Tests compare thousands of small answers, and the delay has no setting.
const AT_ONCE: &str = "\
from electrumx.server.transport import PaddedRSTransport
PaddedRSTransport.WAIT_FOR_BUFFER_GROWTH_SECONDS = 0
from electrumx.cli.electrumx_server import main
main()";

/// `ElectrumX` 2.0.0 (`e-x` on `PyPI`), from `scripts/peers e-x`. The node must run with
/// [`Options::with_indexes`](crate::Options::with_indexes), and must not restart meanwhile, because its cookie would
/// change.
#[derive(Debug)]
pub struct ElectrumX;

impl ElectrumX {
    /// Settings that change its defaults, besides addresses and folders. It polls the node every 100 ms, not every five
    /// seconds. Its limits protect a public server; an oracle has to answer everything.
    pub const SETTINGS: [(&str, &str); 10] = [
        ("DB_ENGINE", "leveldb"),
        ("DAEMON_POLL_INTERVAL_BLOCKS", "100"),
        ("DAEMON_POLL_INTERVAL_MEMPOOL", "100"),
        ("COST_SOFT_LIMIT", "0"),
        ("COST_HARD_LIMIT", "0"),
        ("REQUEST_SLEEP", "0"),
        ("INITIAL_CONCURRENT", "1000"),
        ("MAX_SEND", "2000000000"),
        ("REQUEST_TIMEOUT", "3600"),
        ("SESSION_TIMEOUT", "86400"),
    ];

    /// Starts the server on the node, and waits until it serves the node's tip.
    pub fn start(node: &Bitcoind) -> Result<Peer> {
        Self::start_in(node, Home::Temporary)
    }

    /// Starts the server with its index in `home`, and waits until it serves the node's tip.
    pub fn start_in(node: &Bitcoind, home: Home) -> Result<Peer> {
        let cached = "birdhouse/e-x-2.0.0/bin/electrumx_server";
        let server = find_program("electrumx_server", "ELECTRUMX_SERVER", None, cached, "scripts/peers e-x")?;
        let cookie = fs::read_to_string(node.cookie()).map_err(at(node.cookie()))?;
        let daemon_url = format!("http://{cookie}@127.0.0.1:{}/", node.rpc_port());
        Peer::start(Kind::ElectrumX, node, home, |folder, port| {
            let index = folder.join("index");
            fs::create_dir_all(&index).map_err(at(&index))?;
            let locations = [
                ("ALLOW_ROOT", "1".into()),
                ("COIN", "Bitcoin".into()),
                ("NET", "regtest".into()),
                ("DAEMON_URL", daemon_url.clone()),
                ("SERVICES", format!("tcp://127.0.0.1:{port}")),
                ("PEER_DISCOVERY", "off".into()),
                ("PEER_ANNOUNCE", String::new()),
                ("MAX_RECV", "100000000".into()),
            ];
            let settings = Self::SETTINGS.map(|(name, value)| (name, value.to_owned()));
            let mut envs: Vec<(String, OsString)> =
                locations.into_iter().chain(settings).map(|(name, value)| (name.to_owned(), value.into())).collect();
            envs.push(("DB_DIRECTORY".into(), index.into()));
            let python = server.with_file_name("python3");
            let (program, args) = if python.is_file() {
                (python, vec!["-c".into(), AT_ONCE.into()])
            } else {
                (server.clone(), Vec::new())
            };
            Ok(Launch { program, args, envs, log: folder.join("electrumx.log") })
        })
    }
}
