//! The maps compared with a list of transactions that is searched from end to end.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const SCRIPTS: u8 = 4;

/// A transaction by number: the outputs it spends and the scripts it pays.
#[derive(Debug, Clone)]
struct Draft {
    number: u8,
    spends: Vec<OutPoint>,
    pays: Vec<Option<ScriptHash>>,
}

#[derive(Debug, Clone)]
enum Change {
    Insert(Draft),
    Remove(u8),
    /// A block with this transaction, if the mempool holds it, and with another one that spends these outputs.
    Confirm(u8, Vec<OutPoint>),
}

fn txid(number: u8) -> Txid {
    Txid::from_byte_array([number; 32])
}

fn script(number: u8) -> ScriptHash {
    ScriptHash([number; 32])
}

/// The script of every output follows from its outpoint, as in a real chain.
fn owner(outpoint: &OutPoint) -> ScriptHash {
    script((outpoint.txid.to_byte_array()[0].wrapping_mul(7) ^ u8::try_from(outpoint.vout).unwrap()) % SCRIPTS)
}

fn outpoints() -> impl Strategy<Value = Vec<OutPoint>> {
    let outpoint = (0_u8..16, 0_u32..2).prop_map(|(number, vout)| OutPoint { txid: txid(number), vout });
    proptest::collection::btree_set(outpoint, 1..3).prop_map(|set| set.into_iter().collect())
}

fn draft() -> impl Strategy<Value = Draft> {
    // Parents have lower numbers, so there are no circles.
    (1_u8..16, outpoints()).prop_map(|(number, mut spends)| {
        spends.retain(|outpoint| outpoint.txid < txid(number));
        let mine = |vout| OutPoint { txid: txid(number), vout };
        let pays = (0..2).map(|vout| (u32::from(number % 5) != vout).then(|| owner(&mine(vout)))).collect();
        Draft { number, spends, pays }
    })
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        5 => draft().prop_map(Change::Insert),
        1 => (1_u8..16).prop_map(Change::Remove),
        1 => ((1_u8..16), outpoints()).prop_map(|(number, spent)| Change::Confirm(number, spent)),
    ]
}

impl Draft {
    fn transaction(&self) -> MempoolTransaction {
        let number = u64::from(self.number);
        let spend = |outpoint: &OutPoint| Spend {
            outpoint: *outpoint,
            scripthash: owner(outpoint),
            value: 1000,
            program: Program::Other,
        };
        MempoolTransaction {
            txid: txid(self.number),
            raw: vec![self.number].into(),
            fee: number * 10,
            vsize: 100 + number,
            weight: 400 + 4 * number,
            sigops: number * 4,
            first_seen: number,
            is_replaceable: false,
            spends: self.spends.iter().map(spend).collect(),
            pays: self
                .pays
                .iter()
                .map(|scripthash| Pay { scripthash: *scripthash, value: 400 + number, program: Program::Other })
                .collect(),
            tweak: None,
        }
    }
}

/// A list, searched from end to end.
#[derive(Debug, Default, Clone)]
struct Model(BTreeMap<u8, Draft>);

impl Model {
    fn apply(&mut self, change: &Change) {
        match change {
            Change::Insert(draft) if self.0.contains_key(&draft.number) => {}
            Change::Insert(draft) => {
                self.evict_spenders(&draft.spends);
                self.0.insert(draft.number, draft.clone());
            }
            Change::Remove(number) => self.evict(*number),
            Change::Confirm(number, spent) => {
                let spent_by = self.0.remove(number).map(|draft| draft.spends).unwrap_or_default();
                self.evict_spenders(&spent_by);
                self.evict_spenders(spent);
            }
        }
    }

    fn evict_spenders(&mut self, spent: &[OutPoint]) {
        let of = |draft: &&Draft| draft.spends.iter().any(|outpoint| spent.contains(outpoint));
        let numbers: Vec<u8> = self.0.values().filter(of).map(|draft| draft.number).collect();
        for number in numbers {
            self.evict(number);
        }
    }

