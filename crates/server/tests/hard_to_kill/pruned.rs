//! A node that prunes by hand, beside a twin that keeps every block and has the same chain.

use std::ops::Range;
use std::time::Duration;

use birdhouse_chain::{Profile, ScriptHash};
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::rng::Rng;
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use bitcoin::consensus::encode::serialize_hex;
use serde_json::json;

use super::bird::fresh_answers;
use super::{Home, grow, rounds};

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
        self.kept().0
    }

    /// Returns the lowest height that the node keeps, and the bytes of its blocks.
    fn kept(&self) -> (u64, u64) {
        let info = self.pruned.rpc("getblockchaininfo", json!([])).unwrap();
        (info["pruneheight"].as_u64().unwrap(), info["size_on_disk"].as_u64().unwrap())
    }

    fn assert_same_answers(&self, home: &Home, context: &str) {
        assert_same_answers(home, &self.twin, &self.chain, context);
    }
}

/// Proves that every script has the answers that an index beside the twin has.
pub(super) fn assert_same_answers(home: &Home, twin: &Bitcoind, chain: &ChainBuilder, context: &str) {
    let fresh = fresh_answers(twin, chain, home.profile);
    home.answers_of_scripts(chain).assert_equal(&fresh.without_transactions(), context);
    // The blocks of the twin have the transactions, which lie elsewhere in its files.
    home.answers_with(&twin.blocks_dir(), chain).assert_equal(&fresh, context);
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

#[test]
fn unconfirmed_transactions_may_spend_outputs_of_deleted_blocks() {
    let pruned = Bitcoind::start(Options::default().arg("-fastprune").arg("-prune=1")).unwrap();
    let mut chain = ChainBuilder::new(77);
    chain.mine(900);
    chain.submit_to(&pruned).unwrap();
    let home = Home::new(&pruned, Profile::Full);
    home.index();
    assert!(pruned.prune(600).unwrap() > 100);
    let server = home.start("run");
    home.wait_for_tip(&chain);

    let coin = chain.coins().min_by_key(|coin| coin.spendable_from).unwrap().clone();
    assert!(coin.spendable_from < 200, "a coinbase of a deleted block");
    let script = chain.wallet().foreign_address(1).script_pubkey();
    let txid = chain.spend(std::slice::from_ref(&coin), &[Payment::to_script(script, coin.sat() - 3000)]);
    let block = chain.mine_block();
    let transaction = block.txdata.iter().find(|tx| tx.compute_txid() == txid).unwrap();
    pruned.rpc("sendrawtransaction", json!([serialize_hex(transaction)])).unwrap();
    for script in [&coin.output.script_pubkey, &transaction.output[0].script_pubkey] {
        let scripthash = ScriptHash::of(script.as_bytes()).to_string();
        let listed = || home.ask("blockchain.scripthash.get_mempool", json!([scripthash]));
        let expected = json!([{ "tx_hash": txid.to_string(), "height": 0, "fee": 3000 }]);
        home.wait_until("the transaction is listed", || listed() == Some(expected.clone()));
    }
    drop(server);
}

/// Bounds for chains of these tests.
pub(super) const SMALL_BOUNDS: [&str; 2] = ["--node-prune-margin=150", "--node-prune-step=100000"];

fn prune(home: &Home, more: &[&str]) -> (bool, String) {
    home.output("prune", &[&SMALL_BOUNDS, more].concat())
}

#[test]
fn the_command_deletes_after_a_yes_what_every_index_has() {
    let mut twins = Twins::new(73);
    let home = Home::new(&twins.pruned, Profile::Full);
    home.index();
    let (_, bytes) = twins.kept();

    // An index that is switched on and has no block yet.
    let (done, said) = prune(&home, &["--keep=0KB", "--yes", "--silent-payments=scan"]);
    assert!(done && said.contains("Up to height 0,") && twins.kept() == (0, bytes), "{said}");
    let (done, said) = prune(&home, &["--keep=0KB", "--silent-payments=off"]);
    assert!(done && said.contains("dry run") && said.contains("verify --all") && twins.kept() == (0, bytes), "{said}");
    let (done, said) = prune(&home, &["--keep=1GB", "--yes"]);
    assert!(done && said.contains("no more than that") && twins.kept() == (0, bytes), "{said}");
    let (done, said) = home.output("prune", &["--keep=0KB", "--yes", "--node-prune-margin=150"]);
    assert!(done && said.contains("too little") && twins.kept() == (0, bytes), "{said}");

    let (done, said) = prune(&home, &["--keep=0KB", "--yes"]);
    let (first, left) = twins.kept();
    assert!(done && said.contains(&format!("from height {first} on")), "{said}");
    let last = u64::from(twins.chain.height() - 288);
    assert!(100 < first && first <= last + 1 && left < bytes, "{first} {left} {bytes}");
    twins.assert_same_answers(&home, "pruned");

    // A running server does it, as far as its own bounds allow.
    let home = home.arg(SMALL_BOUNDS[0]).arg(SMALL_BOUNDS[1]);
    let server = home.start("run");
    twins.grow(200);
    home.wait_for_tip(&twins.chain);
    let (_, bytes) = twins.kept();
    let keep = format!("--keep={}KB", (bytes - 200_000) / 1000);
    let (done, said) = home.output("prune", &[&keep, "--yes"]);
    let (next, left) = twins.kept();
    // Whole files of 64 KiB go, and their undo data.
    assert!(done && next > first && left < bytes && bytes - left <= 300_000, "{left} {bytes}: {said}");
    drop(server);
    twins.assert_same_answers(&home, "pruned by the server");
}

#[test]
fn a_node_that_does_not_leave_it_to_us_and_a_lean_index_are_refused() {
    let twins = Twins::new(74);
    let refused = |home: &Home| {
        home.index();
        let (done, said) = prune(home, &["--keep=0KB", "--yes"]);
        assert!(!done, "{said}");
        said
    };
    let said = refused(&Home::new(&twins.twin, Profile::Full));
    assert!(said.contains("keeps every block") && said.contains("prune=1"), "{said}");
    let lean = Home::new(&twins.pruned, Profile::Lean);
    let said = refused(&lean);
    assert!(said.contains("profile lean") && twins.kept().0 == 0, "{said}");
    let first = twins.prune_all();
    let (_, said) = lean.output("doctor", &[]);
    assert!(said.contains("reads txids") && said.contains(&format!("below {first}")), "{said}");
}

#[test]
fn the_setting_prunes_as_the_chain_grows_and_frees_the_space() {
    let mut twins = Twins::new(75);
    let home = Home::new(&twins.pruned, Profile::Full);
    let home = home.arg(SMALL_BOUNDS[0]).arg(SMALL_BOUNDS[1]).arg("--node-prune-keep=300KB");
    let server = home.start("run");
    let mut first = 0;
    for _ in 0..3 {
        home.wait_until("the node is pruned", || twins.kept().0 > first);
        // Before the chain grows: the server may prune what it has of it before the twin has it.
        first = twins.kept().0;
        assert!(first <= u64::from(twins.chain.height() - 288) + 1);
        twins.grow(150);
        home.wait_for_tip(&twins.chain);
    }
    let open = format!("/proc/{}/fd", server.pid());
    let blocks = twins.pruned.blocks_dir().display().to_string();
    let is_deleted = |to: &str| to.starts_with(&blocks) && to.ends_with(" (deleted)");
    home.wait_until("deleted files are closed", || {
        let links = std::fs::read_dir(&open).unwrap().filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
        !links.into_iter().any(|to| is_deleted(&to.to_string_lossy()))
    });
    drop(server);
    twins.assert_same_answers(&home, "pruned by the setting");
}

/// Disturbances between two complete comparisons.
const DISTURBANCES: u32 = 10;

#[test]
fn kills_and_prunings_at_random_leave_the_answers_of_the_twin() {
    disturb(rounds(3));
}

#[test]
#[ignore = "long: BIRDHOUSE_ROUNDS rounds of ten disturbances each"]
fn kills_and_prunings_at_random_for_many_rounds() {
    disturb(rounds(50));
}

fn disturb(rounds: Range<u64>) {
    let mut twins = Twins::new(76);
    let home = Home::new(&twins.pruned, Profile::Full).arg(SMALL_BOUNDS[0]).arg(SMALL_BOUNDS[1]);
    home.index();
    let mut prunings = 0;
    for round in rounds {
        let seed = 0x7072_756e_6564 + round;
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut server = home.start("run");
        for _ in 0..DISTURBANCES {
            let more = 1 + u32::try_from(rng.below(30)).unwrap();
            match rng.below(6) {
                0 | 1 => twins.grow(more),
                2 => {
                    let fork = twins.chain.height() - more;
                    twins.chain.rollback_to(fork);
                    twins.grow(more + 1);
                }
                3 => {
                    // It is refused while the server starts, or the node does.
                    let keep = format!("--keep={}KB", rng.below(300));
                    prunings += u32::from(home.output("prune", &[&keep, "--yes"]).1.contains("Freed"));
                }
                4 => {
                    // The node forgets the blocks since its last flush.
                    twins.pruned.kill9();
                    twins.pruned.restart().unwrap();
                    twins.submit();
                }
                _ => {
                    drop(server);
                    server = home.start("run");
                }
            }
            // A random moment of the server's work, not a wait for a condition.
            std::thread::sleep(Duration::from_millis(rng.below(300)));
        }
        home.wait_for_tip(&twins.chain);
        drop(server);
        twins.assert_same_answers(&home, &format!("seed {seed}"));
    }
    println!("{prunings} prunings, blocks from {} on", twins.kept().0);
    assert!(prunings > 0);
}
