//! Tweaks and payments compared with a naive scan written from BIP 352 with other types, over blocks, reorgs, restarts
//! and the mempool.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use birdhouse_chain::{DerivedIndex, Found, Height, Index, Profile, Snapshot, TweakDetail, TweakOutput, Tweaks};
use birdhouse_silentpayments::{Engine, ScanKey};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::ChainBuilder;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::rng::{Rng, rounds};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment, signed};
use bitcoin::consensus::serialize;
use bitcoin::hashes::{Hash as _, hash160, sha256};
use bitcoin::hex::DisplayHex as _;
use bitcoin::secp256k1::{Parity, PublicKey, SECP256K1, Scalar, SecretKey, XOnlyPublicKey};
use bitcoin::{Block, Network, OutPoint, Script, ScriptBuf, Transaction, TxOut, Txid, WitnessVersion};

use crate::common::{self, MemoryNode};

/// The internal key of outputs that are spent by scripts alone, from the text of BIP 341.
const H: &str = "50929b74c1a04954b78b4b6035e97a5e078a5a0f28ec96d547bfee9ace803ac0";

/// A wallet that receives silent payments, and its labels.
pub(crate) struct Receiver {
    scan: SecretKey,
    spend: PublicKey,
    labels: Vec<u32>,
}

/// The outputs of all transactions so far.
type Outputs = HashMap<OutPoint, TxOut>;

fn tagged(tag: &str, parts: &[&[u8]]) -> [u8; 32] {
    let tag = sha256::Hash::hash(tag.as_bytes()).to_byte_array();
    sha256::Hash::hash(&[&tag[..], &tag, &parts.concat()].concat()).to_byte_array()
}

/// The key that an input of the test's wallet reveals.
fn key_of(transaction: &Transaction, input: usize, spent: &Script) -> Option<PublicKey> {
    let input = &transaction.input[input];
    let last = || input.witness.last().and_then(|key| PublicKey::from_slice(key).ok().filter(|_| key.len() == 33));
    if spent.is_p2tr() {
        let mut items = input.witness.to_vec();
        if items.len() > 1 && items.last().is_some_and(|item| item.first() == Some(&0x50)) {
            items.pop();
        }
        let internal_key = items.last().filter(|_| items.len() > 1).map(|block| block[1..33].to_lower_hex_string());
        if items.is_empty() || internal_key.as_deref() == Some(H) {
            return None;
        }
        let key = XOnlyPublicKey::from_slice(&spent.as_bytes()[2..]).ok()?;
        return Some(key.public_key(Parity::Even));
    }
    if spent.is_p2wpkh() {
        return last();
    }
    if spent.is_p2sh() {
        let redeem = Script::from_bytes(input.script_sig.as_bytes().get(1..)?);
        return if redeem.is_p2wpkh() { last() } else { None };
    }
    let sig = input.script_sig.as_bytes();
    let key = sig.get(sig.len().checked_sub(33)?..)?;
    let pays_it = spent.is_p2pkh() && hash160::Hash::hash(key).to_byte_array()[..] == spent.as_bytes()[3..23];
    PublicKey::from_slice(key).ok().filter(|_| pays_it)
}

/// The tweak of a transaction.
fn tweak(transaction: &Transaction, outputs: &Outputs) -> Option<PublicKey> {
    if transaction.is_coinbase() || !transaction.output.iter().any(|output| output.script_pubkey.is_p2tr()) {
        return None;
    }
    let spent = transaction.input.iter().map(|input| &outputs[&input.previous_output].script_pubkey);
    let is_later = |script: &ScriptBuf| script.witness_version().is_some_and(|version| version > WitnessVersion::V1);
    if spent.clone().any(is_later) {
        return None;
    }
    let keys = spent.enumerate().filter_map(|(input, spent)| key_of(transaction, input, spent));
    let keys: Vec<PublicKey> = keys.collect();
    let sum = PublicKey::combine_keys(&keys.iter().collect::<Vec<_>>()).ok()?;
    let least = transaction.input.iter().map(|input| serialize(&input.previous_output)).min()?;
    let hash = tagged("BIP0352/Inputs", &[&least, &sum.serialize()]);
    sum.mul_tweak(SECP256K1, &Scalar::from_be_bytes(hash).ok()?).ok()
}

impl Receiver {
    pub(crate) fn new(number: u8, labels: &[u32]) -> Self {
        let secret = |byte| SecretKey::from_slice(&[byte; 32]).unwrap();
        let spend = secret(100 + number).public_key(SECP256K1);
        Self { scan: secret(number + 1), spend, labels: labels.to_vec() }
    }

