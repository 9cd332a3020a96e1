//! A slow model of BIP 352, written from its text and from `reference.py` beside it, with one mistake at a time.
//!
//! It shares the library of curve points with the code under test, and nothing else.

use birdhouse_silentpayments::{Eligible, Input};
use bitcoin::hashes::{Hash as _, hash160, sha256};
use secp256k1::{PublicKey, SECP256K1, Scalar, SecretKey};

/// A mistake that an implementation of BIP 352 can make; those with a name in brackets were seen in one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mistake {
    None,
    /// Compares outpoints as they are displayed: txids reversed, output numbers as numbers.
    DisplayOrder,
    /// Compares output numbers as numbers.
    VoutAsNumber,
    /// Takes the smallest outpoint among inputs with a key.
    SmallestOfEligible,
    /// Takes the outpoint of the first input.
    FirstOutpoint,
    /// Takes taproot inputs whose internal key nobody has.
    UnspendableTaken,
    /// Leaves the annex on the witness.
    AnnexKept,
    /// Drops an annex only if it is one byte (`BlindBit`).
    AnnexOfOneByte,
    /// Drops an only item as an annex.
    AnnexOfOneItem,
    /// Leaves every spend by script out.
    ScriptPathSkipped,
    /// Takes the key of P2PKH only from its usual position.
    KeyByTemplate,
    /// Takes uncompressed keys.
    UncompressedTaken,
    /// Leaves P2SH out.
    NestedSkipped,
    /// Takes every P2SH for a nested P2WPKH.
    RedeemScriptUnread,
    /// Takes the last item of any witness of version 0.
    AnyVersionZero,
    /// Does not look for later versions (`BlindBit`, Cake's electrs).
    LaterVersionsTaken,
    /// Takes two opcodes for a witness program of any length.
    LongProgram,
    /// Takes an unknown output of version 1 for a later version.
    AnchorIsLater,
    /// Gives the transaction up at an input of an unknown form.
    UnknownGivesUp,
    /// Gives the transaction up at a key that is no point (`go-bip352`).
    BadKeyGivesUp,
    /// Asks of taproot outputs that they be points.
    OutputsMustBePoints,
    /// Fails when a sum on the way is infinity.
    InfinityOnTheWay,
    /// Counts equal keys once.
    EqualKeysOnce,
    /// Reads the first 255 inputs.
    FewInputs,
    /// Computes a tweak for a coinbase.
    CoinbaseTaken,
    /// Looks for the first output of a receiver only.
    FirstPaymentOnly,
    /// Looks for no label.
    NoLabels,
    /// Looks for change only if its label is listed.
    ChangeWhenListed,
    /// Looks for outputs without end.
    NoMaximum,
}

/// A transaction with the scripts that it spends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Transaction {
    pub(crate) inputs: Vec<Spend>,
    /// The scriptPubKeys.
    pub(crate) outputs: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Spend {
    /// In internal byte order.
    pub(crate) txid: [u8; 32],
    pub(crate) vout: u32,
    pub(crate) script_sig: Vec<u8>,
    pub(crate) witness: Vec<Vec<u8>>,
    pub(crate) spent: Vec<u8>,
}

impl Spend {
    pub(crate) fn outpoint(&self) -> [u8; 36] {
        [&self.txid[..], &self.vout.to_le_bytes()].concat().try_into().unwrap()
    }
}

/// The tweak by the code under test.
pub(crate) fn tweak_under_test(transaction: &Transaction) -> Option<[u8; 33]> {
    let outpoints: Vec<_> = transaction.inputs.iter().map(Spend::outpoint).collect();
    let inputs = transaction.inputs.iter().zip(&outpoints).map(|(spend, outpoint)| Input {
        outpoint,
        script_sig: &spend.script_sig,
        witness: spend.witness.iter().map(Vec::as_slice).collect(),
        spent_script: &spend.spent,
    });
    let eligible = Eligible::of(&inputs.collect::<Vec<_>>(), transaction.outputs.iter().map(Vec::as_slice))?;
    let keys: Vec<_> = eligible.outputs.iter().map(|output| (output.vout, *output.key)).collect();
    assert_eq!(keys, taproot_outputs(transaction));
    Some(eligible.tweak)
}

/// Number and key of each taproot output.
pub(crate) fn taproot_outputs(transaction: &Transaction) -> Vec<(u32, [u8; 32])> {
    let scripts = (0_u32..).zip(&transaction.outputs);
    let taproot = scripts.filter(|(_, script)| is_taproot(script));
    taproot.map(|(vout, script)| (vout, script[2..].try_into().unwrap())).collect()
}

