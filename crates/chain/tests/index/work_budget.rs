//! Answers within the work budget equal those without it, and there is none beyond a bound.

use std::fmt::Debug;
use std::sync::Arc;

use birdhouse_chain::{Index, Profile, Result, ScriptHash, Snapshot};
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix;
use birdhouse_testkit::script::{Form, Lock};

use crate::common::{MemoryNode, built};

/// The first script that the chains of these tests pay often.
pub(crate) const BUSY: u32 = 810_000;

/// The answers about a script that [`within_budget`] compares.
const ALL: &[&str] = &["history", "status", "balance", "unspent"];

/// Compares the answers about a script within the budget with those without it. Returns the names of the former.
pub(crate) fn within_budget(at: &Snapshot, scripthash: &ScriptHash, context: &str) -> Vec<&'static str> {
    let is_within = [
        is_within(at, context, |at| at.history(scripthash)),
        is_within(at, context, |at| at.status(scripthash)),
        is_within(at, context, |at| at.balance(scripthash)),
        is_within(at, context, |at| at.unspent(scripthash)),
    ];
    ALL.iter().zip(is_within).filter(|(_, is_within)| *is_within).map(|(name, _)| *name).collect()
}

fn is_within<T: Debug + PartialEq>(at: &Snapshot, context: &str, ask: impl Fn(&Snapshot) -> Result<T>) -> bool {
    let answer = at.within_budget(&ask).unwrap();
    let is_within = answer.is_some();
    assert_eq!(answer.unwrap_or_else(|| ask(at).unwrap()), ask(at).unwrap(), "{context}");
    is_within
}

pub(crate) struct World {
    pub(crate) chain: ChainBuilder,
    pub(crate) node: Arc<MemoryNode>,
    index: Index,
}

impl World {
    /// An index of a chain, as its build leaves it.
    pub(crate) fn built(chain: ChainBuilder, profile: Profile) -> Self {
        let node = Arc::<MemoryNode>::default();
        node.follow(chain.blocks());
        let index = built(&node, profile);
        Self { chain, node, index }
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.index.sync(&*self.node).unwrap();
        self.index.snapshot().unwrap()
    }

    fn within_budget(&self, number: u32) -> Vec<&'static str> {
        within_budget(&self.snapshot(), &scripthash(&self.chain, number), &format!("script {number}"))
    }
}

fn scripthash(chain: &ChainBuilder, number: u32) -> ScriptHash {
    ScriptHash::of(chain.wallet().script_pubkey(Lock::new(Form::P2wpkh, number)).as_bytes())
}

pub(crate) fn chain(busy: &[u32]) -> ChainBuilder {
    let mut chain = ChainBuilder::new(1);
    mix::mature(&mut chain);
    for (number, txs) in (BUSY..).zip(busy) {
        mix::busy_script(&mut chain, number, *txs);
    }
    chain
}

#[test]
fn a_script_has_answers_within_the_budget_up_to_its_bounds() {
    let mut world = World::built(chain(&[900, 1100, 6000, 20]), Profile::Full);
    assert_eq!(world.within_budget(BUSY), ALL);
    assert_eq!(world.within_budget(BUSY + 1), ["balance", "unspent"], "it has spent some outputs");
    // The sum of a long script's outputs is packed.
    assert_eq!(world.within_budget(BUSY + 2), ["balance"]);
    assert_eq!(world.within_budget(BUSY + 9), ALL, "a script without history");

    for (number, txs) in (BUSY..).zip([200, 0, 10, 300]) {
        mix::busy_script(&mut world.chain, number, txs);
    }
    world.node.follow(world.chain.blocks());
    assert_eq!(world.within_budget(BUSY), ALL[1..], "900 packed, 200 at the tip");
    assert_eq!(
        world.within_budget(BUSY + 2),
        ["status", "balance"],
        "rows of the tip carry the values that they spend"
    );
    assert_eq!(world.within_budget(BUSY + 3), [""; 0], "300 rows at the tip");
}

#[test]
fn without_txids_only_answers_that_need_none_are_within_the_budget() {
    let world = World::built(chain(&[10]), Profile::Lean);
    assert_eq!(world.within_budget(BUSY), ["balance"]);
    assert_eq!(world.within_budget(BUSY + 9), ALL, "a script without history");
}

#[test]
fn transactions_in_the_mempool_are_charged_too() {
    let mut chain = chain(&[300]);
    let all = chain.blocks().to_vec();
    let (last, before) = all.split_last().unwrap();
    chain.rollback_to(u32::try_from(before.len()).unwrap() - 1);
    let world = World::built(chain, Profile::Full);
    world.node.hold(last.txdata[1..=20].to_vec());
    assert_eq!(world.within_budget(BUSY), ALL);
    world.node.hold(last.txdata[1..].to_vec());
    assert_eq!(world.within_budget(BUSY), [""; 0]);
}

#[test]
fn a_large_transaction_and_one_that_cannot_be_proved_exceed_the_budget() {
    let mut chain = chain(&[1]);
    let blocks = chain.blocks().len();
    mix::large_vouts(&mut chain);
    let all = chain.blocks().to_vec();
    chain.rollback_to(u32::try_from(blocks).unwrap() - 1);
    let world = World::built(chain, Profile::Full);
    let unconfirmed: Vec<_> = all[blocks..].iter().flat_map(|block| block.txdata[1..].to_vec()).collect();
    world.node.hold(unconfirmed.clone());
    let at = world.snapshot();
    let is_within = |txid| is_within(&at, "bytes", |at| at.transaction_bytes(txid));
    let sizes = unconfirmed.iter().map(|tx| (tx.total_size(), is_within(tx.compute_txid())));
    let sizes: Vec<_> = sizes.collect();
    assert!(sizes.iter().all(|(bytes, is_within)| *is_within == (*bytes <= 16 << 10)), "{sizes:?}");
    assert!(sizes.iter().any(|size| size.1) && sizes.iter().any(|size| !size.1), "{sizes:?}");
    // This node has no files, and so no positions.
    assert!(!is_within(all[blocks - 1].txdata[1].compute_txid()));
}
