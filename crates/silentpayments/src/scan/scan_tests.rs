//! Paths against libsecp256k1, one row after the other.
//!
//! `BIRDHOUSE_ROUNDS` is the number of random rows, 10 000 without it.

use secp256k1::{PublicKey, SECP256K1, Scalar, SecretKey};

use super::*;
use crate::scan::number::ORDER;
use crate::scan::table::{BITS, LOW_WINDOWS, WINDOWS};
use crate::tagged;

/// The engines of this processor, but for the reference.
fn engines() -> Vec<Engine> {
    let engines: Vec<_> = [Path::Vector, Path::Scalar].into_iter().filter_map(Engine::with).collect();
    assert!(engines.iter().any(|engine| engine.path == Path::Scalar));
    if engines.len() == 1 {
        eprintln!("skipped for {:?}: this processor lacks AVX-512 IFMA", Path::Vector);
    }
    engines
}

fn rounds() -> usize {
    std::env::var("BIRDHOUSE_ROUNDS").map_or(10_000, |rounds| rounds.parse().unwrap())
}

fn secret(number: u64) -> SecretKey {
    SecretKey::from_slice(&tagged::INPUTS.hash(&number.to_be_bytes())).unwrap()
}

fn tweaks(from: u64, rows: usize) -> Vec<[u8; 33]> {
    // Sums are quicker than multiples, and their coordinates as random.
    let step = secret(from);
    let mut key = secret(from + 1).public_key(SECP256K1);
    let next = |_| {
        key = key.add_exp_tweak(SECP256K1, &step.into()).unwrap();
        key.serialize()
    };
    (0..rows).map(next).collect()
}

fn key(scan: &Number, spend: &PublicKey, labels: &[u32]) -> ScanKey {
    ScanKey::new(&number::to_be_bytes(scan), &spend.serialize(), labels).unwrap()
}

/// Asserts that the candidates of rows are those of complete formulas, but for exceptions; returns these.
fn check(scanner: &Scanner, tweaks: &[[u8; 33]]) -> Vec<usize> {
    check_all(std::slice::from_ref(scanner), tweaks).swap_remove(0)
}

/// [`check`] of some scanners with one key.
fn check_all(scanners: &[Scanner], tweaks: &[[u8; 33]]) -> Vec<Vec<usize>> {
    let each = 1 + scanners[0].key.labels().len();
    let refs: Vec<_> = tweaks.iter().collect();
    let found: Vec<_> = scanners.iter().map(|scanner| scanner.candidates(&refs).unwrap().unwrap()).collect();
    assert!(found.iter().all(|found| found.x.len() == each * tweaks.len()));
    for (row, tweak) in tweaks.iter().enumerate() {
        let complete = scanners[0].complete(tweak).unwrap();
        for (scanner, found) in scanners.iter().zip(&found) {
            let x = &found.x[row * each..][..each];
            let is_equal = complete.iter().zip(x).all(|(complete, x)| complete.as_ref() == Some(x));
            assert!(is_equal || found.exceptions.contains(&row), "row {row} by {:?}", scanner.path);
        }
    }
    found.into_iter().map(|found| found.exceptions).collect()
}

/// Asserts that a scan hits exactly the rows of which a prefix is that of a candidate.
fn check_hits(scanner: &Scanner, tweaks: &[[u8; 33]]) {
    let prefixes = |tweak, candidate: usize| {
        let candidates = scanner.complete(tweak).unwrap();
        let x = candidates[candidate % candidates.len()].map(|x| number::to_be_bytes(&x));
        let mut prefix = [0, 0, 0, 1];
        prefix.copy_from_slice(x.as_ref().map_or(&[0, 0, 0, 1], |x| &x[..4]));
        (vec![[0, 0, 0, 1], prefix], x.is_some())
    };
    let all: Vec<_> = tweaks.iter().enumerate().map(|(at, tweak)| prefixes(tweak, at)).collect();
    let row = |at: usize| {
        let shown = if at % 3 == 1 { 1 } else { 2 };
        Row { tweak: &tweaks[at], prefixes: &all[at].0[..shown] }
    };
    let rows: Vec<_> = (0..tweaks.len()).map(row).collect();
    let expected: Vec<_> = (0..tweaks.len()).filter(|at| at % 3 != 1 && all[*at].1).collect();
    assert_eq!(scanner.scan(&rows).unwrap(), expected, "{:?}", scanner.path);
}

