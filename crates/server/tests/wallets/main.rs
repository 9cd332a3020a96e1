//! Real wallets and clients over our server on a real node: the Electrum wallet, the crate `electrum-client`, and
//! Sparrow's requests word by word.
#![expect(clippy::unwrap_used, reason = "tests")]

mod client_crate;
mod electrum_wallet;
mod facts;
mod sparrow;

use std::path::Path;

use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::peers::{Birdhouse, Home, Peer};
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};

/// A node with a chain, and the server on it. The server goes first.
struct World {
    server: Peer,
    node: Bitcoind,
    chain: ChainBuilder,
}

impl World {
    /// The sample chain, with its transactions of every kind.
    fn sample() -> Self {
        Self::on(mix::sample(7, Size::SMALL))
    }

    fn on(chain: ChainBuilder) -> Self {
        let node = Bitcoind::start(Options::default()).unwrap();
        chain.submit_to(&node).unwrap();
        let program = Path::new(env!("CARGO_BIN_EXE_birdhouse"));
        let server = Birdhouse::start_in(&node, Home::Temporary, program, &[]).unwrap();
        Self { server, node, chain }
    }

    /// Hands the node what it lacks of the chain.
    fn publish(&self) {
        self.chain.submit_to(&self.node).unwrap();
    }
}
