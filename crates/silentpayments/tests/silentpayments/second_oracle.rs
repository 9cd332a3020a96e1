//! A second oracle: the crate `silentpayments`, a wallet's library that others wrote. It reads the key of an input,
//! adds keys up, sends and receives. Both compute with libsecp256k1.
//!
//! What it leaves to its callers is done here: a coinbase, a later version of `SegWit` and a transaction without
//! taproot outputs have no tweak, and an input that it refuses has no key. It has no bound of payments to one receiver.

use std::collections::BTreeSet;

use birdhouse_regtest::rng::{Rng, rounds};
use birdhouse_silentpayments::{Engine, Path, Row, ScanKey};
use bitcoin::hashes::{Hash as _, hash160};
use bitcoin::{Script, WitnessVersion};
use secp256k1::{PublicKey, SECP256K1, SecretKey, XOnlyPublicKey};
use silentpayments::receiving::{Label, Receiver};
use silentpayments::sending::generate_recipient_pubkeys;
use silentpayments::utils::OutPoint;
use silentpayments::utils::receiving::{calculate_ecdh_shared_secret, calculate_tweak_data, get_pubkey_from_input};
use silentpayments::utils::sending::calculate_partial_secret;
use silentpayments::{Network, SilentPaymentCode, SpVersion};

use crate::cases;
use crate::model::{self, Mistake, Spend, Transaction, tweak_under_test};
use crate::vectors;

/// The internal key of outputs that are spent by scripts alone, from the text of BIP 341.
const NOBODYS_KEY: &str = "50929b74c1a04954b78b4b6035e97a5e078a5a0f28ec96d547bfee9ace803ac0";
/// Outputs of a transaction up to which the oracle is asked for payments: it subtracts from each, for each payment.
const OUTPUTS_MAX: usize = 100;

/// A wallet that receives.
struct Wallet {
    scan: SecretKey,
    spend: PublicKey,
    labels: Vec<u32>,
}

impl Wallet {
    fn random(rng: &mut Rng, labels: &[u32]) -> Self {
        Self { scan: secret(rng), spend: secret(rng).public_key(SECP256K1), labels: labels.to_vec() }
    }

    fn key(&self) -> ScanKey {
        ScanKey::new(&self.scan.secret_bytes(), &self.spend.serialize(), &self.labels).unwrap()
    }

    /// The wallet as the oracle has it.
    fn theirs(&self) -> Receiver {
        let (scan, change) = (self.scan.public_key(SECP256K1), Label::new(self.scan, 0));
        let mut receiver = Receiver::new(SpVersion::ZERO, scan, self.spend, change, Network::Regtest).unwrap();
        for label in &self.labels {
            receiver.add_label(Label::new(self.scan, *label)).unwrap();
        }
        receiver
    }

    /// Its addresses: the plain one, that of change, and one for each label.
    fn addresses(&self) -> Vec<SilentPaymentCode> {
        let receiver = self.theirs();
        let labelled = self.labels.iter().map(|label| Label::new(self.scan, *label));
        let labelled = labelled.map(|label| receiver.receiving_code_for_label(&label).unwrap());
        [receiver.receiving_code(), receiver.change_code()].into_iter().chain(labelled).collect()
    }

    /// The keys of outputs that the oracle finds.
    fn found_by_oracle(&self, tweak: &[u8; 33], outputs: &[[u8; 32]]) -> BTreeSet<[u8; 32]> {
        let secret = calculate_ecdh_shared_secret(&PublicKey::from_slice(tweak).unwrap(), &self.scan);
        let outputs: Vec<_> = outputs.iter().map(|key| XOnlyPublicKey::from_slice(key).unwrap()).collect();
        let found = self.theirs().scan_transaction(&secret, &outputs).unwrap();
        found.into_values().flatten().map(|(key, _)| key.serialize()).collect()
    }

    /// The keys of outputs that the code under test finds.
    fn found(&self, tweak: &[u8; 33], outputs: &[[u8; 32]]) -> BTreeSet<[u8; 32]> {
        self.key().payments(tweak, outputs).unwrap().iter().map(|payment| outputs[payment.output]).collect()
    }
}