    pub(crate) fn scan_key(&self) -> ScanKey {
        ScanKey::new(&self.scan.secret_bytes(), &self.spend.serialize(), &self.labels).unwrap()
    }

    /// The key of output `k` to a label.
    pub(crate) fn output(&self, tweak: &PublicKey, k: u32, label: Option<u32>) -> [u8; 32] {
        let secret = tweak.mul_tweak(SECP256K1, &self.scan.into()).unwrap().serialize();
        let hash = tagged("BIP0352/SharedSecret", &[&secret, &k.to_be_bytes()]);
        let mut key = self.spend.add_exp_tweak(SECP256K1, &Scalar::from_be_bytes(hash).unwrap()).unwrap();
        if let Some(label) = label {
            let hash = tagged("BIP0352/Label", &[&self.scan.secret_bytes(), &label.to_be_bytes()]);
            key = key.combine(&SecretKey::from_slice(&hash).unwrap().public_key(SECP256K1)).unwrap();
        }
        key.x_only_public_key().0.serialize()
    }

    /// True if a transaction pays the first output to any of its labels, change included.
    fn is_paid(&self, transaction: &Transaction, tweak: &PublicKey) -> bool {
        let labels = self.labels.iter().map(|label| Some(*label)).chain([None, Some(0)]);
        let mut keys = labels.map(|label| self.output(tweak, 0, label));
        let scripts: Vec<&[u8]> = transaction.output.iter().map(|output| output.script_pubkey.as_bytes()).collect();
        keys.any(|key| scripts.contains(&&[&[0x51, 32][..], &key].concat()[..]))
    }
}

fn receivers() -> [Receiver; 3] {
    [Receiver::new(1, &[]), Receiver::new(2, &[5]), Receiver::new(3, &[1, 77])]
}

fn outputs_of<'a>(transactions: impl Iterator<Item = &'a Transaction>) -> Outputs {
    let mut outputs = Outputs::new();
    for transaction in transactions {
        let txid = transaction.compute_txid();
        outputs.extend((0..).zip(&transaction.output).map(|(vout, output)| (OutPoint { txid, vout }, output.clone())));
    }
    outputs
}

/// The script of a taproot key.
fn taproot(key: &[u8; 32]) -> ScriptBuf {
    ScriptBuf::from([&[0x51, 32][..], key].concat())
}

/// Coins and payments of a transaction: one to three coins of any form, one to three outputs to one receiver, taproot
/// outputs to nobody around them, and change of any form.
fn payment(chain: &mut ChainBuilder, rng: &mut Rng) -> Option<(Vec<Coin>, Vec<Payment>)> {
    let coins: Vec<Coin> = chain.coins().filter(|coin| coin.sat() > 100_000).cloned().collect();
    let mut picked: BTreeMap<OutPoint, Coin> = BTreeMap::new();
    for _ in 0..=rng.below(3) {
        let coin = coins.get(usize::try_from(rng.below(coins.len() as u64)).unwrap())?;
        picked.insert(coin.outpoint, coin.clone());
    }
    let picked: Vec<Coin> = picked.into_values().collect();
    let decoy = Payment::to_lock(Lock::new(Form::P2tr, u32::try_from(rng.below(50)).unwrap()), 1000);
    // The keys of the inputs are those of any transaction that spends them.
    let draft = signed(chain.wallet(), &picked, std::slice::from_ref(&decoy));
    let spent = picked.iter().map(|coin| (coin.outpoint, coin.output.clone()));
    let mut payments = vec![decoy];
    if let Some(tweak) = tweak(&draft, &spent.collect()) {
        let receivers = receivers();
        let receiver = &receivers[usize::try_from(rng.below(3)).unwrap()];
        for k in 0..=u32::try_from(rng.below(3)).unwrap() {
            let labels: Vec<Option<u32>> =
                [None, Some(0)].into_iter().chain(receiver.labels.iter().copied().map(Some)).collect();
            let label = labels[usize::try_from(rng.below(labels.len() as u64)).unwrap()];
            let script = taproot(&receiver.output(&tweak, k, label));
            payments.push(Payment::to_script(script, 300 + rng.below(1000)));
        }
    }
    payments.push(Payment::to_lock(Lock::new(Form::P2wpkh, 3), 50_000));
    let left = picked.iter().map(Coin::sat).sum::<u64>() - payments.iter().map(|payment| payment.sat).sum::<u64>();
    let forms: &[Form] = if rng.per_mille(400) { &Form::UNUSUAL } else { &Form::SPENDABLE };
    payments.push(Payment::to_lock(Lock::new(*rng.pick(forms), 4), left - left / 10));
    if rng.per_mille(500) {
        payments.reverse();
    }
    Some((picked, payments))
}

