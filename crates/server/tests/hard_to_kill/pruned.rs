//! A node that prunes by hand, beside a twin that keeps every block and has the same chain.

use birdhouse_chain::Profile;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use serde_json::json;

use super::bird::fresh_answers;
use super::{Home, grow};

const TINY: Size = Size { blocks: 5, block_txs: 3, scripts_per_form: 5, busy: &[] };

/// A chain, a node with files of 64 KiB that prunes by hand, and its twin.
struct Twins {
    chain: ChainBuilder,
    pruned: Bitcoind,
    twin: Bitcoind,
}

impl Twins {
    fn new(seed: u64) -> Self {
        let small = Options::default().arg("-fastprune");
        let pruned = Bitcoind::start(small.clone().arg("-prune=1")).unwrap();
        let mut twins = Self { chain: mix::sample(seed, TINY), pruned, twin: Bitcoind::start(small).unwrap() };
        twins.grow(420);
        twins
    }

    fn grow(&mut self, blocks: u32) {
        grow(&mut self.chain, blocks);
        self.submit();
    }

    fn submit(&self) {
        for node in [&self.pruned, &self.twin] {
            self.chain.submit_to(node).unwrap();
        }
    }

    /// Prunes as far as Core does; returns the lowest height that the node keeps.
    fn prune_all(&self) -> u64 {
        self.pruned.rpc("pruneblockchain", json!([self.chain.height()])).unwrap();
        self.pruned.rpc("getblockchaininfo", json!([])).unwrap()["pruneheight"].as_u64().unwrap()
    }

    /// Proves that every script has the answers that an index beside the twin has.
    fn assert_same_answers(&self, home: &Home, context: &str) {
        let fresh = fresh_answers(&self.twin, &self.chain, home.profile);
        home.answers_of_scripts(&self.chain).assert_equal(&fresh.without_transactions(), context);
        // The blocks of the twin have the transactions, which lie elsewhere in its files.
        home.answers_with(&self.twin.blocks_dir(), &self.chain).assert_equal(&fresh, context);
    }
}

#[test]
fn an_index_goes_on_beside_a_node_that_has_pruned_what_is_indexed() {
    let mut twins = Twins::new(71);
    let home = Home::new(&twins.pruned, Profile::Full);
    home.index();
    let first = twins.prune_all();
    assert!(first > 100, "{first}");
    twins.assert_same_answers(&home, "pruned");

    let server = home.start("run");
    home.wait_for_tip(&twins.chain);
    for more in 1..4 {
        twins.grow(more);
        home.wait_for_tip(&twins.chain);
    }
    let fork = twins.chain.height() - 20;
    twins.chain.rollback_to(fork);
    twins.grow(21);
    home.wait_for_tip(&twins.chain);
    drop(server);

    // Both were away, and the node has pruned more.
    twins.pruned.kill9();
    twins.pruned.restart().unwrap();
    twins.grow(40);
    assert!(twins.prune_all() > first);
    let server = home.start("run");
    home.wait_for_tip(&twins.chain);
    drop(server);
    twins.assert_same_answers(&home, "after restarts");
}

#[test]
fn a_first_build_needs_every_block_and_a_late_index_the_next_one() {
    let mut twins = Twins::new(72);
    let late = Home::new(&twins.pruned, Profile::Full);
    late.index();
    let indexed = twins.chain.height();
    twins.grow(420);
    let first = twins.prune_all();
    assert!(u64::from(indexed) + 1 < first, "{first}");

    let new = Home::new(&twins.pruned, Profile::Full);
    let (done, said) = new.output("index", &[]);
    assert!(!done && said.contains("lost block 0 ") && said.contains(&format!("below {first}")), "{said}");
    let (done, said) = late.output("index", &[]);
    assert!(!done && said.contains(&format!("lost block {} ", indexed + 1)), "{said}");
    // What is indexed is served.
    let _server = late.start("run");
    late.wait_for_log(0, &format!("the index ends at {indexed}"));
    assert_eq!(late.served_height(), Some(indexed));
}
