//! The vectors of BIP 352, and cases that these miss, as blocks: the tweaks are read from the index as a client reads
//! them, and a scan finds what pays its key.
//!
//! The inputs of both name txids that no transaction has. So the chain is one whose source says that other transactions
//! are meant, as a chain does that is made up while it is read.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use birdhouse_chain::source::{
    BlockMeta, BlockSource, FetchedBlock, FilePosition, SourceError, SourceErrorKind, SourceResult, SpentBuf,
    SpentBytes, Unit, Visit,
};
use birdhouse_chain::{
    DerivedIndex, Found, Hash256, Height, Index, Profile, Secret, Snapshot, TweakDetail, TweakOutput, Tweaks,
};
use birdhouse_silentpayments::{Engine, ScanKey};
use birdhouse_store::MemoryStore;
use birdhouse_testkit::block::{BlockPosition, assemble};
use birdhouse_testkit::core_coding::{SPECIAL_SCRIPTS, compact_size, compressed_amount, put_varint};
use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use bitcoin::secp256k1::PublicKey;
use bitcoin::{
    Amount, Block, BlockHash, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness,
    absolute, transaction,
};

use crate::bip352_cases::{self as cases};
use crate::bip352_vectors::{self as vectors, Payments};
use crate::common;
use crate::model::{self, Mistake};
use crate::tweaks::Receiver;

/// Height of the block with the transaction of a case. The block before it has what it spends, and the one before that
/// the coins of which this is made.
const CASE: Height = Height(3);
/// Height after it.
const END: Height = Height(4);
/// The value of every output of a chain, in satoshis.
const SAT: u64 = 1000;
/// `OP_TRUE`, which anyone can spend, and `OP_RETURN`, which nobody can.
const ANYONE: [u8; 1] = [0x51];
const NOBODY: [u8; 1] = [0x6a];

/// The two forms in which a node gives the outputs that a block spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpentForm {
    /// The answer of `/rest/spenttxouts`.
    TxOuts,
    /// Its files.
    Undo,
}

/// A chain with the transaction of a case.
struct MadeUp {
    blocks: Vec<Block>,
    /// The outputs that each block spends, by transaction, that of the coinbase left out.
    spent: Vec<Vec<Vec<TxOut>>>,
    /// The txids by which the case names the transactions of the block before it.
    names: Vec<Hash256>,
    form: SpentForm,
}

fn output(script: &[u8]) -> TxOut {
    TxOut { value: Amount::from_sat(SAT), script_pubkey: ScriptBuf::from_bytes(script.to_vec()) }
}

fn transaction(input: Vec<TxIn>, output: Vec<TxOut>) -> Transaction {
    Transaction { version: transaction::Version::TWO, lock_time: absolute::LockTime::ZERO, input, output }
}

fn input(previous_output: OutPoint) -> TxIn {
    let (script_sig, witness) = (ScriptBuf::new(), Witness::new());
    TxIn { previous_output, script_sig, sequence: Sequence::MAX, witness }
}

/// The transaction of a case.
fn of_case(case: &model::Transaction) -> Transaction {
    let inputs = case.inputs.iter().map(|spend| TxIn {
        script_sig: ScriptBuf::from_bytes(spend.script_sig.clone()),
        witness: Witness::from_slice(&spend.witness),
        ..input(OutPoint { txid: Txid::from_byte_array(spend.txid), vout: spend.vout })
    });
    transaction(inputs.collect(), case.outputs.iter().map(|script| output(script)).collect())
}

/// The transactions that fund a case, by the txids that it gives them: a coin of block 1 each.
fn fundings(case: &model::Transaction, coins: Txid) -> Vec<(Hash256, Transaction)> {
    let mut funded: BTreeMap<Hash256, BTreeMap<u32, &[u8]>> = BTreeMap::new();
    for spend in &case.inputs {
        let before = funded.entry(spend.txid).or_default().insert(spend.vout, &spend.spent);
        assert_eq!(before, None, "a transaction spends an output once");
    }
    let funding = |(coin, (name, outputs)): (u32, (Hash256, BTreeMap<u32, &[u8]>))| {
        let last = outputs.last_key_value().map_or(0, |(vout, _)| *vout);
        let scripts = (0..=last).map(|vout| *outputs.get(&vout).unwrap_or(&&NOBODY[..]));
        let spends = input(OutPoint { txid: coins, vout: coin });
        (name, transaction(vec![spends], scripts.map(output).collect()))
    };
    (0..).zip(funded).map(funding).collect()
}

