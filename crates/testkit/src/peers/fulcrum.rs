//! Fulcrum 2.1.1.

use std::env;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use birdhouse_regtest::bitcoind::Bitcoind;
use birdhouse_regtest::child_guard::Launch;

use super::peer::{Home, Kind, Peer};
use crate::error::{Error, Result, at};

/// `cculianu/Fulcrum` 2.1.1, the program that `$FULCRUM` names. The node must run with
/// [`Options::with_indexes`](crate::Options::with_indexes).
#[derive(Debug)]
pub struct Fulcrum;

impl Fulcrum {
    /// Settings that change its defaults, besides addresses and folders. By default its throttle pauses for 200 ms at a
    /// batch of 50 transactions, a history of more than 125 000 transactions is answered as empty, a reply of more than
    /// 8 MB ends the connection, and the node is polled every two seconds. Core 31.99 delays a request that follows
    /// another one on a connection by 50 ms, so with the default of three connections to the node 50 transactions take
    /// 0.7 s.
    pub const SETTINGS: [(&str, &str); 7] = [
        ("bitcoind_clients", "50"),
        ("bitcoind_throttle", "5000 1000 1000"),
        ("max_history", "25000000"),
        ("max_buffer", "100000000"),
        ("max_clients_per_ip", "0"),
        ("max_batch", "5000"),
        ("polltime", "0.5"),
    ];

    /// Starts the server with its index in `home`, and waits until it serves the node's tip.
    pub fn start_in(node: &Bitcoind, home: Home) -> Result<Peer> {
        let unnamed = Error::Unnamed { program: "Fulcrum 2.1.1", variable: "FULCRUM" };
        let program = PathBuf::from(env::var_os("FULCRUM").ok_or(unnamed)?);
        Peer::start(Kind::Fulcrum, node, home, |folder, port| {
            let index = folder.join("index");
            fs::create_dir_all(&index).map_err(at(&index))?;
            let locations = [
                ("datadir", index.display().to_string()),
                ("bitcoind", format!("127.0.0.1:{}", node.rpc_port())),
                ("rpccookie", node.cookie().display().to_string()),
                ("tcp", format!("127.0.0.1:{port}")),
                ("peering", "false".into()),
                ("announce", "false".into()),
            ];
            let mut text = String::new();
            for (name, value) in
                locations.into_iter().chain(Self::SETTINGS.map(|(name, value)| (name, value.to_owned())))
            {
                writeln!(text, "{name} = {value}").expect("writing to a string never fails");
            }
            let config = folder.join("fulcrum.conf");
            fs::write(&config, text).map_err(at(&config))?;
            let args: Vec<OsString> = vec![config.into()];
            Ok(Launch { program: program.clone(), args, envs: Vec::new(), log: folder.join("fulcrum.log") })
        })
    }
}
