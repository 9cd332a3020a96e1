//! The servers under test on one node: one gets changes by ZMQ, the other polls.

use std::path::Path;
use std::time::Duration;

use birdhouse_testkit::Options;
use birdhouse_testkit::asked::{Asked, about, agrees};
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::peers::{Birdhouse, Home, Peer};
use birdhouse_testkit::sequence::SequencePublisher;

/// Some hundred scripts, one of them with a long history.
pub(crate) const TINY: Size = Size { blocks: 20, block_txs: 6, scripts_per_form: 30, busy: &[10, 300] };
/// Bound for a busy machine; the measured time is printed. Without ZMQ, where listings of the mempool take long, the
/// next one comes after half of it.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);

/// A server and its name in messages.
pub(crate) struct Server {
    pub(crate) name: &'static str,
    pub(crate) peer: Peer,
}

impl Server {
    /// Waits until all answers are as expected; returns the time that took.
    pub(crate) fn agrees(&self, asked: &[Asked], patience: Duration, context: &str) -> Duration {
        agrees(&self.peer, asked, patience).unwrap_or_else(|error| panic!("{context}: {}: {error}", self.name))
    }
}

/// Both servers, the node, and the publisher of its changes. The servers are dropped first.
pub(crate) struct World {
    pub(crate) birds: Vec<Server>,
    pub(crate) publisher: SequencePublisher,
    pub(crate) live: LiveNode,
}

impl World {
    pub(crate) fn start(seed: u64, options: Options) -> Self {
        let live = LiveNode::start(seed, TINY, options.logging_changes()).unwrap();
        let publisher = SequencePublisher::start(live.node()).unwrap();
        let zmq = publisher.address();
        let birds = vec![
            Server { name: "Birdhouse with ZMQ", peer: bird(&live, &["--zmq-sequence-addr", &zmq]) },
            Server { name: "Birdhouse without ZMQ", peer: bird(&live, &[]) },
        ];
        publisher.wait_for_subscriber().unwrap();
        Self { birds, publisher, live }
    }

    /// Waits until the answers of both servers match the node's chain and mempool.
    pub(crate) fn settle(&self, context: &str) {
        let asked = about(&self.live.ledger().scripts());
        for bird in &self.birds {
            let took = bird.agrees(&asked, PATIENCE, context);
            println!("{context}: {}: right after {took:?}", bird.name);
        }
    }
}

/// Returns the launch of a Birdhouse process.
pub(crate) fn bird(live: &LiveNode, args: &[&str]) -> Peer {
    Birdhouse::start_in(live.node(), Home::Temporary, Path::new(env!("CARGO_BIN_EXE_birdhouse")), args).unwrap()
}