/// The naive scan of transactions, each of which is scanned once.
#[derive(Default)]
pub(crate) struct Model(HashMap<Txid, Option<Facts>>);

/// The tweak of a transaction, and the receivers that it pays.
#[derive(Clone, Copy)]
struct Facts {
    tweak: PublicKey,
    pays: [bool; 3],
}

impl Model {
    /// `None` if a transaction has no tweak.
    fn scan(&mut self, txid: Txid, transaction: &Transaction, outputs: &Outputs) -> Option<Facts> {
        *self.0.entry(txid).or_insert_with(|| {
            let tweak = tweak(transaction, outputs)?;
            Some(Facts { tweak, pays: receivers().map(|receiver| receiver.is_paid(transaction, &tweak)) })
        })
    }

    /// The number of payments of all chains so far, those that a reorg has taken back among them.
    fn payments(&self) -> usize {
        self.0.values().flatten().flat_map(|facts| facts.pays).filter(|is_paid| *is_paid).count()
    }
}

/// Compares rows and payments of a chain's blocks with those of the naive scan.
pub(crate) fn compare(
    tweaks: &Tweaks,
    at: &Snapshot,
    blocks: &[Block],
    engine: &Engine,
    model: &mut Model,
    context: &str,
) {
    let outputs = outputs_of(blocks.iter().flat_map(|block| &block.txdata));
    let end = Height(tweaks.len(at));
    assert_eq!(end.0 as usize, blocks.len(), "{context}");
    let rows = tweaks.read(at, Height(0)..end).unwrap().unwrap();
    let mut rows = rows.iter();
    let mut paid: [Vec<Found>; 3] = Default::default();
    let mut total = 0;
    for (height, block) in (0..).map(Height).zip(blocks) {
        for (position, transaction) in (0..).zip(&block.txdata) {
            let txid = transaction.compute_txid();
            let Some(Facts { tweak, pays }) = model.scan(txid, transaction, &outputs) else { continue };
            let row = rows.next().unwrap();
            let taproot: Vec<TweakOutput> = (0..)
                .zip(&transaction.output)
                .filter(|(_, output)| output.script_pubkey.is_p2tr())
                .map(|(vout, output)| TweakOutput {
                    vout,
                    key: output.script_pubkey.as_bytes()[2..].try_into().unwrap(),
                    value: output.value.to_sat(),
                })
                .collect();
            assert_eq!((row.height, row.position, *row.tweak), (height, position, tweak.serialize()), "{context}");
            let prefixes: Vec<[u8; 4]> = taproot.iter().map(|output| output.key[..4].try_into().unwrap()).collect();
            assert_eq!(row.prefixes, prefixes, "{context}");
            let largest = taproot.iter().map(|output| output.value).max().unwrap();
            for limit in [330, 546, 600, 1000, 3750] {
                assert_eq!(row.largest.is_above(limit), largest > limit, "{context}: {largest} > {limit}");
                assert_eq!(row.largest.is_at_least(limit), largest >= limit, "{context}: {largest} >= {limit}");
            }
            let is_full = tweaks.detail() == TweakDetail::Full;
            assert_eq!(row.outputs.map(|outputs| outputs.iter().collect()), is_full.then_some(taproot), "{context}");
            total += 1;
            for (is_paid, paid) in pays.iter().zip(&mut paid) {
                if *is_paid {
                    paid.push(Found { height: Some(height), txid, tweak: tweak.serialize() });
                }
            }
        }
    }
    assert!(rows.next().is_none(), "{context}");
    assert_eq!(tweaks.rows(at, Height(0)..end).unwrap(), Some(total), "{context}");
    for (receiver, paid) in receivers().iter().zip(&paid) {
        let scanner = engine.scanner(receiver.scan_key());
        assert_eq!(tweaks.find(at, &scanner, Height(0)..end).unwrap().as_ref(), Some(paid), "{context}");
        let middle = Height(end.0 / 2);
        let upper = tweaks.find(at, &scanner, middle..end).unwrap().unwrap();
        let expected: Vec<Found> = paid.iter().filter(|found| found.height >= Some(middle)).copied().collect();
        assert_eq!(upper, expected, "{context}");
    }
    assert_eq!(tweaks.read(at, Height(0)..Height(end.0 + 1)).unwrap(), None, "{context}");
}