fn outpoints(transaction: &Transaction) -> Vec<OutPoint> {
    transaction.inputs.iter().map(|spend| OutPoint::from_bytes(spend.outpoint())).collect()
}

/// The tweak by the oracle.
fn tweak_by_oracle(transaction: &Transaction) -> Option<[u8; 33]> {
    let is_coinbase = |spend: &Spend| (spend.txid, spend.vout) == ([0; 32], u32::MAX);
    let is_later = |spend: &Spend| {
        Script::from_bytes(&spend.spent).witness_version().is_some_and(|version| version > WitnessVersion::V1)
    };
    let has_none = transaction.inputs.iter().any(|spend| is_coinbase(spend) || is_later(spend));
    if has_none || model::taproot_outputs(transaction).is_empty() {
        return None;
    }
    let key = |spend: &Spend| get_pubkey_from_input(&spend.script_sig, &spend.witness, &spend.spent).ok().flatten();
    let keys: Vec<PublicKey> = transaction.inputs.iter().filter_map(key).collect();
    let tweak = calculate_tweak_data(&keys.iter().collect::<Vec<_>>(), &outpoints(transaction));
    tweak.ok().map(|tweak| tweak.serialize())
}

#[test]
fn the_oracle_agrees_with_the_vectors() {
    for vector in vectors::all() {
        assert_eq!(tweak_by_oracle(&vector.transaction), vector.tweak, "case {}", vector.case);
        let Some(tweak) = vector.tweak else { continue };
        let receiver = &vector.receiver;
        let scan = SecretKey::from_slice(&receiver.scan).unwrap();
        let wallet = Wallet { scan, spend: receiver.spend, labels: receiver.labels.clone() };
        // The oracle knows no bound of payments: it would find one more than case 28 has by the BIP.
        if vector.outputs.len() <= OUTPUTS_MAX {
            let found = wallet.found(&tweak, &vector.outputs);
            assert_eq!(found, wallet.found_by_oracle(&tweak, &vector.outputs), "case {}", vector.case);
        }
    }
}

#[test]
fn the_oracle_agrees_on_our_cases() {
    for case in cases::all() {
        let (tweak, by_oracle) = (tweak_under_test(&case.transaction), tweak_by_oracle(&case.transaction));
        let shown = format!("{:?} {:?}", case.finds, case.eligible);
        // The oracle refuses an empty last item, as a node does: it would be a control block.
        let has_empty_item = |spend: &Spend| spend.witness.len() > 1 && spend.witness.last().is_some_and(Vec::is_empty);
        if case.transaction.inputs.iter().any(has_empty_item) {
            assert!(tweak.is_some() && by_oracle.is_none(), "{shown}");
        } else {
            assert_eq!(tweak, by_oracle, "{shown}");
        }
    }
}

// === random transactions ===

/// A private key that an input brings to the sum.
#[derive(Clone, Copy)]
enum Brings {
    Nothing,
    /// The key as it is.
    Key,
    /// The one of both keys whose point has an even y coordinate.
    EvenKey,
    /// Nothing, and the transaction has no tweak.
    NoTweak,
}

fn secret(rng: &mut Rng) -> SecretKey {
    SecretKey::from_slice(&rng.bytes::<32>()).unwrap()
}

fn hash(bytes: &[u8]) -> [u8; 20] {
    hash160::Hash::hash(bytes).to_byte_array()
}

fn pushed(item: &[u8]) -> Vec<u8> {
    [&[u8::try_from(item.len()).unwrap()][..], item].concat()
}

