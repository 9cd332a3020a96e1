//! The requests of attacks on the Electrum protocol.
//!
//! A scan for silent payments computes many rows together, by quick formulas that have exceptions: a row whose multiple
//! of the generator is that of the spend key, or its negative. Whoever chooses the spend key can make one.

use birdhouse_regtest::rng::Rng;
use bitcoin::hashes::{Hash as _, sha256};
use bitcoin::hex::DisplayHex as _;
use bitcoin::secp256k1::{PublicKey, SECP256K1, Scalar, SecretKey};
use serde_json::{Value, json};

/// Share of the rounds in which a connection asks for a scan: one some fifty milliseconds.
pub(super) const SCANS_PER_MILLE: u64 = 40;
/// Share of the rounds in which a connection that asks for scans disconnects: after half a second, while some run.
pub(super) const LEAVES_PER_MILLE: u64 = 4;
/// Labels of a subscription, the most that are allowed. Each makes a candidate more for every row.
const LABELS: u32 = 10;
/// Bits of a window of the server's table of multiples, and the number of its windows.
const WINDOW_BITS: usize = 10;
const WINDOWS: usize = 26;

/// Returns a request.
pub(super) fn request(method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 0, "method": method, "params": params }).to_string()
}

/// Returns the line that subscribes to an address of a new scan key, with the most labels.
pub(super) fn scan(rng: &mut Rng) -> Vec<u8> {
    let [scan, spend] = [(); 2].map(|()| secret(rng));
    let labels: Vec<u32> = (1..=LABELS).collect();
    subscribe(&scan, &spend.public_key(SECP256K1), &labels)
}

/// Returns the line that subscribes to an address of a new scan key, whose spend key is an exception: for the row of
/// `tweak`, or for all rows.
pub(super) fn hostile_scan(rng: &mut Rng, tweak: &PublicKey) -> Vec<u8> {
    let scan = secret(rng);
    let spend = if rng.per_mille(500) { of_row(&scan, tweak) } else { of_all_rows() };
    subscribe(&scan, &spend, &[])
}

fn subscribe(scan: &SecretKey, spend: &PublicKey, labels: &[u32]) -> Vec<u8> {
    let scan = scan.secret_bytes().to_lower_hex_string();
    let params = json!([scan, spend.to_string(), 0, labels]);
    (request("blockchain.silentpayments.subscribe", &params) + "\n").into_bytes()
}

/// The spend key whose first output in the transaction of `tweak` is the point at infinity.
fn of_row(scan: &SecretKey, tweak: &PublicKey) -> PublicKey {
    let shared = tweak.mul_tweak(SECP256K1, &Scalar::from(*scan)).expect("a key times a key is a key").serialize();
    let tag = sha256::Hash::hash(b"BIP0352/SharedSecret").to_byte_array();
    let hash = sha256::Hash::hash(&[&tag[..], &tag, &shared, &0_u32.to_be_bytes()].concat());
    let output = SecretKey::from_slice(hash.as_byte_array()).expect("a hash is a key but for one in 2^128");
    output.negate().public_key(SECP256K1)
}

/// The spend key that meets the negative of an entry of the highest window, so that no table of this window can be
/// made: the largest digit there.
fn of_all_rows() -> PublicKey {
    let mut unit = [0; 32];
    let bit = WINDOW_BITS * (WINDOWS - 1);
    unit[31 - bit / 8] = 1 << (bit % 8);
    let digit = Scalar::from_be_bytes({
        let mut bytes = [0; 32];
        bytes[30..].copy_from_slice(&((1_u16 << WINDOW_BITS) - 1).to_be_bytes());
        bytes
    });
    let unit = SecretKey::from_slice(&unit).expect("below the order");
    unit.mul_tweak(&digit.expect("below the order")).expect("not zero").public_key(SECP256K1)
}

fn secret(rng: &mut Rng) -> SecretKey {
    SecretKey::from_slice(&rng.bytes::<32>()).expect("a key but for one in 2^128")
}
