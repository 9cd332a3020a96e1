//! Operation of a server on a real node: `birdhouse ctl`, backups, metrics and health, systemd's notifications,
//! settings, limits, peers and shutdown.
#![expect(clippy::unwrap_used, reason = "tests")]

mod alarms;
mod backup;
mod bench;
mod ctl;
mod dashboard;
mod demo;
mod derived;
mod doctor;
mod downloading;
mod ending;
mod exchange;
mod faults;
mod full_disk;
mod growing;
mod history;
mod index;
mod limits;
mod media;
mod members;
mod modes;
mod newcomer;
mod nginx;
mod onion;
mod own_wallets;
mod packaged;
mod peers;
mod private;
mod process;
mod pruned;
mod relay_alone;
mod relay_client;
mod retention;
mod rules;
mod scan_leaks;
mod secret;
mod signals;
mod silent;
mod silent_node;
mod silent_payments;
#[path = "../../../electrum/tests/electrum/silent_sender.rs"]
#[expect(dead_code, reason = "the tests of the Electrum protocol use all of it")]
mod silent_sender;
#[path = "../../../watch/tests/watch/spscan.rs"]
mod spscan;
mod streams;
mod systemd;
mod watch_secrets;
mod watches;
mod watching;

use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};

/// A node with a few blocks.
fn node() -> Bitcoind {
    chain_and_node().1
}

/// A few blocks, and a node that has them.
fn chain_and_node() -> (ChainBuilder, Bitcoind) {
    let mut chain = ChainBuilder::new(3);
    chain.mine(10);
    let node = Bitcoind::start(Options::default()).unwrap();
    chain.submit_to(&node).unwrap();
    (chain, node)
}
