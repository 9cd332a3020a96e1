//! The receiving side of the BIP's vectors: `bip-0352/send_and_receive_test_vectors.json` of the repository
//! `bitcoin/bips` at commit 7fe0b034ec967b52a5a28276419117326df93263 (BIP version 1.1.1), without its sending side.

use secp256k1::{SECP256K1, SecretKey};
use serde_json::Value;

use crate::model::{Receiver, Spend, Transaction};

/// One receiver of one vector.
pub(crate) struct Vector {
    /// Number of its case, from 1.
    pub(crate) case: usize,
    pub(crate) transaction: Transaction,
    pub(crate) outputs: Vec<[u8; 32]>,
    pub(crate) receiver: Receiver,
    pub(crate) addresses: Vec<String>,
    pub(crate) tweak: Option<[u8; 33]>,
    pub(crate) payments: Payments,
}

/// The payments that a receiver must find.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Payments {
    /// Tweak of the private key, and key, sorted.
    Exact(Vec<([u8; 32], [u8; 32])>),
    Number(usize),
}

impl Vector {
    /// True if payments are those expected.
    pub(crate) fn accepts(&self, mut found: Vec<([u8; 32], [u8; 32])>) -> bool {
        found.sort_unstable();
        match &self.payments {
            Payments::Exact(expected) => found == *expected,
            Payments::Number(expected) => found.len() == *expected,
        }
    }
}

/// All vectors.
pub(crate) fn all() -> Vec<Vector> {
    let cases: Value = serde_json::from_str(include_str!("bip352.json")).unwrap();
    let cases = cases.as_array().unwrap();
    assert_eq!(cases.len(), 28);
    let receivers =
        (1..).zip(cases).flat_map(|(case, value)| list(&value["receiving"]).map(move |value| (case, value)));
    receivers.map(|(case, value)| vector(case, value)).collect()
}

fn vector(case: usize, value: &Value) -> Vector {
    let (given, expected) = (&value["given"], &value["expected"]);
    let outputs: Vec<[u8; 32]> = list(&given["outputs"]).map(bytes).collect();
    let spend: [u8; 32] = bytes(&given["key_material"]["spend_priv_key"]);
    let payments = if let Some(number) = expected["n_outputs"].as_u64() {
        Payments::Number(usize::try_from(number).unwrap())
    } else {
        let found = list(&expected["outputs"]);
        let mut found: Vec<_> =
            found.map(|found| (bytes(&found["priv_key_tweak"]), bytes(&found["pub_key"]))).collect();
        found.sort_unstable();
        Payments::Exact(found)
    };
    Vector {
        case,
        transaction: Transaction {
            inputs: list(&given["vin"]).map(input).collect(),
            outputs: outputs.iter().map(|key| [&[0x51, 0x20], &key[..]].concat()).collect(),
        },
        outputs,
        receiver: Receiver {
            scan: bytes(&given["key_material"]["scan_priv_key"]),
            spend: SecretKey::from_slice(&spend).unwrap().public_key(SECP256K1),
            labels: list(&given["labels"]).map(|label| label.as_u64().unwrap().try_into().unwrap()).collect(),
        },
        addresses: list(&expected["addresses"]).map(|text| text.as_str().unwrap().to_owned()).collect(),
        tweak: expected["tweak"].as_str().map(|_| bytes(&expected["tweak"])),
        payments,
    }
}

fn input(value: &Value) -> Spend {
    let mut txid: [u8; 32] = bytes(&value["txid"]);
    txid.reverse();
    Spend {
        txid,
        vout: value["vout"].as_u64().unwrap().try_into().unwrap(),
        script_sig: const_hex::decode(value["scriptSig"].as_str().unwrap()).unwrap(),
        witness: witness(&const_hex::decode(value["txinwitness"].as_str().unwrap()).unwrap()),
        spent: const_hex::decode(value["prevout"]["scriptPubKey"]["hex"].as_str().unwrap()).unwrap(),
    }
}

/// The items of a serialised witness. All counts and lengths of the vectors are below 253.
fn witness(bytes: &[u8]) -> Vec<Vec<u8>> {
    let Some((count, mut rest)) = bytes.split_first() else { return Vec::new() };
    let items = (0..*count).map(|_| {
        let (len, after) = rest.split_first().unwrap();
        assert!(*len < 253);
        let (item, after) = after.split_at(usize::from(*len));
        rest = after;
        item.to_vec()
    });
    items.collect()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().unwrap().iter()
}

fn bytes<const LEN: usize>(value: &Value) -> [u8; LEN] {
    const_hex::decode(value.as_str().unwrap()).unwrap().try_into().unwrap()
}