/// The tweak by the BIP, but for a mistake.
pub(crate) fn tweak(transaction: &Transaction, mistake: Mistake) -> Option<[u8; 33]> {
    let is_point = |key: &[u8]| even(key).is_some();
    let mut keys = transaction.outputs.iter().filter(|script| is_taproot(script)).map(|script| &script[2..]);
    if !keys.any(|key| mistake != Mistake::OutputsMustBePoints || is_point(key)) {
        return None;
    }
    let is_coinbase = |spend: &Spend| spend.txid == [0; 32] && spend.vout == u32::MAX;
    if transaction.inputs.iter().any(is_coinbase) && mistake != Mistake::CoinbaseTaken {
        return None;
    }
    if transaction.inputs.iter().any(|spend| is_later_version(&spend.spent, mistake)) {
        return None;
    }
    let taken = if mistake == Mistake::FewInputs { 255 } else { usize::MAX };
    let inputs: Vec<_> = transaction.inputs.iter().take(taken).collect();
    let mut sum: Option<PublicKey> = None;
    let mut seen = Vec::new();
    let mut eligible = Vec::new();
    for spend in &inputs {
        let key = match key_of(spend, mistake) {
            Found::Key(key) => key,
            Found::Nothing => continue,
            Found::GiveUp => return None,
        };
        eligible.push(*spend);
        if mistake == Mistake::EqualKeysOnce && seen.contains(&key) {
            continue;
        }
        seen.push(key);
        let was_some = sum.is_some();
        sum = match sum {
            Some(sum) => sum.combine(&key).ok(),
            None => Some(key),
        };
        if was_some && sum.is_none() && mistake == Mistake::InfinityOnTheWay {
            return None;
        }
    }
    let sum = sum?.serialize();
    let outpoint = smallest(&inputs, &eligible, mistake);
    let hash = tagged("BIP0352/Inputs", &[&outpoint[..], &sum].concat());
    let scalar = Scalar::from_be_bytes(hash).ok()?;
    let tweak = PublicKey::from_slice(&sum).unwrap().mul_tweak(SECP256K1, &scalar).ok()?;
    Some(tweak.serialize())
}

fn smallest(inputs: &[&Spend], eligible: &[&Spend], mistake: Mistake) -> [u8; 36] {
    let displayed = |spend: &&Spend| {
        let mut txid = spend.txid;
        txid.reverse();
        (txid, spend.vout)
    };
    let bytes = |spend: &&Spend| spend.outpoint();
    match mistake {
        Mistake::DisplayOrder => bytes(inputs.iter().min_by_key(|spend| displayed(spend)).unwrap()),
        Mistake::VoutAsNumber => bytes(inputs.iter().min_by_key(|spend| (spend.txid, spend.vout)).unwrap()),
        Mistake::SmallestOfEligible => eligible.iter().map(bytes).min().unwrap(),
        Mistake::FirstOutpoint => bytes(&inputs[0]),
        _ => inputs.iter().map(bytes).min().unwrap(),
    }
}

enum Found {
    Key(PublicKey),
    Nothing,
    GiveUp,
}

fn key_of(spend: &Spend, mistake: Mistake) -> Found {
    let spent = &spend.spent[..];
    let bad = if mistake == Mistake::BadKeyGivesUp { Found::GiveUp } else { Found::Nothing };
    let parsed = |key: &[u8]| {
        let fits = key.len() == 33 || (mistake == Mistake::UncompressedTaken && key.len() == 65);
        fits.then(|| PublicKey::from_slice(key).ok()).flatten()
    };
    let last = || spend.witness.last().map_or(Found::Nothing, |item| parsed(item).map_or(Found::Nothing, Found::Key));
    if spent.len() == 25 && spent[..3] == [0x76, 0xa9, 0x14] && spent[23..] == [0x88, 0xac] {
        return match pay_to_key_hash(&spend.script_sig, &spent[3..23], mistake) {
            Some(key) => parsed(&key).map_or(Found::Nothing, Found::Key),
            None => Found::Nothing,
        };
    }
    if spent.len() == 23 && spent[..2] == [0xa9, 0x14] && spent[22] == 0x87 {
        let redeem = spend.script_sig.get(1..).unwrap_or(&[]);
        let is_nested = redeem.len() == 22 && redeem[..2] == [0x00, 0x14];
        let is_taken = (is_nested || mistake == Mistake::RedeemScriptUnread) && mistake != Mistake::NestedSkipped;
        return if is_taken { last() } else { Found::Nothing };
    }
    if spent.len() == 22 && spent[..2] == [0x00, 0x14] {
        return last();
    }
    if is_taproot(spent) {
        return match taproot(spend, mistake) {
            Some(key) => even(key).map_or(bad, Found::Key),
            None => Found::Nothing,
        };
    }
    match mistake {
        Mistake::AnyVersionZero if spent.first() == Some(&0x00) => last(),
        Mistake::UnknownGivesUp => Found::GiveUp,
        _ => Found::Nothing,
    }
}

fn pay_to_key_hash(script_sig: &[u8], hash: &[u8], mistake: Mistake) -> Option<Vec<u8>> {
    let hashes_to = |key: &[u8]| hash160::Hash::hash(key).to_byte_array() == hash;
    if mistake == Mistake::KeyByTemplate {
        let signature = usize::from(*script_sig.first()?);
        return script_sig.get(signature + 2..).filter(|key| key.len() == 33 && hashes_to(key)).map(<[u8]>::to_vec);
    }
    for len in if mistake == Mistake::UncompressedTaken { &[33, 65][..] } else { &[33] } {
        for end in (*len..=script_sig.len()).rev() {
            let window = &script_sig[end - len..end];
            if hashes_to(window) && PublicKey::from_slice(window).is_ok() {
                return Some(window.to_vec());
            }
        }
    }
    None
}