#[test]
fn random_rows_have_the_candidates_of_libsecp256k1() {
    let engines = engines();
    let rows = 1_250;
    for round in 0..rounds() / rows {
        let tweaks = tweaks(1_000 + 2 * round as u64, rows);
        let scan = number::from_be_bytes(&secret(10 + round as u64).secret_bytes());
        let spend = secret(1_000_000 + round as u64).public_key(SECP256K1);
        let scanners: Vec<_> = engines.iter().map(|engine| engine.scanner(key(&scan, &spend, &[]))).collect();
        assert!(check_all(&scanners, &tweaks).iter().all(Vec::is_empty));
    }
}

#[test]
fn products_of_points_and_scalars_are_those_of_libsecp256k1() {
    let special = lanes_tests::special_scalars().into_iter();
    let random = (0..rounds() as u64).map(|number| number::from_be_bytes(&secret(number).secret_bytes()));
    let points = tweaks(6, 100);
    let factors = special.chain(random).enumerate().map(|(at, scalar)| Factors {
        point: PublicKey::from_slice(&points[at % points.len()]).unwrap(),
        scalar: Scalar::from_be_bytes(number::to_be_bytes(&scalar)).unwrap(),
    });
    let rows: Vec<_> = factors.collect();
    let expected: Vec<_> = rows.iter().map(Factors::multiply).collect();
    for engine in engines() {
        for count in (0..40).chain([1_023, 1_024, 1_025, rows.len()]) {
            assert_eq!(engine.multiply(&rows[..count]), expected[..count], "{count} rows by {:?}", engine.path);
        }
    }
}

#[test]
fn special_scan_keys_have_the_candidates_of_libsecp256k1() {
    let tweaks = tweaks(1, 17);
    for engine in engines() {
        for scan in lanes_tests::special_scalars() {
            let spend = secret(5).public_key(SECP256K1);
            assert_eq!(check(&engine.scanner(key(&scan, &spend, &[1, 7])), &tweaks), []);
        }
    }
}

#[test]
fn any_number_of_rows_is_scanned() {
    let tweaks = tweaks(2, 2_100);
    for engine in engines() {
        let scanner = engine.scanner(key(&[9, 8, 7, 6], &secret(6).public_key(SECP256K1), &[3]));
        for rows in (0..40).chain([255, 256, 257, 1_023, 1_024, 1_025, 1_031, 2_100]) {
            assert_eq!(check(&scanner, &tweaks[..rows]), []);
        }
        for rows in (0..=FEW_ROWS + 1).chain([100]) {
            check_hits(&scanner, &tweaks[..rows]);
        }
    }
}

/// The point of a scalar.
fn multiple(scalar: &Number) -> PublicKey {
    SecretKey::from_slice(&number::to_be_bytes(scalar)).unwrap().public_key(SECP256K1)
}

fn minus(a: &Number, b: &Number) -> Number {
    number::add_mod(a, &number::negate_mod(b))
}

/// Private keys of spend keys that meet an exception at a row whose output has a scalar.
fn hostile(scalar: &Number, label: &Number) -> Vec<Number> {
    let power = |exponent: usize| (0..exponent).fold([1, 0, 0, 0], |power, _| number::add_mod(&power, &power));
    let offset = minus(&power(BITS * WINDOWS), &[1, 0, 0, 0]);
    let recoded = number::half_mod(&number::add_mod(scalar, &offset));
    let digit = |window: usize| {
        (BITS * window..BITS * (window + 1)).fold([0; 4], |sum, bit| {
            let is_set = bit < 256 && recoded[bit / 64] >> (bit % 64) & 1 == 1;
            if is_set { number::add_mod(&sum, &power(bit)) } else { minus(&sum, &power(bit)) }
        })
    };
    let negated = number::negate_mod(scalar);
    // Infinity, or the label's point or minus it.
    let mut keys = vec![negated, number::add_mod(&negated, label), minus(&negated, label)];
    let mut sum = digit(LOW_WINDOWS);
    for window in 0..LOW_WINDOWS {
        let digit = digit(window);
        // Before this addition: infinity, the addend, minus the addend.
        if window % 5 == 0 {
            keys.extend([number::negate_mod(&sum), minus(&digit, &sum), minus(&number::negate_mod(&digit), &sum)]);
        }
        sum = number::add_mod(&sum, &digit);
    }
    assert_eq!(sum, *scalar);
    keys
}

