//! Every mistake of the list is found by a vector or by one of our cases.

use birdhouse_silentpayments::ScanKey;
use secp256k1::{PublicKey, SECP256K1, Scalar};

use crate::cases;
use crate::model::{Mistake, Receiver, tweak};
use crate::vectors::{self, Vector};

/// Mistakes with the vectors that find them, as measured with the BIP's own implementation.
const FOUND_BY_VECTORS: &[(Mistake, &[usize])] = &[
    (Mistake::DisplayOrder, &[1, 2, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 22, 24]),
    (Mistake::VoutAsNumber, &[5]),
    (Mistake::SmallestOfEligible, &[20, 22]),
    (Mistake::FirstOutpoint, &[2, 4, 5, 22]),
    (Mistake::UnspendableTaken, &[20]),
    (Mistake::AnnexKept, &[20]),
    (Mistake::KeyByTemplate, &[21]),
    (Mistake::UncompressedTaken, &[22, 23, 25]),
    (Mistake::NestedSkipped, &[23]),
    (Mistake::InfinityOnTheWay, &[27]),
    (Mistake::EqualKeysOnce, &[6, 27]),
    (Mistake::FirstPaymentOnly, &[11, 12, 16, 17, 18, 28]),
    (Mistake::NoLabels, &[13, 14, 15, 16, 17, 18, 19, 28]),
    (Mistake::NoMaximum, &[28]),
    (Mistake::ScriptPathSkipped, &[]),
    (Mistake::RedeemScriptUnread, &[]),
    (Mistake::ChangeWhenListed, &[]),
    (Mistake::AnnexOfOneByte, &[]),
    (Mistake::LaterVersionsTaken, &[]),
];

fn is_found(vector: &Vector, mistake: Mistake) -> bool {
    let found = tweak(&vector.transaction, mistake);
    if found != vector.tweak {
        return true;
    }
    let payments = found.map(|tweak| vector.receiver.payments(&tweak, &vector.outputs, mistake));
    !vector.accepts(payments.unwrap_or_default())
}

#[test]
fn vectors_find_the_mistakes_that_they_are_known_to_find() {
    let vectors = vectors::all();
    for (mistake, cases) in FOUND_BY_VECTORS {
        let mut found: Vec<_> =
            vectors.iter().filter(|vector| is_found(vector, *mistake)).map(|vector| vector.case).collect();
        found.dedup();
        assert_eq!(found, *cases, "{mistake:?}");
    }
}

#[test]
fn our_cases_find_the_mistakes_that_the_vectors_miss() {
    let cases = cases::all();
    for (mistake, vectors) in FOUND_BY_VECTORS {
        let is_ours = cases.iter().any(|case| case.finds == *mistake);
        assert!(!vectors.is_empty() || is_ours || *mistake == Mistake::ChangeWhenListed, "{mistake:?}");
    }
}

#[test]
fn change_is_found_without_being_listed() {
    let spend = cases::key(5);
    let receiver = Receiver { scan: [3; 32], spend, labels: vec![] };
    let tweak = cases::key(7).serialize();
    // The sender's side: the scalar of output 0 and the point of the receiver's label 0.
    let secret = cases::key(7).mul_tweak(SECP256K1, &Scalar::from_be_bytes([3; 32]).unwrap()).unwrap();
    let message = [&secret.serialize()[..], &[0; 4]].concat();
    let scalar = Scalar::from_be_bytes(crate::model::tagged("BIP0352/SharedSecret", &message)).unwrap();
    let change: PublicKey = spend.combine(&receiver.label(0).public_key(SECP256K1)).unwrap();
    let paid = change.add_exp_tweak(SECP256K1, &scalar).unwrap().x_only_public_key().0.serialize();

    let key = ScanKey::new(&[3; 32], &spend.serialize(), &[]).unwrap();
    let payments = key.payments(&tweak, &[[1; 32], paid]).unwrap();
    assert_eq!(payments.iter().map(|payment| (payment.output, payment.label)).collect::<Vec<_>>(), [(1, Some(0))]);
    assert_eq!(receiver.payments(&tweak, &[paid], Mistake::None).len(), 1);
    assert_eq!(receiver.payments(&tweak, &[paid], Mistake::ChangeWhenListed).len(), 0);
}

#[test]
fn keys_that_are_none_are_refused() {
    use birdhouse_silentpayments::KeyError;
    let order = const_hex::decode("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141").unwrap();
    let spend = cases::key(5).serialize();
    let refusal = |scan: &[u8; 32], spend: &[u8; 33]| ScanKey::new(scan, spend, &[]).err();
    assert_eq!(refusal(&[0; 32], &spend), Some(KeyError::Scan));
    assert_eq!(refusal(&order.try_into().unwrap(), &spend), Some(KeyError::Scan));
    assert_eq!(refusal(&[1; 32], &[4; 33]), Some(KeyError::Spend));
    assert_eq!(refusal(&[1; 32], &[&[2][..], &[0xff; 32]].concat().try_into().unwrap()), Some(KeyError::Spend));
    assert_eq!(refusal(&[1; 32], &spend), None);
}
