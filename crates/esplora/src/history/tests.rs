use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

fn record(time: u32) -> Record {
    let mut record = Record {
        time,
        transactions: time % 1000,
        weight: u64::from(time) * 4,
        fees: u64::from(time) * 7,
        lowest_rate: 0.1,
        next_rate: 2.5,
        vbytes: [0; 39],
    };
    record.add(f64::from(time % 3000), 140);
    record
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("history");
    (folder, path)
}

/// Lengths and intervals in seconds, as the documentation of the API has them.
const SPANS: [(Span, u32, u32); 7] = [
    (Span::Hours2, 7_200, 60),
    (Span::Hours24, 86_400, 60),
    (Span::Week, 604_800, 300),
    (Span::Month, 2_678_400, 1_800),
    (Span::Months3, 7_948_800, 7_200),
    (Span::Months6, 15_897_600, 10_800),
    (Span::Year, 31_622_400, 28_800),
];

/// The last record of each interval, newest first, of all records that were ever added.
fn naive(all: &[Record], span_s: u32, interval_s: u32, now: u32) -> Vec<Record> {
    let mut last = BTreeMap::new();
    for record in all {
        last.insert(record.time / interval_s, record.clone());
    }
    last.into_values().rev().filter(|record| record.time <= now && record.time + span_s > now).collect()
}

#[test]
fn a_record_has_these_bytes() {
    let mut record = Record { time: 1, transactions: 2, weight: 3, fees: 4, ..record(0) };
    (record.lowest_rate, record.next_rate, record.vbytes) = (1.0, 0.5, [0; 39]);
    record.add(2000.0, 5);
    record.add(0.99, 6);
    let bytes = record.encode();
    let mut expected = Vec::from([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
    expected.extend([0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 0, 0, 0, 0, 0, 0, 0xe0, 0x3f]);
    expected.extend([6, 0, 0, 0]);
    expected.extend([0; 37 * 4]);
    expected.extend([5, 0, 0, 0]);
    assert_eq!(bytes[..bytes.len() - 4], expected);
    assert_eq!(Record::decode(&bytes).unwrap(), record);
    for at in 0..bytes.len() {
        let mut damaged = bytes;
        damaged[at] ^= 1;
        assert_eq!(Record::decode(&damaged), None, "byte {at}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn each_span_has_the_last_record_of_every_interval(
        steps in prop::collection::vec(prop_oneof![8 => 30_u32..200, 2 => 200_u32..20_000, 1 => 20_000_u32..4_000_000], 1..400),
        begin in 1_600_000_000_u32..1_700_000_000,
        reopens in any::<bool>(),
        later in 0_u32..100_000,
    ) {
        let (_folder, path) = folder();
        let mut history = History::open(&path).unwrap();
        let (mut all, mut now) = (Vec::new(), begin);
        for step in steps {
            now += step;
            history.add(&record(now)).unwrap();
            all.push(record(now));
        }
        if reopens {
            history = History::open(&path).unwrap();
        }
        for (span, span_s, interval_s) in SPANS {
            let expected = naive(&all, span_s, interval_s, now + later);
            prop_assert_eq!(history.read(span, now + later).unwrap(), expected, "{:?}", span);
        }
    }
}

#[test]
fn a_torn_write_costs_one_record_and_a_damaged_file_is_begun_anew() {
    let (_folder, path) = folder();
    let history = History::open(&path).unwrap();
    let now = 1_700_000_040;
    for minute in (0..10).rev() {
        history.add(&record(now - minute * 60)).unwrap();
    }
    let times = |history: &History| -> Vec<u32> {
        history.read(Span::Hours2, now).unwrap().iter().map(|record| record.time).collect()
    };
    let whole = times(&history);
    assert_eq!(whole.len(), 10);
    // Where a record begins: its time stands there.
    let bytes = fs::read(&path).unwrap();
    let at = bytes.windows(4).position(|window| window == (now - 60).to_le_bytes()).unwrap();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for torn in [1, 20, Record::BYTES - 1] {
        fs::write(&path, &bytes).unwrap();
        file.write_all_at(&vec![0xee; torn], at as u64).unwrap();
        let others: Vec<u32> = whole.iter().copied().filter(|time| *time != now - 60).collect();
        assert_eq!(times(&History::open(&path).unwrap()), others, "{torn} bytes");
    }
    // A file that was cut, one that was never whole, and one of another program.
    for damaged in [&bytes[..bytes.len() - 1], &[][..], &[b'x'; 4096][..]] {
        fs::write(&path, damaged).unwrap();
        let history = History::open(&path).unwrap();
        assert_eq!(times(&history), [] as [u32; 0]);
        history.add(&record(now)).unwrap();
        assert_eq!(times(&History::open(&path).unwrap()), [now]);
        assert_eq!(fs::metadata(&path).unwrap().len(), bytes.len() as u64);
    }
}

#[test]
fn records_of_the_future_are_not_shown_and_the_file_stays_small() {
    let (_folder, path) = folder();
    let history = History::open(&path).unwrap();
    history.add(&record(2_000_000)).unwrap();
    assert_eq!(history.read(Span::Year, 1_999_999).unwrap(), []);
    assert_eq!(history.read(Span::Year, 2_000_000).unwrap().len(), 1);
    assert!(fs::metadata(&path).unwrap().len() < 2 << 20);
    assert_eq!(Span::ALL.map(|span| Span::of(span.name())), Span::ALL.map(Some));
}
