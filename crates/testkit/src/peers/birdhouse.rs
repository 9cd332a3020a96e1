//! Birdhouse as a process of its own.

use std::ffi::OsString;
use std::path::Path;

use birdhouse_regtest::bitcoind::Bitcoind;
use birdhouse_regtest::child_guard::Launch;

use super::peer::{Home, Kind, Peer};
use crate::error::Result;

const LOG: &str = "birdhouse.log";

/// Birdhouse, from the path that a test or a benchmark names.
#[derive(Debug)]
pub struct Birdhouse;

impl Birdhouse {
    /// Runs `program` on the node with more `args`, and waits until it serves the node's tip. Its `--data-dir` is the
    /// home itself, so an index that `birdhouse index` built there is used.
    pub fn start_in(node: &Bitcoind, home: Home, program: &Path, args: &[&str]) -> Result<Peer> {
        Self::start_with(node, home, program, args, &[])
    }

    /// As [`Self::start_in`], with variables of the environment.
    pub fn start_with(
        node: &Bitcoind,
        home: Home,
        program: &Path,
        args: &[&str],
        envs: &[(String, OsString)],
    ) -> Result<Peer> {
        Ok(Peer::start(Kind::Birdhouse, node, home, |folder, port| {
            let mut all: Vec<OsString> = ["run", "--network", "regtest", "--node-dir"].map(Into::into).to_vec();
            all.extend([node.datadir().into(), "--data-dir".into(), folder.into()]);
            all.extend(["--rpc-addr".into(), format!("127.0.0.1:{}", node.rpc_port()).into()]);
            all.extend(["--electrum-addr".into(), format!("127.0.0.1:{port}").into()]);
            all.extend(args.iter().map(OsString::from));
            Ok(Launch { program: program.to_owned(), args: all, envs: envs.to_vec(), log: folder.join(LOG) })
        })?
        .with_index_in("regtest"))
    }
}