/// An input of a random form.
fn spend(rng: &mut Rng, secret: &SecretKey) -> (Spend, Brings) {
    let point = secret.public_key(SECP256K1);
    let (key, long) = (point.serialize().to_vec(), point.serialize_uncompressed());
    let (signature, x) = (vec![0x30; 71], point.x_only_public_key().0.serialize());
    let p2pkh = |key: &[u8]| [&[0x76, 0xa9, 0x14][..], &hash(key), &[0x88, 0xac]].concat();
    let p2sh = |redeem: &[u8]| [&[0xa9, 0x14][..], &hash(redeem), &[0x87]].concat();
    let p2wpkh = [&[0x00, 0x14][..], &hash(&key)].concat();
    let p2tr = [&[0x51, 0x20][..], &x].concat();
    let multisig = [&[0x51, 0x21][..], &key, &[0x51, 0xae]].concat();
    let control = |internal: &[u8]| [&[0xc0][..], internal].concat();
    let (script, annex) = (vec![0x51], b"\x50an annex".to_vec());
    let nobodys = control(&const_hex::decode(NOBODYS_KEY).unwrap());
    let of_somebody = control(&rng.bytes::<32>());
    let both = [pushed(&signature), pushed(&key)].concat();
    let (script_sig, witness, spent, brings) = match rng.below(100) {
        0..20 => (vec![], vec![signature, key], p2wpkh, Brings::Key),
        20..35 => (both, vec![], p2pkh(&key), Brings::Key),
        35..40 => ([&both[..], &pushed(b"added by somebody")].concat(), vec![], p2pkh(&key), Brings::Key),
        40..44 => ([pushed(&signature), pushed(&long)].concat(), vec![], p2pkh(&long), Brings::Nothing),
        44..52 => (pushed(&p2wpkh), vec![signature, key], p2sh(&p2wpkh), Brings::Key),
        52..55 => {
            let script_sig = [&[0x00][..], &pushed(&signature), &pushed(&multisig)].concat();
            (script_sig, vec![], p2sh(&multisig), Brings::Nothing)
        }
        55..65 => (vec![], vec![vec![7; 64]], p2tr, Brings::EvenKey),
        65..68 => (vec![], vec![vec![0x50; 64]], p2tr, Brings::EvenKey),
        68..72 => (vec![], vec![vec![7; 65], annex], p2tr, Brings::EvenKey),
        72..77 => (vec![], vec![script, of_somebody], p2tr, Brings::EvenKey),
        77..80 => (vec![], vec![script, of_somebody, annex], p2tr, Brings::EvenKey),
        80..84 => (vec![], vec![script, nobodys], p2tr, Brings::Nothing),
        84..88 => (vec![], vec![script, nobodys, annex], p2tr, Brings::Nothing),
        88..92 => {
            let p2wsh = [&[0x00, 0x20][..], &[9; 32]].concat();
            (vec![], vec![vec![], signature, multisig], p2wsh, Brings::Nothing)
        }
        92..95 => (pushed(&signature), vec![], [&pushed(&key)[..], &[0xac]].concat(), Brings::Nothing),
        95..97 => (vec![], vec![], vec![0x51, 0x02, 0x4e, 0x73], Brings::Nothing),
        97..99 => (vec![0x51], vec![], [&[0x52, 0x29][..], &[7; 41]].concat(), Brings::Nothing),
        _ => (vec![], vec![], [&[0x52, 0x20][..], &x].concat(), Brings::NoTweak),
    };
    let vout = if rng.per_mille(100) { rng.below_u32(u32::MAX) } else { rng.below_u32(3) };
    (Spend { txid: rng.bytes(), vout, script_sig, witness, spent }, brings)
}

/// A transaction with the sender's keys: those that the oracle is to send with.
struct Random {
    transaction: Transaction,
    keys: Vec<(SecretKey, bool)>,
    has_no_tweak: bool,
}

impl Random {
    /// One to six inputs of which some have the key of the one before, or minus this key.
    fn new(rng: &mut Rng) -> Self {
        let mut random = Self { transaction: Transaction::default(), keys: Vec::new(), has_no_tweak: false };
        let mut key = secret(rng);
        for _ in 0..=rng.below(6) {
            key = match rng.below(20) {
                0 => key,
                1 => key.negate(),
                _ => secret(rng),
            };
            let (spend, brings) = spend(rng, &key);
            random.transaction.inputs.push(spend);
            match brings {
                Brings::Key => random.keys.push((key, false)),
                Brings::EvenKey => random.keys.push((key, true)),
                Brings::Nothing => {}
                Brings::NoTweak => random.has_no_tweak = true,
            }
        }
        random
    }

