//! `romanz/electrs` 0.12.0.

use std::ffi::OsString;

use birdhouse_regtest::bitcoind::{Bitcoind, free_port};
use birdhouse_regtest::child_guard::Launch;
use birdhouse_regtest::program::find_program;

use super::peer::{Home, Kind, Peer};
use crate::error::Result;

/// `romanz/electrs` 0.12.0, from `scripts/peers electrs`. The node must run with `-rest=1`.
#[derive(Debug)]
pub struct Electrs;

impl Electrs {
    /// Flags that change its defaults, besides addresses and folders: it polls the node every second, not every ten.
    pub const FLAGS: [&str; 1] = ["--wait-duration-secs=1"];

    /// Starts the server on the node, and waits until it serves the node's tip.
    pub fn start(node: &Bitcoind) -> Result<Peer> {
        Self::start_in(node, Home::Temporary)
    }

    /// Starts the server with its index in `home`, and waits until it serves the node's tip.
    pub fn start_in(node: &Bitcoind, home: Home) -> Result<Peer> {
        let cached = "birdhouse/electrs-0.12.0/bin/electrs";
        let program = find_program("electrs", "ELECTRS", None, cached, "scripts/peers electrs")?;
        Peer::start(Kind::Electrs, node, home, |folder, port| {
            let mut args: Vec<OsString> = Self::FLAGS.map(OsString::from).to_vec();
            args.extend([
                "--skip-default-conf-files".into(),
                "--network=regtest".into(),
                "--log-filters=info".into(),
                format!("--daemon-rpc-addr=127.0.0.1:{}", node.rpc_port()).into(),
                format!("--electrum-rpc-addr=127.0.0.1:{port}").into(),
                format!("--monitoring-addr=127.0.0.1:{}", free_port()?).into(),
            ]);
            let paths = [
                ("--cookie-file=", node.cookie()),
                ("--daemon-dir=", node.datadir().to_owned()),
                ("--db-dir=", folder.join("index")),
            ];
            args.extend(paths.map(|(flag, path)| {
                let mut arg = OsString::from(flag);
                arg.push(path);
                arg
            }));
            Ok(Launch { program: program.clone(), args, envs: Vec::new(), log: folder.join("electrs.log") })
        })
    }
}