    fn evict(&mut self, number: u8) {
        if self.0.remove(&number).is_some() {
            self.evict_spenders(&[0, 1].map(|vout| OutPoint { txid: txid(number), vout }));
        }
    }

    fn has_unconfirmed_inputs(&self, draft: &Draft) -> bool {
        draft.spends.iter().any(|outpoint| self.0.contains_key(&outpoint.txid.to_byte_array()[0]))
    }

    fn of_script(&self, scripthash: ScriptHash) -> Vec<(bool, String)> {
        let touches = |draft: &&Draft| {
            draft.pays.contains(&Some(scripthash)) || draft.spends.iter().any(|outpoint| owner(outpoint) == scripthash)
        };
        let entry = |draft: &Draft| (self.has_unconfirmed_inputs(draft), txid(draft.number).to_string());
        let mut entries: Vec<(bool, String)> = self.0.values().filter(touches).map(entry).collect();
        entries.sort();
        entries
    }

    fn unspent_of(&self, scripthash: ScriptHash) -> BTreeSet<OutPoint> {
        let spent: BTreeSet<OutPoint> = self.0.values().flat_map(|draft| draft.spends.clone()).collect();
        let outputs = self.0.values().flat_map(|draft| {
            let outpoints = (0..).map(|vout| OutPoint { txid: txid(draft.number), vout });
            outpoints.zip(draft.pays.clone()).filter(|(_, pay)| *pay == Some(scripthash)).map(|(outpoint, _)| outpoint)
        });
        outputs.filter(|outpoint| !spent.contains(outpoint)).collect()
    }

    fn balance_change(&self, scripthash: ScriptHash) -> i64 {
        let change = |draft: &Draft| {
            let paid = draft.pays.iter().filter(|pay| **pay == Some(scripthash)).map(|_| 400 + i64::from(draft.number));
            let spent = draft.spends.iter().filter(|outpoint| owner(outpoint) == scripthash).map(|_| 1000);
            paid.sum::<i64>() - spent.sum::<i64>()
        };
        self.0.values().map(change).sum()
    }
}

proptest! {
    #[test]
    fn after_any_changes_every_answer_is_that_of_a_search(changes in proptest::collection::vec(change(), 0..40)) {
        let (mut mempool, mut model) = (Mempool::default(), Model::default());
        for change in &changes {
            let (before, kept) = (model.clone(), mempool.clone());
            let mut touched = TouchedScripts::new();
            match change {
                Change::Insert(draft) => mempool.insert(draft.transaction(), &mut touched),
                Change::Remove(number) => mempool.remove(&txid(*number), &mut touched),
                Change::Confirm(number, spent) => {
                    let own = before.0.get(number).map(|draft| draft.spends.clone()).unwrap_or_default();
                    let spent = own.into_iter().chain(spent.iter().copied());
                    mempool.confirm([txid(*number)].into_iter(), spent, &mut touched);
                }
            }
            model.apply(change);
            check(&mempool, &model)?;
            check(&kept, &before)?;
            for scripthash in (0..SCRIPTS).map(script) {
                if before.of_script(scripthash) != model.of_script(scripthash) {
                    prop_assert!(touched.contains(&scripthash), "{change:?} changes a script it does not name");
                }
            }
        }
    }
}

