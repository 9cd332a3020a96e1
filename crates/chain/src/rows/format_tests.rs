//! The example rows of `docs/format.md` are the bytes that this crate writes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, Network};

use super::*;
use crate::names::{Height, KeyLength, Profile, ScriptKey, Secret};
use crate::outside::{BlockId, FilePosition};
use crate::rows::header::HeaderRow;
use crate::rows::long::Summary;
use crate::rows::pack::{Delta, Pack};
use crate::rows::part::{Part, Tally};
use crate::rows::recent::Recent;
use crate::rows::script::Bucket;
use crate::state::{Manifest, State, TxNumRange};

/// The bytes of one row.
type KeyAndValue = (Vec<u8>, Vec<u8>);

const DOCUMENT: &str = include_str!("../../../../docs/format.md");

const SCRIPT: ScriptKey = ScriptKey { prefix: 0x0102_0304_0506_0708, check: 0 };

fn coin(txnum: u64, vout: u32, value: u64) -> Coin {
    Coin { out: TxOutNum { txnum: TxNum(txnum), vout }, value }
}

/// A pack of the transactions 300 to 600 with buckets of 15 bits.
fn pack() -> Pack {
    let (start, end) = (TxNum(300), TxNum(600));
    Pack { slot: 0, key_length: KeyLength::Narrow, script_bits: 15, txnum_bits: 15, start, end, scripts: 0 }
}

fn manifest() -> Vec<u8> {
    let genesis = genesis_block(Network::Regtest).block_hash();
    let mut manifest = Manifest::new(Profile::Full, Secret([7; 16]), genesis);
    manifest.next = TxNum(600);
    manifest.built = 1;
    manifest.packs = vec![Pack { slot: 0, start: TxNum(0), end: TxNum(300), scripts: 90, ..pack() }];
    manifest.packs.push(Pack { slot: 2, start: TxNum(300), end: TxNum(420), scripts: 40, ..pack() });
    manifest.deltas = vec![Delta { slot: 1, start: TxNum(420) }, Delta { slot: 0, start: TxNum(450) }];
    manifest.stale = vec![TxNumRange { start: TxNum(300), end: TxNum(310) }];
    manifest.state = State::Ready(BlockId { height: Height(7), hash: BlockHash::from_byte_array([2; 32]) });
    manifest.extend(TxNum(0), TxNum(300));
    manifest.extend(TxNum(400), TxNum(500));
    manifest.encode()
}

fn header_row() -> KeyAndValue {
    let genesis = serialize(&genesis_block(Network::Regtest));
    let row = HeaderRow {
        first_txnum: TxNum(0),
        header: *genesis.first_chunk().expect("a header"),
        height: Height(0),
        tx_count: 1,
        bytes: u32::try_from(genesis.len()).expect("285"),
        weight: 4 * u32::try_from(genesis.len()).expect("285"),
        position: Some(FilePosition { file: 0, offset: 8 }),
    };
    (header::key(row.first_txnum).to_vec(), header::value(&row))
}

fn script_row() -> KeyAndValue {
    let mut bucket = Bucket::default();
    let coins = [coin(307, 1, 5_000_000_000)];
    bucket.push(&pack(), SCRIPT, PartSlices { txnums: &[TxNum(307)], coins: &coins, ..PartSlices::default() });
    let second = ScriptKey { prefix: 0x0102_0304_0606_0708, check: 0 };
    let spends = [coin(9, 0, 1_000_000)];
    let inner = Tally { count: 1, sum: 700 };
    let part = PartSlices { txnums: &[TxNum(302), TxNum(500)], coins: &[], spends: &spends, inner };
    bucket.push(&pack(), second, part);
    let mut value = Vec::new();
    bucket.take_value(&pack(), &mut value);
    (bucket_key(bucket_of(SCRIPT.prefix, 15)).to_vec(), value)
}

/// The row of the document's example for each kind of the table `long`.
fn long_rows() -> [(&'static str, KeyAndValue); 4] {
    let part = Part {
        txnums: vec![TxNum(301), TxNum(303), TxNum(503)],
        coins: vec![coin(301, 0, 5_000_000_000), coin(303, 7, 1234)],
        spends: vec![coin(9, 0, 1_000_000)],
        inner: Tally { count: 1, sum: 700 },
        uncounted: 0,
    };
    let rows = long::rows(SCRIPT, &Summary::of(&part), part.slices());
    let names = ["long, summary", "long, history", "long, coins", "long, spends"];
    let mut rows = names.into_iter().zip(rows);
    std::array::from_fn(|_| rows.next().expect("a row of each kind"))
}

/// The example of each table: key and value.
fn examples() -> BTreeMap<&'static str, KeyAndValue> {
    let (txpos_key, txpos_value) = txpos::rows(TxNum(5), &[81, 281, 500]).next().expect("one chunk");
    let entries = [(0xab12_3456_0000_0000, TxNum(307)), (0xab13_3556_0000_0000, TxNum(500))];
    let recent = Recent { funded: vec![(1, 1_000_000)], spent: vec![coin(300, 0, 2_000_000)] };
    let stale = Recent { funded: vec![], spent: vec![coin(5, 6, 700)] };
    let mut examples = BTreeMap::from([
        ("manifest", (Vec::new(), manifest())),
        ("header", header_row()),
        ("txpos", (txnum_bytes(txpos_key).to_vec(), txpos_value)),
        ("txnum", (bucket_key(bucket_of(entries[0].0, 15)).to_vec(), txnum::value(&entries, &pack()))),
        ("script", script_row()),
        ("recent", (recent::key(SCRIPT, TxNum(609)), recent::value(&recent))),
        ("recent_txnum", (recent_txnum::key(0xab12_3400_0000_0000, TxNum(609)), Vec::new())),
        ("stale", (recent::key(SCRIPT, TxNum(409)), recent::value(&stale))),
    ]);
    examples.extend(long_rows());
    examples
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The hex digits of the lines after `label` in a block of examples: a long value goes on in indented lines.
fn digits(block: &str, label: &str) -> String {
    let mut lines = block.lines().skip_while(|line| !line.starts_with(label));
    let first = lines.next().and_then(|line| line.strip_prefix(label)).unwrap_or_default();
    let rest = lines.take_while(|line| line.starts_with(' '));
    std::iter::once(first).chain(rest).flat_map(str::split_whitespace).collect()
}

#[test]
fn the_document_has_the_example_of_every_table() {
    let index =
        DOCUMENT.split("\n## ").find(|section| section.starts_with("Index\n")).expect("a section for the index");
    let sections: BTreeMap<&str, &str> =
        index.split("\n### `").skip(1).filter_map(|section| section.split_once('`')).collect();
    let examples = examples();
    for table in TABLES {
        let kind = table.name.split('.').next().expect("split gives a part");
        assert!(examples.keys().any(|name| name.starts_with(kind)), "{} has no example", table.name);
    }
    for (name, (key, value)) in examples {
        let (table, kind) = name.split_once(", ").unwrap_or((name, ""));
        let section = sections.get(table).unwrap_or_else(|| panic!("docs/format.md lacks the table {table}"));
        let label = |field: &str| if kind.is_empty() { field.to_owned() } else { format!("{kind} {field}") };
        let block = section.rsplit("```text\n").next().expect("split gives a part");
        let written = (digits(block, &label("key")), digits(block, &label("value")));
        assert_eq!(written, (hex(&key), hex(&value)), "docs/format.md, {name}");
    }
}