    /// Lets the oracle pay one to three times to some wallets. Returns the keys of the outputs of each; of none if the
    /// inputs have no sum.
    fn pay(&mut self, rng: &mut Rng, wallets: &[Wallet]) -> Option<Vec<BTreeSet<[u8; 32]>>> {
        let mut paid: Vec<(usize, SilentPaymentCode)> = Vec::new();
        for (number, wallet) in wallets.iter().enumerate() {
            let payments = if rng.per_mille(400) { 1 + rng.below(3) } else { 0 };
            let addresses = wallet.addresses();
            paid.extend((0..payments).map(|_| (number, *rng.pick(&addresses))));
        }
        // The oracle gives up where a sum on the way is zero, so it gets the keys in another order then.
        let sum = (0..self.keys.len()).find_map(|first| {
            let keys = [&self.keys[first..], &self.keys[..first]].concat();
            calculate_partial_secret(&keys, &outpoints(&self.transaction)).ok()
        });
        let sent = sum.map(|sum| generate_recipient_pubkeys(paid.iter().map(|(_, address)| *address), sum).unwrap());
        let mut of_each = vec![BTreeSet::new(); wallets.len()];
        for (wallet, address) in &paid {
            of_each[*wallet].extend(sent.iter().flat_map(|sent| &sent[address]).map(XOnlyPublicKey::serialize));
        }
        let decoys = (0..=rng.below(3)).map(|_| secret(rng).x_only_public_key(SECP256K1).0.serialize());
        let mut outputs: Vec<[u8; 32]> = decoys.collect::<BTreeSet<_>>().into_iter().collect();
        outputs.extend(of_each.iter().flatten());
        for last in (1..outputs.len()).rev() {
            outputs.swap(last, rng.index(last + 1));
        }
        let scripts = outputs.iter().map(|key| [&[0x51, 0x20][..], key].concat());
        self.transaction.outputs = [vec![0x6a]].into_iter().chain(scripts).collect();
        sent.map(|_| of_each)
    }
}

/// `BIRDHOUSE_ROUNDS=10000` makes that many transactions.
#[test]
fn random_transactions_have_the_tweaks_of_the_oracle_and_its_payments_are_found_on_every_path() {
    let mut rng = Rng::new(352);
    let wallets = [&[][..], &[1], &[7, 1000, 2_000_000_000]].map(|labels| Wallet::random(&mut rng, labels));
    let (mut rows, mut paid) = (Vec::new(), [const { Vec::new() }; 3]);
    let mut without = 0;
    for seed in rounds(500) {
        let rng = &mut Rng::new(seed);
        let mut random = Random::new(rng);
        let sent = random.pay(rng, &wallets);
        let transaction = &random.transaction;
        let tweak = tweak_under_test(transaction);
        assert_eq!(tweak, tweak_by_oracle(transaction), "seed {seed}");
        assert_eq!(tweak, model::tweak(transaction, Mistake::None), "seed {seed}");
        assert_eq!(tweak.is_some(), sent.is_some() && !random.has_no_tweak, "seed {seed}");
        let Some((tweak, sent)) = tweak.zip(sent) else {
            without += 1;
            continue;
        };
        let outputs: Vec<_> = model::taproot_outputs(transaction).into_iter().map(|(_, key)| key).collect();
        for (number, (wallet, sent)) in wallets.iter().zip(sent).enumerate() {
            assert_eq!(wallet.found_by_oracle(&tweak, &outputs), sent, "seed {seed}");
            assert_eq!(wallet.found(&tweak, &outputs), sent, "seed {seed}");
            paid[number].extend((!sent.is_empty()).then_some(rows.len()));
        }
        let prefixes: Vec<[u8; 4]> = outputs.iter().map(|key| *key.first_chunk().unwrap()).collect();
        rows.push((tweak, prefixes));
    }
    let scanned: Vec<Row<'_>> = rows.iter().map(|(tweak, prefixes)| Row { tweak, prefixes }).collect();
    for engine in [Path::Vector, Path::Scalar, Path::Reference].into_iter().filter_map(Engine::with) {
        for (wallet, paid) in wallets.iter().zip(&paid) {
            assert_eq!(engine.scanner(wallet.key()).scan(&scanned).unwrap(), *paid, "{:?}", engine.path());
        }
    }
    let paid: usize = paid.iter().map(Vec::len).sum();
    assert!(paid > rows.len() / 2 && without > 5, "{paid} of {}, {without} without", rows.len());
    println!("{} transactions with a tweak, {without} without, {paid} times paid", rows.len());
}