impl MadeUp {
    fn of(case: &model::Transaction, form: SpentForm) -> Self {
        let mut blocks = vec![genesis_block(Network::Regtest)];
        let mut mine = |outputs: Vec<TxOut>, transactions| {
            let height = u32::try_from(blocks.len()).unwrap();
            let position = BlockPosition { height, prev: blocks.last().unwrap().block_hash(), salt: 0 };
            blocks.push(assemble(position, outputs, transactions));
            blocks.last().unwrap().txdata[0].compute_txid()
        };
        let (under_test, coin) = (of_case(case), output(&ANYONE));
        let is_coinbase = under_test.is_coinbase();
        let coins = mine(vec![coin.clone(); case.inputs.len()], vec![]);
        let funded = if is_coinbase { Vec::new() } else { fundings(case, coins) };
        let (names, funding): (Vec<Hash256>, Vec<Transaction>) = funded.into_iter().unzip();
        let (made, by_case) = (vec![vec![coin]; funding.len()], case.inputs.iter().map(|spend| output(&spend.spent)));
        let by_case = by_case.collect();
        let own = mine(vec![], funding);
        let spent_by_case = if is_coinbase {
            mine(under_test.output, vec![]);
            vec![]
        } else {
            mine(vec![], vec![under_test]);
            vec![by_case]
        };
        let names = std::iter::once(own.to_byte_array()).chain(names).collect();
        Self { blocks, spent: vec![vec![], vec![], made, spent_by_case], names, form }
    }

    fn of_hash(&self, hash: BlockHash) -> SourceResult<usize> {
        let found = self.blocks.iter().position(|block| block.block_hash() == hash);
        found.ok_or_else(|| SourceError { message: format!("no block {hash}"), kind: SourceErrorKind::NotFound })
    }

    /// The outputs that a block spends, coded.
    fn spent(&self, height: usize) -> Vec<u8> {
        let (transactions, mut bytes) = (&self.spent[height], Vec::new());
        match self.form {
            SpentForm::TxOuts => {
                compact_size(&mut bytes, 1 + transactions.len());
                compact_size(&mut bytes, 0);
            }
            SpentForm::Undo => compact_size(&mut bytes, transactions.len()),
        }
        for outputs in transactions {
            compact_size(&mut bytes, outputs.len());
            for output in outputs {
                match self.form {
                    SpentForm::TxOuts => bytes.extend(serialize(output)),
                    SpentForm::Undo => put_undo(&mut bytes, height, output),
                }
            }
        }
        bytes
    }
}

/// Adds an output that the block at a height spends, in the form of undo data. The coins of block 1 are its coinbase's.
fn put_undo(bytes: &mut Vec<u8>, height: usize, output: &TxOut) {
    let funded = height as u64 - 1;
    put_varint(bytes, funded << 1 | u64::from(funded == 1));
    put_varint(bytes, 0);
    put_varint(bytes, compressed_amount(output.value.to_sat()));
    put_varint(bytes, output.script_pubkey.len() as u64 + SPECIAL_SCRIPTS);
    bytes.extend(output.script_pubkey.as_bytes());
}

impl BlockSource for MadeUp {
    fn describe(&self) -> String {
        "a chain that is made up".to_owned()
    }

    fn gives_undo_data(&self) -> bool {
        self.form == SpentForm::Undo
    }

    fn chain(&self, _: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        let meta = |block: &Block| BlockMeta {
            hash: block.block_hash(),
            header: serialize(&block.header).try_into().unwrap(),
            tx_count: u32::try_from(block.txdata.len()).unwrap(),
            bytes: u32::try_from(serialize(block).len()).unwrap(),
            position: None,
        };
        Ok(self.blocks.iter().map(meta).collect())
    }