fn open(store: &MemoryStore, detail: TweakDetail) -> Arc<DerivedIndex> {
    let derived = Tweaks::derived(Network::Regtest, detail);
    Arc::new(DerivedIndex::open(Arc::new(store.clone()), derived, 2).unwrap())
}

/// A built index with tweaks, which the build computes.
fn world(chain: &ChainBuilder, derived: &Arc<DerivedIndex>) -> (Arc<MemoryNode>, Index) {
    let node = Arc::new(MemoryNode::default());
    node.follow(chain.blocks());
    let index = common::open(&MemoryStore::new(), &node, Profile::Full);
    index.set_derived(vec![Arc::clone(derived)]);
    let temp = tempfile::tempdir().unwrap();
    index.build(None, &common::options(temp.path())).unwrap();
    (node, index)
}

/// `BIRDHOUSE_ROUNDS=1000` compares that many chains.
#[test]
fn rows_and_payments_are_those_of_a_naive_scan_over_blocks_and_reorgs() {
    let (engine, mut all) = (Engine::new(), 0);
    for seed in rounds(2) {
        let detail = if seed % 2 == 0 { TweakDetail::Scan } else { TweakDetail::Full };
        let (mut rng, mut chain, store) = (Rng::new(seed), mix::sample(seed, Size::SMALL), MemoryStore::new());
        let derived = open(&store, detail);
        let (node, index) = world(&chain, &derived);
        let mut model = Model::default();
        let mut spent = BTreeSet::new();
        for step in 0..12 {
            let context = format!("seed {seed} step {step}");
            if rng.per_mille(300) {
                let height = chain.height() - 1 - u32::try_from(rng.below(4)).unwrap();
                chain.rollback_to(height);
            }
            for _ in 0..rng.below(4) {
                for _ in 0..rng.below(120) {
                    if let Some((coins, payments)) = payment(&mut chain, &mut rng) {
                        chain.spend(&coins, &payments);
                        spent.extend(coins.iter().map(|coin| coin.lock.form));
                    }
                }
                chain.mine_block();
            }
            node.follow(chain.blocks());
            index.sync(&*node).unwrap();
            let at = index.snapshot().unwrap();
            while derived.advance(&at).unwrap() {}
            let tweaks = Tweaks::among(&[Arc::clone(&derived)]).unwrap();
            compare(&tweaks, &at, chain.blocks(), &engine, &mut model, &context);
        }
        let payments = model.payments();
        assert!(payments > 5, "seed {seed}: {payments}");
        let unspent = |form: &&Form| !spent.contains(*form);
        assert_eq!(Form::UNUSUAL.iter().filter(unspent).collect::<Vec<_>>(), [] as [&Form; 0], "seed {seed}");
        drop(index);
        let at_start = Tweaks::among(&[open(&store, detail)]).unwrap();
        assert_eq!(at_start.detail(), detail);
        all += payments;
    }
    println!("{all} payments are found, none twice and no other");
}