#[test]
fn a_hostile_spend_key_spoils_no_other_row() {
    let scan = [1, 2, 3, 4];
    let tweaks = tweaks(3, 35);
    for engine in engines() {
        for row in 0..16 {
            let honest = key(&scan, &secret(7).public_key(SECP256K1), &[]);
            let mut message = [0; 37];
            message[..33].copy_from_slice(&*honest.shared_secret(&tweaks[row]).unwrap());
            let scalar = number::from_be_bytes(&tagged::SHARED_SECRET.hash(&message));
            let mut message = [0; 36];
            message[..32].copy_from_slice(&number::to_be_bytes(&scan));
            let label = number::from_be_bytes(&tagged::LABEL.hash(&message));
            assert!(number::is_below(&scalar, &ORDER) && number::is_below(&label, &ORDER));
            for spend in hostile(&scalar, &label) {
                let scanner = engine.scanner(key(&scan, &multiple(&spend), &[4]));
                if scanner.prepared.is_some() {
                    assert_eq!(check(&scanner, &tweaks), [row]);
                }
                check_hits(&scanner, &tweaks);
            }
        }
    }
}

#[test]
fn a_spend_key_that_the_table_cannot_hold_is_scanned_by_complete_formulas() {
    let unit = (0..BITS * LOW_WINDOWS).fold([1, 0, 0, 0], |power, _| number::add_mod(&power, &power));
    let lowest = (0..BITS).fold(unit, |power, _| number::add_mod(&power, &power));
    // The multiples of the highest window are -(2^BITS - 1) units and every second one above it.
    let spend = minus(&lowest, &unit);
    for engine in engines() {
        for steps in 0..3 {
            let spend = (0..2 * steps).fold(spend, |spend, _| minus(&spend, &unit));
            let scanner = engine.scanner(key(&[5, 6, 7, 8], &multiple(&spend), &[]));
            assert!(scanner.prepared.is_none());
            check_hits(&scanner, &tweaks(4, 20));
        }
    }
}

#[test]
fn a_tweak_that_is_no_point_is_an_error_in_every_lane() {
    let tweaks = tweaks(5, 37);
    let prime = [&[2][..], &number::to_be_bytes(&number::PRIME)].concat();
    let none = [&[3][..], &[0; 31], &[5]].concat();
    let parity = [&[4][..], &tweaks[0][1..]].concat();
    let reference = Engine::with(Path::Reference).unwrap();
    for engine in engines().iter().chain([&reference]) {
        let scanner = engine.scanner(key(&[5, 6, 7, 8], &secret(8).public_key(SECP256K1), &[]));
        for bad in [&prime, &none, &parity] {
            for row in 0..tweaks.len() {
                let mut tweaks = tweaks.clone();
                tweaks[row].copy_from_slice(bad);
                let rows: Vec<_> = tweaks.iter().map(|tweak| Row { tweak, prefixes: &[] }).collect();
                assert_eq!(scanner.scan(&rows), Err(DamagedTweak { row }), "{:?}", engine.path);
            }
        }
    }
}

#[test]
fn a_path_that_computes_wrongly_fails_its_test() {
    let table = Arc::new(Table::damaged());
    for path in [Path::Vector, Path::Scalar] {
        assert!(Engine::tested(path, &table).is_none());
    }
    assert!(Engine::tested(Path::Reference, &table).is_some());
}