    fn units(&self, _: &[BlockMeta], heights: Range<Height>) -> Vec<Unit> {
        vec![Unit { heights: (heights.start.0..heights.end.0).map(Height).collect() }]
    }

    fn read_unit(&self, _: &[BlockMeta], unit: &Unit, visit: &mut Visit<'_>) -> SourceResult<()> {
        unit.heights.iter().try_for_each(|height| {
            let (at, spent) = (height.0 as usize, self.spent(height.0 as usize));
            let spent = match self.form {
                SpentForm::TxOuts => SpentBytes::TxOuts(&spent),
                SpentForm::Undo => SpentBytes::Undo(&spent),
            };
            visit(*height, &serialize(&self.blocks[at]), spent)
        })
    }

    fn outpoint_txids(&self, height: Height) -> Option<Vec<Hash256>> {
        (height.0 + 1 == CASE.0).then(|| self.names.clone())
    }

    fn block(&self, hash: BlockHash) -> SourceResult<FetchedBlock> {
        let height = self.of_hash(hash)?;
        let (block, spent) = (serialize(&self.blocks[height]), self.spent(height));
        let spent = match self.form {
            SpentForm::TxOuts => SpentBuf::TxOuts(spent),
            SpentForm::Undo => SpentBuf::Undo(spent),
        };
        Ok(FetchedBlock { block, txids: None, spent, position: None, has_sibling: false })
    }

    fn read_part(&self, hash: BlockHash, _: Option<FilePosition>, offset: u32, len: u32) -> SourceResult<Vec<u8>> {
        let (start, len) = (offset as usize, len as usize);
        Ok(serialize(&self.blocks[self.of_hash(hash)?])[start..start + len].to_vec())
    }
}

/// The index of a case's chain, with rows of each detail: those for scans are computed by the build, the others later.
struct World {
    at: Arc<Snapshot>,
    tweaks: Vec<Tweaks>,
    /// The txid of the case's transaction.
    txid: Txid,
}

impl World {
    fn of(case: &model::Transaction, form: SpentForm) -> Self {
        let chain = MadeUp::of(case, form);
        let (txid, genesis) = (of_case(case).compute_txid(), chain.blocks[0].block_hash());
        let store = || Arc::new(MemoryStore::new());
        let index = Index::open(store(), Arc::new(chain), genesis, Profile::Full, Secret([7; 16])).unwrap();
        let details = [TweakDetail::Scan, TweakDetail::Full];
        let derived = details.map(|detail| {
            let derived = Tweaks::derived(Network::Regtest, detail);
            Arc::new(DerivedIndex::open(store(), derived, 1).unwrap())
        });
        index.set_derived(vec![Arc::clone(&derived[0])]);
        let temp = tempfile::tempdir().unwrap();
        index.build(None, &common::options(temp.path())).unwrap();
        let at = index.snapshot().unwrap();
        assert_eq!((derived[0].len(&at), derived[1].len(&at)), (END.0, 0));
        while derived[1].advance(&at).unwrap() {}
        Self { at, tweaks: derived.map(|derived| Tweaks::among(&[derived]).unwrap()).into(), txid }
    }

    /// Compares the rows with the only one that may be there.
    fn assert_tweak(&self, case: &model::Transaction, tweak: Option<[u8; 33]>, context: &str) {
        let taproot = model::taproot_outputs(case);
        let prefixes: Vec<[u8; 4]> = taproot.iter().map(|(_, key)| key[..4].try_into().unwrap()).collect();
        let outputs: Vec<_> =
            taproot.iter().map(|(vout, key)| TweakOutput { vout: *vout, key: *key, value: SAT }).collect();
        for tweaks in &self.tweaks {
            let rows = tweaks.read(&self.at, Height(0)..END).unwrap().unwrap();
            let places: Vec<_> = rows.iter().map(|row| (row.height, row.position, *row.tweak)).collect();
            assert_eq!(places, tweak.map_or(vec![], |tweak| vec![(CASE, 1, tweak)]), "{context}");
            for row in rows.iter() {
                let is_full = tweaks.detail() == TweakDetail::Full;
                let found = row.outputs.map(|outputs| outputs.iter().collect::<Vec<_>>());
                assert_eq!((row.prefixes, found), (&prefixes[..], is_full.then(|| outputs.clone())), "{context}");
            }
        }
    }

