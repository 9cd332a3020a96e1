//! Files of settings that a real node reads: it is found where they put it.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use birdhouse_node::{NodeConf, NodeOptions, Rpc};
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::child_guard::{ChildGuard, Launch};
use birdhouse_testkit::program::find_bitcoind;
use serde_json::{Value, json};

const PATIENCE: Duration = Duration::from_mins(1);
const LOOK: Duration = Duration::from_millis(50);

/// Starts a node with this `bitcoin.conf`, and asks it for its chain as the settings say.
fn chain_of(conf: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("bitcoin.conf"), conf).unwrap();
    let more = "[regtest]\nrpcport=1\nrpcuser=more\n";
    fs::write(dir.path().join("more.conf"), more).unwrap();
    let args = vec![format!("-datadir={}", dir.path().display()).into(), "-listen=0".into(), "-connect=0".into()];
    let log = dir.path().join("log");
    let launch = Launch { program: find_bitcoind().unwrap(), args, envs: Vec::new(), log: log.clone() };
    let _node = ChildGuard::spawn(launch).unwrap();
    let options = NodeOptions { node_dir: Some(dir.path().into()), ..NodeOptions::default() };
    let found = NodeConf::find(&options, None).unwrap();
    let began = Instant::now();
    loop {
        let rpc = Rpc::new(&found.rpc_address, found.auth.clone());
        match rpc.call::<Value>("getblockchaininfo", &json!([])) {
            Ok(info) => return info["chain"].as_str().unwrap().to_owned(),
            Err(error) => {
                let log = || fs::read_to_string(&log).unwrap_or_default();
                assert!(began.elapsed() < PATIENCE, "{found:?}: {error}\n{conf}\n{}", log());
            }
        }
        sleep(LOOK);
    }
}

#[test]
fn a_node_is_found_where_keys_that_stand_twice_put_it() {
    let [port, other] = [free_port().unwrap(), free_port().unwrap()];
    for conf in [
        // The first wins.
        format!("regtest=1\n[regtest]\nrpcport={port}\nrpcport={other}\n"),
        format!("regtest=1\nrpcuser=a\nrpcuser=b\nrpcpassword=c\nrpcpassword=d\nregtest.rpcport={port}\n"),
        format!("regtest=1\nincludeconf=more.conf\nrpcpassword=c\n[regtest]\nrpcport={port}\nrpcuser=first\n"),
        // A negated key erases what stands before it.
        format!("regtest=1\n[regtest]\nrpcport={other}\nnorpcport=1\nrpcport={port}\n"),
        format!("regtest=1\nrpcuser=a\nrpcpassword=b\nnorpcpassword=1\nrpcpassword=c\n[regtest]\nrpcport={port}\n"),
        // Of the flags that choose the chain, the last wins.
        format!("signet=1\nregtest=0\nregtest=1\nsignet=0\n[regtest]\nrpcport={port}\n"),
        format!("signet=1\nnosignet=1\nregtest=1x\n[regtest]\nrpcport={port}\n"),
        // rpcconnect is for clients.
        format!("regtest=1\n[regtest]\nrpcconnect=127.0.0.1:{other}\nrpcport={port}\n"),
        format!("regtest=1\n[regtest]\nrpcbind=::1\nrpcallowip=::1\nrpcconnect=::1\nrpcport={port}\n"),
    ] {
        assert_eq!(chain_of(&conf), "regtest", "{conf}");
    }
}
