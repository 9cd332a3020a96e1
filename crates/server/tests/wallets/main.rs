//! Real wallets and clients over our server on a real node: the Electrum wallet, the crates `electrum-client` and
//! `bdk_electrum`, mempool.space's client, and Sparrow's requests. The examples of the manual.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bdk;
mod client_crate;
mod dojo;
mod electrum_live;
mod electrum_wallet;
mod facts;
mod mempool_space;
mod old_blocks;
mod reference;
mod sparrow;

use std::path::Path;
use std::time::Duration;

use birdhouse_testkit::asked::{about, agrees};
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::peers::{Birdhouse, Home, Peer};
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use bitcoin::{ScriptBuf, Transaction};

const PROGRAM: &str = env!("CARGO_BIN_EXE_birdhouse");

/// A node with a chain, and its server, which is dropped first.
struct World {
    server: Peer,
    node: Bitcoind,
    chain: ChainBuilder,
}

impl World {
    /// Returns a world with the sample chain.
    fn sample() -> Self {
        Self::on(mix::sample(7, Size::SMALL))
    }

    fn on(chain: ChainBuilder) -> Self {
        let node = node_with(&chain);
        let server = serve(&node, Home::Temporary, &[]);
        Self { server, node, chain }
    }

    /// Submits the chain's new blocks to the node.
    fn publish(&self) {
        self.chain.submit_to(&self.node).unwrap();
    }
}

/// A node with a changing mempool and chain, and its server, which is dropped first.
struct LiveWorld {
    server: Peer,
    live: LiveNode,
}

impl LiveWorld {
    fn start(seed: u64) -> Self {
        let tiny = Size { blocks: 5, block_txs: 4, scripts_per_form: 10, busy: &[] };
        let live = LiveNode::start(seed, tiny, Options::default()).unwrap();
        let server = serve(live.node(), Home::Temporary, &[]);
        Self { server, live }
    }

    /// Sends an unconfirmed payment.
    fn pay(&mut self, script: &ScriptBuf, sat: u64) -> Transaction {
        self.live.pay(&[Payment::to_script(script.clone(), sat)]).unwrap()
    }

    /// Waits until the server has the node's chain and mempool.
    fn settle(&self) {
        agrees(&self.server, &about(&self.live.ledger().scripts()), Duration::from_mins(1)).unwrap();
    }
}

fn node_with(chain: &ChainBuilder) -> Bitcoind {
    let node = Bitcoind::start(Options::default()).unwrap();
    chain.submit_to(&node).unwrap();
    node
}

fn serve(node: &Bitcoind, home: Home, flags: &[&str]) -> Peer {
    Birdhouse::start_in(node, home, Path::new(PROGRAM), flags).unwrap()
}