    /// Compares what a scan finds with the only transaction that it may find.
    fn assert_found(&self, engine: &Engine, key: ScanKey, paid: Option<[u8; 33]>, context: &str) {
        let scanner = engine.scanner(key);
        let expected: Vec<Found> =
            paid.map(|tweak| Found { height: Some(CASE), txid: self.txid, tweak }).into_iter().collect();
        for tweaks in &self.tweaks {
            let found = tweaks.find(&self.at, &scanner, Height(0)..END).unwrap().unwrap();
            assert_eq!(found, expected, "{context}");
        }
    }
}

#[test]
fn blocks_with_the_vectors_have_their_tweaks_and_scans_find_their_payments() {
    let engine = Engine::new();
    for vector in vectors::all() {
        for form in [SpentForm::TxOuts, SpentForm::Undo] {
            let context = format!("case {} with {form:?}", vector.case);
            let world = World::of(&vector.transaction, form);
            world.assert_tweak(&vector.transaction, vector.tweak, &context);
            let receiver = &vector.receiver;
            let key = ScanKey::new(&receiver.scan, &receiver.spend.serialize(), &receiver.labels).unwrap();
            let is_paid = vector.payments != Payments::Exact(Vec::new());
            world.assert_found(&engine, key, vector.tweak.filter(|_| is_paid), &context);
        }
    }
}

/// Adds an output that pays a receiver, if there is a tweak.
fn pay(case: &mut model::Transaction, receiver: &Receiver, tweak: Option<[u8; 33]>, label: Option<u32>) {
    let Some(tweak) = tweak else { return };
    let key = receiver.output(&PublicKey::from_slice(&tweak).unwrap(), 0, label);
    case.outputs.push([&[0x51, 32][..], &key].concat());
}

#[test]
fn blocks_with_cases_that_the_vectors_miss_have_their_tweaks_and_scans_find_what_pays_by_them() {
    let engine = Engine::new();
    // One is paid, one is paid change, and one is paid by those who make the mistake that the case is there to find.
    let receivers = [1, 2, 3].map(|number| Receiver::new(number, &[]));
    let (mut paid, mut unpaid) = (0, 0);
    // A transaction has inputs.
    for case in cases::all().into_iter().filter(|case| !case.transaction.inputs.is_empty()) {
        let mut transaction = case.transaction.clone();
        let [tweak, mistaken] = [Mistake::None, case.finds].map(|mistake| model::tweak(&transaction, mistake));
        // Another output would change a case of outputs.
        let is_of_inputs =
            model::taproot_outputs(&transaction).len() == 1 && case.finds != Mistake::OutputsMustBePoints;
        if is_of_inputs {
            pay(&mut transaction, &receivers[0], tweak, None);
            pay(&mut transaction, &receivers[1], tweak, Some(0));
            pay(&mut transaction, &receivers[2], mistaken.filter(|_| mistaken != tweak), None);
        }
        for form in [SpentForm::TxOuts, SpentForm::Undo] {
            let context = format!("{:?} with {form:?}", case.finds);
            let world = World::of(&transaction, form);
            world.assert_tweak(&transaction, tweak, &context);
            let payment = tweak.filter(|_| is_of_inputs);
            for (receiver, payment) in receivers.iter().zip([payment, payment, None]) {
                world.assert_found(&engine, receiver.scan_key(), payment, &context);
            }
            *(if payment.is_some() { &mut paid } else { &mut unpaid }) += 1;
        }
    }
    assert!(paid > 20 && unpaid > 10, "{paid} {unpaid}");
}