/// The output key of a taproot input, if it is taken.
fn taproot(spend: &Spend, mistake: Mistake) -> Option<&[u8]> {
    let unspendable = const_hex::decode("50929b74c1a04954b78b4b6035e97a5e078a5a0f28ec96d547bfee9ace803ac0").unwrap();
    let mut stack = spend.witness.clone();
    let annex_items = usize::from(mistake != Mistake::AnnexOfOneItem);
    let is_annex = |item: &Vec<u8>| match mistake {
        Mistake::AnnexKept => false,
        Mistake::AnnexOfOneByte => *item == [0x50],
        _ => item.first() == Some(&0x50),
    };
    if stack.len() > annex_items && stack.last().is_some_and(is_annex) {
        stack.pop();
    }
    let control_block = stack.last()?;
    if stack.len() > 1 {
        let is_unspendable = control_block.len() >= 33 && control_block[1..33] == unspendable;
        if mistake == Mistake::ScriptPathSkipped || (is_unspendable && mistake != Mistake::UnspendableTaken) {
            return None;
        }
    }
    Some(&spend.spent[2..])
}

fn is_taproot(script: &[u8]) -> bool {
    script.len() == 34 && script[..2] == [0x51, 0x20]
}

fn is_later_version(script: &[u8], mistake: Mistake) -> bool {
    if mistake == Mistake::LaterVersionsTaken || script.len() < 4 {
        return false;
    }
    let longest = if mistake == Mistake::LongProgram { 520 } else { 42 };
    let is_program = script.len() <= longest && usize::from(script[1]) + 2 == script.len();
    let is_later = matches!(script[0], 0x52..=0x60);
    is_program && (is_later || (mistake == Mistake::AnchorIsLater && script[0] == 0x51 && !is_taproot(script)))
}

fn even(x: &[u8]) -> Option<PublicKey> {
    PublicKey::from_slice(&[&[2], x].concat()).ok()
}

pub(crate) fn tagged(tag: &str, message: &[u8]) -> [u8; 32] {
    let tag = sha256::Hash::hash(tag.as_bytes()).to_byte_array();
    sha256::Hash::hash(&[&tag, &tag, message].concat()).to_byte_array()
}

/// A receiver of the model.
pub(crate) struct Receiver {
    pub(crate) scan: [u8; 32],
    pub(crate) spend: PublicKey,
    pub(crate) labels: Vec<u32>,
}

impl Receiver {
    /// The scalar of a label.
    pub(crate) fn label(&self, number: u32) -> SecretKey {
        let message = [&self.scan[..], &number.to_be_bytes()].concat();
        SecretKey::from_slice(&tagged("BIP0352/Label", &message)).unwrap()
    }

    /// Tweak of the private key, and key, of each output that pays this receiver, as in `scanning` of `reference.py`.
    pub(crate) fn payments(
        &self,
        tweak: &[u8; 33],
        outputs: &[[u8; 32]],
        mistake: Mistake,
    ) -> Vec<([u8; 32], [u8; 32])> {
        let scan = Scalar::from_be_bytes(self.scan).unwrap();
        let secret = PublicKey::from_slice(tweak).unwrap().mul_tweak(SECP256K1, &scan).unwrap().serialize();
        let mut labels = self.labels.clone();
        if mistake != Mistake::ChangeWhenListed {
            labels.push(0);
        }
        if mistake == Mistake::NoLabels {
            labels.clear();
        }
        let labels: Vec<_> = labels.into_iter().map(|number| self.label(number)).collect();
        let mut left = outputs.to_vec();
        let mut found = Vec::new();
        let ends = match mistake {
            Mistake::FirstPaymentOnly => 1,
            Mistake::NoMaximum => u32::MAX,
            _ => 2323,
        };
        for k in 0..ends {
            let scalar = tagged("BIP0352/SharedSecret", &[&secret[..], &k.to_be_bytes()].concat());
            let scalar = SecretKey::from_slice(&scalar).unwrap();
            let plain = self.spend.combine(&scalar.public_key(SECP256K1)).unwrap();
            let mut candidates = vec![(scalar, plain)];
            for label in &labels {
                let both = scalar.add_tweak(&Scalar::from(*label)).unwrap();
                candidates.push((both, plain.combine(&label.public_key(SECP256K1)).unwrap()));
            }
            let candidates: Vec<_> = candidates
                .into_iter()
                .map(|(scalar, point)| (scalar.secret_bytes(), point.x_only_public_key().0.serialize()))
                .collect();
            let hit = left.iter().enumerate().find_map(|(at, key)| {
                candidates.iter().find(|(_, candidate)| candidate == key).map(|(scalar, _)| (at, *scalar))
            });
            let Some((at, scalar)) = hit else { break };
            found.push((scalar, left.remove(at)));
        }
        found
    }
}
