//! Shared by the crash tests: the binary as a child process, a node with a chain, and all answers of an index.

mod answers;
mod asking;
mod bird;
mod build;
mod burden;
mod disk;
mod download;
mod folders;
#[cfg(feature = "cluster")]
mod fronts;
mod history;
mod memory;
#[path = "../../../watch/tests/watch/naive.rs"]
mod naive;
mod node;
mod notices;
#[path = "../../../relay/tests/relay/npm.rs"]
#[expect(dead_code, reason = "the tests of the relay run scripts to their end")]
mod npm;
mod pruned;
mod receiver;
mod relay;
mod soak;
mod stand_in;
mod stream_clients;
mod streams;
mod tip;

use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::rng::{Rng, rounds};
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};

pub(crate) use bird::Home;

/// A node that holds a sample chain of this size.
fn node_with(seed: u64, size: Size) -> (Bitcoind, ChainBuilder) {
    let node = Bitcoind::start(Options::default()).unwrap();
    let chain = mix::sample(seed, size);
    chain.submit_to(&node).unwrap();
    (node, chain)
}

/// Adds blocks with a few transactions each.
fn grow(chain: &mut ChainBuilder, blocks: u32) {
    for _ in 0..blocks {
        mix::random_traffic(chain, 4, 30);
        chain.mine_block();
    }
}

/// Adds new blocks on top; or a longer branch from some blocks below; or invalidates the tip and adds a branch that is
/// no longer than before.
fn move_on(node: &Bitcoind, chain: &mut ChainBuilder, rng: &mut Rng) {
    let more = 1 + u32::try_from(rng.below(3)).unwrap();
    let deepest = if rng.per_mille(200) { 40 } else { 6 };
    let depth = 1 + u32::try_from(rng.below(deepest)).unwrap();
    match rng.below(4) {
        0 => {
            chain.rollback_to(chain.height() - depth);
            grow(chain, depth + more);
        }
        1 => {
            let fork = chain.height() - depth;
            node.invalidate(chain.blocks()[fork as usize + 1].block_hash()).unwrap();
            chain.rollback_to(fork);
            grow(chain, more);
        }
        _ => grow(chain, more),
    }
    chain.submit_to(node).unwrap();
    // An earlier branch may have as much work.
    while node.tip().unwrap() != chain.tip() {
        grow(chain, 1);
        chain.submit_to(node).unwrap();
    }
}