#[test]
fn unconfirmed_transactions_have_tweaks_where_an_index_of_them_is_kept() {
    let (engine, mut rng) = (Engine::new(), Rng::new(7));
    let mut chain = mix::sample(7, Size::SMALL);
    let derived = open(&MemoryStore::new(), TweakDetail::Scan);
    let (node, index) = world(&chain, &derived);
    let tweaks = Tweaks::among(index.derived()).unwrap();
    let plain = common::built(&node, Profile::Full);
    let mut held: Vec<Transaction> = Vec::new();
    // The builder spends each coin once, children of these transactions included.
    for _ in 0..20 {
        let Some((coins, payments)) = payment(&mut chain, &mut rng) else { continue };
        held.push(signed(chain.wallet(), &coins, &payments));
        chain.spend(&coins, &payments);
    }
    let outputs = outputs_of(chain.blocks().iter().flat_map(|block| &block.txdata).chain(&held));
    let seen = 5;
    let mut arrival = 0;
    let mut found: [Vec<Txid>; 3] = Default::default();
    for some in [0..seen, seen..held.len()] {
        node.hold(held[..some.end].to_vec());
        index.sync(&*node).unwrap();
        let at = index.snapshot().unwrap();
        for transaction in &held[..some.end] {
            let (txid, expected) = (transaction.compute_txid(), tweak(transaction, &outputs));
            let unconfirmed = at.mempool().get(&txid).unwrap();
            assert_eq!(unconfirmed.tweak(), expected.map(|point| point.serialize()).as_ref());
            assert_eq!(at.tweak_of(txid).unwrap().unwrap().tweak, expected.map(|point| point.serialize()));
        }
        for (receiver, found) in receivers().iter().zip(&mut found) {
            let scanner = engine.scanner(receiver.scan_key());
            let new = tweaks.find_unconfirmed(&scanner, at.mempool().arrived_since(arrival)).unwrap();
            assert!(new.iter().all(|found| found.height.is_none()));
            found.extend(new.iter().map(|found| found.txid));
        }
        arrival = at.mempool().next_arrival();
    }
    let mut payments = 0;
    for (receiver, mut found) in receivers().iter().zip(found) {
        let paid = held.iter().filter(|transaction| {
            tweak(transaction, &outputs).is_some_and(|tweak| receiver.is_paid(transaction, &tweak))
        });
        let mut expected: Vec<Txid> = paid.map(Transaction::compute_txid).collect();
        payments += expected.len();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
    }
    assert!(payments > 5, "{payments}");
    plain.sync(&*node).unwrap();
    let at = plain.snapshot().unwrap();
    assert!(at.mempool().transactions().all(|transaction| transaction.tweak().is_none()));
    let txid = held[0].compute_txid();
    assert_eq!(at.tweak_of(txid).unwrap(), index.snapshot().unwrap().tweak_of(txid).unwrap());
}

/// Makes a coin of a form and pays a receiver with it in the same block. Returns the tweak of the payment.
fn pay_within_block(chain: &mut ChainBuilder, form: Form, receiver: &Receiver) -> PublicKey {
    let lock = Lock::new(form, 777_000);
    let made = chain.pay(&[Payment::to_lock(lock, 100_000)]);
    let coin = chain.coins().find(|coin| coin.outpoint.txid == made && coin.lock == lock).cloned().unwrap();
    let draft = signed(chain.wallet(), std::slice::from_ref(&coin), &[Payment::to_script(taproot(&[0; 32]), 1000)]);
    let tweak = tweak(&draft, &Outputs::from([(coin.outpoint, coin.output.clone())])).unwrap();
    chain.spend(&[coin], &[Payment::to_script(taproot(&receiver.output(&tweak, 0, None)), 50_000)]);
    tweak
}

/// A kernel that does not know the outputs of a transaction's own block is the mistake that this is there to find.
#[test]
fn outputs_that_are_made_in_the_same_block_count_as_earlier_ones() {
    const FORMS: [Form; 4] = [Form::P2pkh, Form::P2shP2wpkh, Form::P2wpkh, Form::P2tr];
    let (engine, receiver) = (Engine::new(), &receivers()[0]);
    let mut chain = mix::sample(5, Size::SMALL);
    let block = |chain: &mut ChainBuilder| {
        let paid = FORMS.map(|form| pay_within_block(chain, form, receiver).serialize());
        chain.mine_block();
        (chain.height(), paid)
    };
    let derived = open(&MemoryStore::new(), TweakDetail::Full);
    let built = block(&mut chain);
    let (node, index) = world(&chain, &derived);
    let at_the_tip = block(&mut chain);
    node.follow(chain.blocks());
    index.sync(&*node).unwrap();
    let at = index.snapshot().unwrap();
    while derived.advance(&at).unwrap() {}
    let tweaks = Tweaks::among(&[derived]).unwrap();
    compare(&tweaks, &at, chain.blocks(), &engine, &mut Model::default(), "within a block");
    for (height, paid) in [built, at_the_tip] {
        let block = &chain.blocks()[height as usize];
        let mut outputs = outputs_of(chain.blocks().iter().flat_map(|block| &block.txdata));
        for (outpoint, _) in outputs_of(block.txdata.iter()) {
            outputs.get_mut(&outpoint).unwrap().script_pubkey = ScriptBuf::new();
        }
        let mistaken = block.txdata.iter().filter_map(|transaction| tweak(transaction, &outputs));
        let mistaken: Vec<[u8; 33]> = mistaken.map(|tweak| tweak.serialize()).collect();
        let rows = tweaks.read(&at, Height(height)..Height(height + 1)).unwrap().unwrap();
        for paid in paid {
            assert!(rows.iter().any(|row| *row.tweak == paid) && !mistaken.contains(&paid), "block {height}");
        }
    }
}
