//! The kernel and the scan on the vectors and on our own cases.

use birdhouse_silentpayments::{Engine, Path, Row, ScanKey};
use secp256k1::{PublicKey, SECP256K1, SecretKey};

use crate::cases::{self, Eligibility, p2wpkh, paying};
use crate::model::{self, Mistake, tweak_under_test};
use crate::vectors::{self, Payments};

#[test]
fn tweaks_are_those_of_the_vectors() {
    for vector in vectors::all() {
        assert_eq!(tweak_under_test(&vector.transaction), vector.tweak, "case {}", vector.case);
    }
}

#[test]
fn payments_are_those_of_the_vectors() {
    for vector in vectors::all() {
        let Some(tweak) = vector.tweak else { continue };
        let receiver = &vector.receiver;
        let key = ScanKey::new(&receiver.scan, &receiver.spend.serialize(), &receiver.labels).unwrap();
        let payments = key.payments(&tweak, &vector.outputs).unwrap();
        let model = receiver.payments(&tweak, &vector.outputs, Mistake::None);
        assert_eq!(key.is_paid(&tweak, &vector.outputs), Ok(!model.is_empty()), "case {}", vector.case);
        let keys: Vec<_> = payments.iter().map(|payment| vector.outputs[payment.output]).collect();
        assert!(keys.iter().eq(model.iter().map(|(_, key)| key)), "case {}", vector.case);
        assert!(vector.accepts(model), "case {}", vector.case);
        for payment in payments.iter().filter(|payment| payment.label.is_some_and(|label| label > 0)) {
            assert!(receiver.labels.contains(&payment.label.unwrap()), "case {}", vector.case);
        }
    }
}

#[test]
fn the_model_has_the_tweaks_and_spends_the_payments_of_the_vectors() {
    for vector in vectors::all() {
        let tweak = model::tweak(&vector.transaction, Mistake::None);
        assert_eq!(tweak, vector.tweak, "case {}", vector.case);
        let Payments::Exact(payments) = &vector.payments else { continue };
        for (tweak, key) in payments {
            let tweak = SecretKey::from_slice(tweak).unwrap();
            let point: PublicKey = vector.receiver.spend.combine(&tweak.public_key(SECP256K1)).unwrap();
            assert_eq!(point.x_only_public_key().0.serialize(), *key, "case {}", vector.case);
        }
    }
}

#[test]
fn scans_hit_the_rows_with_payments_on_every_path() {
    let engines: Vec<_> = [Path::Vector, Path::Scalar, Path::Reference].into_iter().filter_map(Engine::with).collect();
    assert!(engines.len() >= 2);
    for vector in vectors::all() {
        let Some(tweak) = vector.tweak else { continue };
        let prefixes: Vec<[u8; 4]> = vector.outputs.iter().map(|key| key[..4].try_into().unwrap()).collect();
        let rows = [Row { tweak: &tweak, prefixes: &[] }, Row { tweak: &tweak, prefixes: &prefixes }];
        // Few rows have no batch.
        let many = rows.repeat(5);
        let is_paid = vector.payments != Payments::Exact(Vec::new());
        for engine in &engines {
            let receiver = &vector.receiver;
            let key = ScanKey::new(&receiver.scan, &receiver.spend.serialize(), &receiver.labels).unwrap();
            let scanner = engine.scanner(key);
            let [few, hits] = [&rows[..], &many].map(|rows| scanner.scan(rows).unwrap());
            assert_eq!(few, if is_paid { &[1][..] } else { &[] }, "case {} by {:?}", vector.case, engine.path());
            assert_eq!(hits, if is_paid { &[1, 3, 5, 7, 9][..] } else { &[] }, "case {}", vector.case);
        }
    }
}

#[test]
fn tweaks_are_those_of_the_model_and_each_mistake_changes_its_case() {
    for case in cases::all() {
        let expected = model::tweak(&case.transaction, Mistake::None);
        let shown = format!("{:?} {:?}", case.finds, case.eligible);
        assert_eq!(expected.is_some(), case.eligible == Eligibility::Eligible, "{shown}");
        assert_eq!(tweak_under_test(&case.transaction), expected, "{shown}");
        if case.finds != Mistake::None {
            assert_ne!(model::tweak(&case.transaction, case.finds), expected, "{shown}");
        }
    }
}

#[test]
fn ten_thousand_inputs_have_the_tweak_of_the_sum_of_their_keys() {
    let inputs: Vec<_> = (1..=10_000).map(p2wpkh).collect();
    // 1 + 2 + .. + 10 000, by the private keys.
    let mut sum = [0; 32];
    sum[28..].copy_from_slice(&50_005_000_u32.to_be_bytes());
    let sum = SecretKey::from_slice(&sum).unwrap();
    let message = [&inputs[9_999].outpoint()[..], &sum.public_key(SECP256K1).serialize()].concat();
    let hash = SecretKey::from_slice(&model::tagged("BIP0352/Inputs", &message)).unwrap();
    let tweak = sum.mul_tweak(&hash.into()).unwrap().public_key(SECP256K1);
    assert_eq!(tweak_under_test(&paying(inputs)), Some(tweak.serialize()));
}