fn check(mempool: &Mempool, model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(mempool.len(), model.0.len());
    prop_assert_eq!(mempool.vsize(), model.0.keys().map(|number| 100 + u64::from(*number)).sum::<u64>());
    let adjusted = |number: &u8| (100 + u64::from(*number)).max(20 * u64::from(*number));
    prop_assert_eq!(mempool.adjusted_vsize(), model.0.keys().map(adjusted).sum::<u64>());
    prop_assert_eq!(mempool.fees(), model.0.keys().map(|number| 10 * u64::from(*number)).sum::<u64>());
    prop_assert_eq!(mempool.recent(99).len(), model.0.len());
    for scripthash in (0..SCRIPTS).map(script) {
        let entries = mempool.of_script(&scripthash).into_iter();
        let entries: Vec<(bool, String)> =
            entries.map(|entry| (entry.has_unconfirmed_inputs, entry.txid.to_string())).collect();
        prop_assert_eq!(entries, model.of_script(scripthash));
        let unspent: BTreeSet<OutPoint> = mempool.unspent_of(&scripthash).into_iter().map(|(out, ..)| out).collect();
        prop_assert_eq!(unspent, model.unspent_of(scripthash));
        prop_assert_eq!(mempool.balance_change(&scripthash), model.balance_change(scripthash));
    }
    let histogram = mempool.fee_histogram();
    prop_assert_eq!(histogram.iter().map(|(_, vsize)| vsize).sum::<u64>(), mempool.vsize());
    prop_assert!(histogram.is_sorted_by(|left, right| left.0 > right.0));
    // The same transactions, as if each had its adjusted size alone.
    let mut heavier = Mempool::default();
    for draft in model.0.values() {
        let transaction = draft.transaction();
        let vsize = transaction.adjusted_vsize();
        heavier.insert(MempoolTransaction { vsize, ..transaction }, &mut TouchedScripts::new());
    }
    prop_assert_eq!(mempool.adjusted_fee_histogram(), heavier.fee_histogram());
    Ok(())
}

#[test]
fn the_histogram_closes_a_bin_when_it_is_full_and_bins_grow() {
    let mut mempool = Mempool::default();
    for number in 1..=30_u8 {
        let draft = Draft { number, spends: vec![OutPoint { txid: txid(0), vout: number.into() }], pays: vec![] };
        let transaction = MempoolTransaction { vsize: 50_000, fee: 50_000 * u64::from(number), ..draft.transaction() };
        mempool.insert(transaction, &mut TouchedScripts::new());
    }
    let histogram = mempool.fee_histogram();
    let three = [28, 25, 22, 19, 16].map(|rate| (f64::from(rate), 150_000));
    let four = [12, 8, 4].map(|rate| (f64::from(rate), 200_000));
    assert_eq!(histogram, [&three[..], &four, &[(1.0, 150_000)]].concat());
}

#[test]
fn the_last_that_came_are_recent_even_after_others_left() {
    let mut mempool = Mempool::default();
    let mut touched = TouchedScripts::new();
    for number in 1..=4 {
        let draft = Draft { number, spends: vec![OutPoint { txid: txid(0), vout: number.into() }], pays: vec![] };
        mempool.insert(draft.transaction(), &mut touched);
    }
    mempool.remove(&txid(4), &mut touched);
    let recent: Vec<Txid> = mempool.recent(2).iter().map(|transaction| transaction.txid).collect();
    assert_eq!(recent, [txid(3), txid(2)]);
}

#[test]
fn conflicts_are_replacements_and_confirmed_transactions_are_not() {
    let spending = |number: u8, vouts: &[u32]| {
        let spends = vouts.iter().map(|vout| OutPoint { txid: txid(0), vout: *vout }).collect();
        Draft { number, spends, pays: vec![] }.transaction()
    };
    let (mut mempool, mut touched) = (Mempool::default(), TouchedScripts::new());
    mempool.insert(spending(1, &[0]), &mut touched);
    mempool.insert(spending(2, &[0, 1]), &mut touched);
    let known = mempool.replacements();
    assert_eq!((known.replacement(&txid(1)), known.version(&txid(1)).map(|one| one.fee)), (Some(txid(2)), Some(10)));
    // The node tells first that it has left.
    mempool.remove(&txid(2), &mut touched);
    assert_eq!(mempool.replacements().replacement(&txid(2)), None);
    mempool.insert(spending(3, &[1]), &mut touched);
    assert_eq!(mempool.replacements().latest(&txid(1)), txid(3));
    let outpoint = OutPoint { txid: txid(0), vout: 1 };
    mempool.confirm([txid(3)].into_iter(), [outpoint].into_iter(), &mut touched);
    mempool.insert(spending(4, &[1]), &mut touched);
    assert_eq!(mempool.replacements().replacement(&txid(3)), None);
}
