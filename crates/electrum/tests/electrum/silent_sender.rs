//! The sending side of BIP 352, from the BIP's text and libsecp256k1 alone: what the receiver must find.

use bitcoin::hashes::{Hash as _, HashEngine as _, sha256};
use bitcoin::hex::DisplayHex as _;
use bitcoin::secp256k1::{PublicKey, SECP256K1, Scalar, SecretKey};
use bitcoin::sighash::{EcdsaSighashType, SighashCache};
use bitcoin::{
    Amount, CompressedPublicKey, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, absolute, consensus,
    transaction,
};

/// The keys of a wallet that receives.
pub(crate) struct Receiver {
    pub(crate) scan: SecretKey,
    pub(crate) spend: PublicKey,
}

/// A coin whose key is known.
pub(crate) struct KnownCoin {
    pub(crate) key: SecretKey,
    pub(crate) outpoint: OutPoint,
    pub(crate) value: Amount,
}

/// A payment to a silent payment address.
pub(crate) struct Sent {
    pub(crate) transaction: Transaction,
    /// Tweak that a server must find: the hash of the inputs times the sum of their keys.
    pub(crate) tweak: String,
}

pub(crate) fn secret(number: u8) -> SecretKey {
    SecretKey::from_slice(&sha256::Hash::hash(&[number; 7]).to_byte_array()).unwrap()
}

pub(crate) fn tagged(tag: &str, parts: &[&[u8]]) -> Scalar {
    let tag = sha256::Hash::hash(tag.as_bytes());
    let mut engine = sha256::Hash::engine();
    for part in [&[tag.as_byte_array() as &[u8], tag.as_byte_array()], parts].concat() {
        engine.input(part);
    }
    Scalar::from_be_bytes(sha256::Hash::from_engine(engine).to_byte_array()).unwrap()
}

impl Receiver {
    pub(crate) fn new(number: u8) -> Self {
        let spend = secret(number.wrapping_add(100)).public_key(SECP256K1);
        Self { scan: secret(number), spend }
    }

    pub(crate) fn scan_hex(&self) -> String {
        self.scan.secret_bytes().to_lower_hex_string()
    }

    pub(crate) fn spend_hex(&self) -> String {
        self.spend.to_string()
    }

    /// The spend key of an address with a label; of change with label 0.
    fn labelled(&self, label: Option<u32>) -> PublicKey {
        let Some(label) = label else { return self.spend };
        let tweak = tagged("BIP0352/Label", &[&self.scan.secret_bytes(), &label.to_be_bytes()]);
        self.spend.add_exp_tweak(SECP256K1, &tweak).unwrap()
    }
}

/// The script of a known key's coin.
pub(crate) fn script(key: &SecretKey) -> ScriptBuf {
    ScriptBuf::new_p2wpkh(&CompressedPublicKey(key.public_key(SECP256K1)).wpubkey_hash())
}

/// Pays a coin to a receiver, with a label if one is given, as output number 0 of its group.
pub(crate) fn pay(coin: &KnownCoin, receiver: &Receiver, label: Option<u32>, fee: Amount) -> Sent {
    let sum = coin.key.public_key(SECP256K1);
    let input_hash = tagged("BIP0352/Inputs", &[&consensus::serialize(&coin.outpoint), &sum.serialize()]);
    let secret = receiver.scan.public_key(SECP256K1);
    let secret = secret.mul_tweak(SECP256K1, &input_hash).unwrap();
    let secret = secret.mul_tweak(SECP256K1, &Scalar::from(coin.key)).unwrap();
    let output = tagged("BIP0352/SharedSecret", &[&secret.serialize(), &0u32.to_be_bytes()]);
    let output = receiver.labelled(label).add_exp_tweak(SECP256K1, &output).unwrap();
    let output = [&[0x51, 0x20], &output.x_only_public_key().0.serialize()[..]].concat();
    let mut transaction = Transaction {
        version: transaction::Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn {
            previous_output: coin.outpoint,
            script_sig: ScriptBuf::new(),
            sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
            witness: Witness::new(),
        }],
        output: vec![TxOut { value: coin.value - fee, script_pubkey: output.into() }],
    };
    let mut cache = SighashCache::new(&transaction);
    let hash = cache.p2wpkh_signature_hash(0, &script(&coin.key), coin.value, EcdsaSighashType::All).unwrap();
    let signature = SECP256K1.sign_ecdsa(&hash.into(), &coin.key);
    let signature = bitcoin::ecdsa::Signature { signature, sighash_type: EcdsaSighashType::All };
    transaction.input[0].witness = Witness::p2wpkh(&signature, &coin.key.public_key(SECP256K1));
    let tweak = sum.mul_tweak(SECP256K1, &input_hash).unwrap();
    Sent { transaction, tweak: tweak.to_string() }
}
