//! Measures the embedded engines beside each other, by turns, on rows of the index's shapes. Figures are CPU time of the process
//! and bytes; wall times depend on the machine.
//!
//! `cargo run --release -p birdhouse-store --example engines -- FOLDER [BUCKETS]`
#![expect(clippy::unwrap_used, reason = "a failure ends the measurement")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::path::Path;
use std::time::Duration;

use birdhouse_store::{
    Batch, Direction, KeyRange, PageLimit, RocksOptions, RocksStore, SegmentOptions, SegmentStore, Store, Table,
};
use nix::sys::resource::{UsageWho, getrusage};

/// As `script` of the index: buckets by number, hundreds of bytes each.
const BUCKETS: Table = Table { name: "script", partition_bytes: 0, compress: false };
/// As `recent`: a row for each script and transaction at the tip.
const RECENT: Table = Table { name: "recent", partition_bytes: 8, compress: true };
/// Rows of a block at the tip.
const BLOCK_ROWS: u64 = 20_000;
const BLOCKS: u64 = 300;
const LOOKUPS: u64 = 200_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("a folder to work in");
    let buckets = arguments.next().map_or(500_000, |count| count.parse().expect("a number of buckets"));
    println!(
        "| engine | load CPU s | bytes | lookup us | absent scan us | block CPU ms | written MB/block | lookup us | scan us | bytes |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    for turn in 0..4 {
        let path = Path::new(&folder).join(format!("turn-{turn}"));
        let (name, store): (_, Box<dyn Store>) = if turn % 2 == 0 {
            ("rocksdb", Box::new(RocksStore::open(&path, &[BUCKETS, RECENT], RocksOptions::default()).unwrap()))
        } else {
            ("segments", Box::new(SegmentStore::open(&path, &[BUCKETS, RECENT], SegmentOptions::default()).unwrap()))
        };
        println!("| {name} | {} |", measure(&*store, buckets).join(" | "));
        drop(store);
        std::fs::remove_dir_all(&path).unwrap();
    }
}

fn measure(store: &dyn Store, buckets: u64) -> Vec<String> {
    let mut figures = Vec::new();
    let load = cpu(|| load(store, buckets));
    figures.push(format!("{:.2}", load.as_secs_f64()));
    figures.push(bytes(store).to_string());
    figures.push(per(LOOKUPS, cpu(|| look_up(store, buckets))));
    figures.push(per(LOOKUPS, cpu(|| scan(store, LOOKUPS))));
    let written = written_bytes();
    let follow = cpu(|| (0..BLOCKS).for_each(|block| follow(store, block)));
    figures.push(format!("{:.1}", follow.as_secs_f64() * 1e3 / BLOCKS as f64));
    figures.push(format!("{:.1}", (written_bytes() - written) as f64 / 1e6 / BLOCKS as f64));
    figures.push(per(LOOKUPS, cpu(|| look_up(store, buckets))));
    figures.push(per(LOOKUPS, cpu(|| scan(store, LOOKUPS))));
    figures.push(bytes(store).to_string());
    figures
}

fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ (mixed >> 27)
}

fn load(store: &dyn Store, buckets: u64) {
    let mut run = store.bulk_run(BUCKETS).unwrap();
    let mut value = Vec::new();
    for bucket in 0..buckets {
        value.clear();
        let words = 60 + mix(bucket) % 120;
        (0..words).for_each(|word| value.extend(mix(bucket * 200 + word).to_le_bytes()));
        run.push(&bucket.to_be_bytes(), &value).unwrap();
    }
    store.bulk_load(vec![run.finish().unwrap()]).unwrap();
    store.publish(b"loaded").unwrap();
}

fn look_up(store: &dyn Store, buckets: u64) {
    for number in 0..LOOKUPS {
        let key = (mix(number) % buckets).to_be_bytes();
        assert!(store.get_many(BUCKETS, &[&key]).unwrap()[0].is_some());
    }
}

/// Rows of scripts, half of which have none.
fn scan(store: &dyn Store, scripts: u64) {
    for number in 0..scripts {
        let range = KeyRange::prefix(&mix(mix(number * 3)).to_be_bytes(), Direction::Forward);
        store.scan_many(RECENT, &[range], PageLimit { rows: 1000, bytes: 1 << 20 }).unwrap();
    }
}

fn follow(store: &dyn Store, block: u64) {
    let mut batch = Batch::new();
    for row in block * BLOCK_ROWS..(block + 1) * BLOCK_ROWS {
        let key = [&mix(row).to_be_bytes()[..], &row.to_be_bytes()[3..]].concat();
        batch.put(RECENT, key, [row.to_le_bytes(), mix(row).to_le_bytes()].concat());
    }
    store.write(batch).unwrap();
    store.publish(&block.to_be_bytes()).unwrap();
}

fn bytes(store: &dyn Store) -> u64 {
    store.sizes().unwrap().iter().map(|(_, bytes)| bytes).sum()
}

/// CPU time of all threads of the process.
fn cpu(work: impl FnOnce()) -> Duration {
    let used = || {
        let usage = getrusage(UsageWho::RUSAGE_SELF).unwrap();
        [usage.user_time(), usage.system_time()].map(|time| {
            Duration::from_secs(time.tv_sec().unsigned_abs()) + Duration::from_micros(time.tv_usec().unsigned_abs())
        })
    };
    let before: Duration = used().iter().sum();
    work();
    used().iter().sum::<Duration>().saturating_sub(before)
}

fn written_bytes() -> u64 {
    let io = std::fs::read_to_string("/proc/self/io").unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: ")).unwrap();
    line.parse().unwrap()
}

fn per(count: u64, time: Duration) -> String {
    format!("{:.2}", time.as_secs_f64() * 1e6 / count as f64)
}
