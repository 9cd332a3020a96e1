//! Rows a second of each path, beside libsecp256k1 as other servers use it: parse the tweak, multiply it by the scan
//! key, add the hash's multiple of the generator to the spend key. CPU time of one thread, by turns in one run.
//!
//! `cargo bench -p birdhouse-silentpayments`
#![forbid(unsafe_code)]

use std::time::Duration;

use birdhouse_silentpayments::{Engine, Path, Row, ScanKey, Scanner};
use nix::time::ClockId;
use secp256k1::{PublicKey, SECP256K1, Scalar, SecretKey};

/// Turns, of which the median counts.
const TURNS: usize = 7;
const ROWS: usize = 16_384;
/// Rows of those paths that take ten times as long.
const SLOW_ROWS: usize = 2_048;
/// Rows of scans of a transaction in the mempool, or of small blocks, and the scans of a turn.
const FEW: [usize; 9] = [1, 2, 3, 4, 6, 8, 12, 16, 64];
const SCANS: usize = 100;

fn main() {
    let tweaks = tweaks();
    let rows: Vec<_> = tweaks.iter().map(|tweak| Row { tweak, prefixes: &[[1, 2, 3, 4], [5, 6, 7, 8]] }).collect();
    let (scan, spend) = ([0x5d; 32], secret(2).public_key(SECP256K1));
    let paths = [Path::Vector, Path::Scalar, Path::Reference];
    let engines: Vec<_> = paths.into_iter().filter_map(Engine::with).collect();
    let scanner = |engine: &Engine| {
        engine.scanner(ScanKey::new(&scan, &spend.serialize(), &[]).expect("a private and a public key"))
    };
    let scanners: Vec<_> = engines.iter().map(scanner).collect();

    let mut library = Vec::new();
    let mut paths: Vec<Vec<Duration>> = vec![Vec::new(); scanners.len()];
    for _ in 0..TURNS {
        library.push(cpu_time(SLOW_ROWS, || by_library(&tweaks[..SLOW_ROWS], &scan, &spend)));
        for (engine, (scanner, times)) in engines.iter().zip(scanners.iter().zip(&mut paths)) {
            let rows = if engine.path() == Path::Reference { &rows[..SLOW_ROWS] } else { &rows };
            times.push(cpu_time(rows.len(), || scanner.scan(rows).expect("tweaks are points")));
        }
    }
    let library = median(library);
    println!("{:40} {:>9} {:>9} {:>6}", "", "us a row", "rows/s", "times");
    print("libsecp256k1: parse, multiply, add", library, library);
    for (engine, times) in engines.iter().zip(paths) {
        print(&format!("{:?}, with the candidate of change", engine.path()), median(times), library);
    }
    println!("microseconds of a scan of few rows");
    for few in FEW {
        let time = |(engine, scanner): (&Engine, &Scanner)| {
            format!("{:?} {:.1}", engine.path(), microseconds(scanner, &rows[..few]))
        };
        let times: Vec<_> = engines.iter().zip(&scanners).map(time).collect();
        println!("{few:>4} rows: {}", times.join(", "));
    }
    if engines.len() < 3 {
        println!("skipped: a path that this processor lacks");
    }
}

/// Microseconds of one scan.
fn microseconds(scanner: &Scanner, rows: &[Row<'_>]) -> f64 {
    let scan_often = || (0..SCANS).map(|_| scanner.scan(rows).expect("tweaks are points").len()).sum::<usize>();
    let mut times: Vec<_> = (0..TURNS).map(|_| cpu_time(SCANS, scan_often)).collect();
    times.sort_unstable();
    times[TURNS / 2].as_secs_f64() * 1e6
}

fn print(name: &str, time: Duration, library: Duration) {
    let seconds = time.as_secs_f64();
    println!("{name:40} {:9.2} {:9.0} {:6.2}", seconds * 1e6, 1.0 / seconds, library.as_secs_f64() / seconds);
}

/// The CPU time that some work takes for one row.
fn cpu_time<T>(rows: usize, work: impl FnOnce() -> T) -> Duration {
    let now = || Duration::from(ClockId::CLOCK_THREAD_CPUTIME_ID.now().expect("Linux has this clock"));
    let start = now();
    std::hint::black_box(work());
    now().saturating_sub(start) / u32::try_from(rows).expect("some thousand")
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The candidate without a label of each tweak, but for the hash, which costs others half a microsecond.
fn by_library(tweaks: &[[u8; 33]], scan: &[u8; 32], spend: &PublicKey) -> u8 {
    let scan = Scalar::from_be_bytes(*scan).expect("below the order");
    let candidate = |tweak: &[u8; 33]| {
        let secret = PublicKey::from_slice(tweak).expect("a point").mul_tweak(SECP256K1, &scan).expect("not zero");
        let [_, x @ ..] = secret.serialize();
        let scalar = Scalar::from_be_bytes(x).expect("below the order but for one in 2^128");
        spend.add_exp_tweak(SECP256K1, &scalar).expect("not infinity").serialize()[1]
    };
    tweaks.iter().map(candidate).fold(0, |all, byte| all ^ byte)
}

fn tweaks() -> Vec<[u8; 33]> {
    let step = secret(1);
    let mut key = step.public_key(SECP256K1);
    let next = |_| {
        key = key.add_exp_tweak(SECP256K1, &step.into()).expect("not infinity");
        key.serialize()
    };
    (0..ROWS).map(next).collect()
}

fn secret(byte: u8) -> SecretKey {
    SecretKey::from_slice(&[byte; 32]).expect("not zero and below the order")
}
