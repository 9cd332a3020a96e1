//! The test that a path must pass before it is used.

use secp256k1::{SECP256K1, SecretKey};

use crate::key::ScanKey;
use crate::scan::{Engine, Row};
use crate::tagged;
use crate::transaction::Factors;

/// Rows that fill all lanes of some groups and a part of the last one.
const ROWS: usize = 69;

/// A known answer: the receiving side of a vector of BIP 352.
struct Known {
    scan: &'static str,
    spend: &'static str,
    tweak: &'static str,
    output: &'static str,
    labels: &'static [u32],
}

/// Vectors 1, 13, 14 and 19 (change) of BIP 352.
const KNOWN: [Known; 4] = [
    Known {
        scan: "0f694e068028a717f8af6b9411f9a133dd3565258714cc226594b34db90c1f2c",
        spend: "025cc9856d6f8375350e123978daac200c260cb5b5ae83106cab90484dcd8fcf36",
        tweak: "024ac253c216532e961988e2a8ce266a447c894c781e52ef6cee902361db960004",
        output: "3e9fce73d4e77a4809908e3c3a2e54ee147b9312dc5044a193d1fc85de46e3c1",
        labels: &[],
    },
    Known {
        scan: "0f694e068028a717f8af6b9411f9a133dd3565258714cc226594b34db90c1f2c",
        spend: "025cc9856d6f8375350e123978daac200c260cb5b5ae83106cab90484dcd8fcf36",
        tweak: "0314bec14463d6c0181083d607fecfba67bb83f95915f6f247975ec566d5642ee8",
        output: "d014d4860f67d607d60b1af70e0ee236b99658b61bb769832acbbe87c374439a",
        labels: &[2, 3, 1_001_337],
    },
    Known {
        scan: "0f694e068028a717f8af6b9411f9a133dd3565258714cc226594b34db90c1f2c",
        spend: "025cc9856d6f8375350e123978daac200c260cb5b5ae83106cab90484dcd8fcf36",
        tweak: "0314bec14463d6c0181083d607fecfba67bb83f95915f6f247975ec566d5642ee8",
        output: "67626aebb3c4307cf0f6c39ca23247598fabf675ab783292eb2f81ae75ad1f8c",
        labels: &[2, 3, 1_001_337],
    },
    Known {
        scan: "11b7a82e06ca2648d5fded2366478078ec4fc9dc1d8ff487518226f229d768fd",
        spend: "03bc95144daf15336db3456825c70ced0a4462f89aca42c4921ee7ccb2b3a44796",
        tweak: "0314bec14463d6c0181083d607fecfba67bb83f95915f6f247975ec566d5642ee8",
        output: "be368e28979d950245d742891ae6064020ba548c1e2e65a639a8bb0675d95cff",
        labels: &[],
    },
];

/// True if a path finds the known answers, and has the candidates and the products of libsecp256k1 for each of some
/// rows.
pub(super) fn passes(engine: &Engine) -> bool {
    KNOWN.iter().all(|known| finds(engine, known)) && agrees(engine) && multiplies(engine)
}

fn finds(engine: &Engine, known: &Known) -> bool {
    let key = ScanKey::new(&bytes(known.scan), &bytes(known.spend), known.labels).expect("keys of the BIP");
    let scanner = engine.scanner(key);
    let (tweak, output): (_, [u8; 32]) = (bytes(known.tweak), bytes(known.output));
    let other = [output.map(|byte| !byte)[..4].try_into().expect("four bytes")];
    let paid = [other[0], output[..4].try_into().expect("four bytes")];
    let is_paid = |row: &usize| row % 5 == 3;
    let prefixes = |row: usize| if is_paid(&row) { &paid[..] } else { &other[..] };
    let rows: Vec<_> = (0..ROWS).map(|row| Row { tweak: &tweak, prefixes: prefixes(row) }).collect();
    scanner.scan(&rows).is_ok_and(|hits| hits.into_iter().eq((0..ROWS).filter(is_paid)))
}

fn agrees(engine: &Engine) -> bool {
    let tweaks: Vec<_> = (0_u32..).map(secret).take(ROWS).map(|key| key.public_key(SECP256K1).serialize()).collect();
    let tweaks: Vec<_> = tweaks.iter().collect();
    let (scan, spend) = (secret(1 << 16), secret(1 << 17).public_key(SECP256K1).serialize());
    let key = ScanKey::new(&scan.secret_bytes(), &spend, &[1, 2]).expect("keys made of hashes");
    let scanner = engine.scanner(key);
    match scanner.candidates(&tweaks) {
        Ok(Some(found)) => {
            let mut rows = tweaks.iter().zip(found.x.chunks_exact(4));
            let is_right = |(tweak, x): (&&[u8; 33], &[_])| {
                scanner.complete(tweak).is_some_and(|complete| complete.iter().flatten().eq(x))
            };
            found.exceptions.is_empty() && rows.all(is_right)
        }
        Ok(None) => scanner.prepared.is_none() && engine.path() == crate::Path::Reference,
        Err(_) => false,
    }
}

fn multiplies(engine: &Engine) -> bool {
    let factors = |row| Factors { point: secret(row).public_key(SECP256K1), scalar: secret(row + (1 << 18)).into() };
    let rows: Vec<_> = (0_u32..).map(factors).take(ROWS).collect();
    engine.multiply(&rows).into_iter().eq(rows.iter().map(Factors::multiply))
}

/// A private key that anybody can make.
fn secret(number: u32) -> SecretKey {
    SecretKey::from_slice(&tagged::LABEL.hash(&number.to_be_bytes())).expect("one of 2^128 hashes is none")
}

/// The bytes of hexadecimal digits.
fn bytes<const LEN: usize>(hex: &str) -> [u8; LEN] {
    let digits = hex.as_bytes().as_chunks::<2>().0;
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    std::array::from_fn(|at| {
        let [high, low] = digits[at].map(|byte| digit(byte).expect("hexadecimal"));
        high << 4 | low
    })
}
