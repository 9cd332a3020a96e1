//! The example rows of `docs/format.md` are the bytes that this crate writes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bitcoin::consensus::serialize;
use bitcoin::constants::genesis_block;
use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, Network};

use super::*;
use crate::manifest::{Manifest, Packed, Profile, State};
use crate::prefix::{ScriptKey, Secret};
use crate::rows::header::HeaderRow;
use crate::rows::recent::Recent;
use crate::rows::restored::Restored;
use crate::rows::script::Bucket;
use crate::rows::summary::Summary;
use crate::source::{BlockId, FilePosition};
use crate::txnum::Height;

const DOCUMENT: &str = include_str!("../../../../docs/format.md");

const SCRIPT: ScriptKey = ScriptKey { prefix: 0x0102_0304_0506_0708, check: 0x090a };

fn coin(txnum: u64, vout: u32, value: u64) -> Coin {
    Coin { out: TxOutNum { txnum: TxNum(txnum), vout }, value }
}

fn manifest() -> Vec<u8> {
    let genesis = genesis_block(Network::Regtest).block_hash();
    let mut manifest = Manifest::new(Profile::Full, Secret([7; 16]), genesis);
    manifest.next = TxNum(600);
    manifest.packed = Packed { generation: 1, script_bits: 18, txnum_bits: 17, end: TxNum(300) };
    manifest.state = State::Ready(BlockId { height: Height(7), hash: BlockHash::from_byte_array([2; 32]) });
    manifest.extend(TxNum(0), TxNum(300));
    manifest.extend(TxNum(400), TxNum(500));
    manifest.encode()
}

fn header_row() -> (Vec<u8>, Vec<u8>) {
    let genesis = serialize(&genesis_block(Network::Regtest));
    let row = HeaderRow {
        first_txnum: TxNum(0),
        header: *genesis.first_chunk().expect("a header"),
        height: Height(0),
        tx_count: 1,
        bytes: u32::try_from(genesis.len()).expect("285"),
        position: Some(FilePosition { file: 0, offset: 8 }),
    };
    (header::key(row.first_txnum).to_vec(), header::value(&row))
}

fn script_row() -> (Vec<u8>, Vec<u8>) {
    let (first, second) = (ScriptKey { prefix: 0x0102_0304_0506_0708, check: 9 }, 0x0102_0304_0606_0708);
    let mut bucket = Bucket::default();
    bucket.push(first, &[TxNum(7)], &[coin(7, 1, 5_000_000_000)]);
    bucket.push(ScriptKey { prefix: second, check: 9 }, &[TxNum(2), TxNum(300)], &[]);
    let mut value = Vec::new();
    bucket.value(8, 2, &mut value);
    (bucket_key(1, bucket_of(first.prefix, 8)).to_vec(), value)
}

/// The example of each table: key and value.
fn examples() -> BTreeMap<&'static str, (Vec<u8>, Vec<u8>)> {
    let (txpos_key, txpos_value) = txpos::rows(TxNum(5), &[81, 281, 500]).next().expect("one chunk");
    let entries = [(0xab12_3400_0000_0000, TxNum(7)), (0xab12_3500_0000_0000, TxNum(256))];
    let summary = Summary { txs: 300, funded: 200, funded_sum: 1_000_000, spent: 199, spent_sum: 999_999 };
    let recent = Recent { funded: vec![(1, 1_000_000)], spent: vec![TxOutNum { txnum: TxNum(300), vout: 0 }] };
    let restored = Restored { script: SCRIPT, coin: coin(5, 6, 700), spender: TxNum(9) };
    BTreeMap::from([
        ("manifest", (Vec::new(), manifest())),
        (header::TABLE.name, header_row()),
        (txpos::TABLE.name, (txnum_bytes(txpos_key).to_vec(), txpos_value)),
        (txnum::TABLE.name, (bucket_key(1, 0xab).to_vec(), txnum::value(&entries, 8))),
        (script::TABLE.name, script_row()),
        (history::TABLE.name, history::rows(SCRIPT, &[TxNum(1), TxNum(3), TxNum(203)]).next().expect("one row")),
        (
            unspent::TABLE.name,
            unspent::rows(SCRIPT, &[coin(1, 0, 5_000_000_000), coin(3, 7, 1234)]).next().expect("one row"),
        ),
        (summary::TABLE.name, (summary::key(SCRIPT).to_vec(), summary::value(&summary))),
        (recent::TABLE.name, (recent::key(SCRIPT, TxNum(9)), recent::value(&recent))),
        (recent_txnum::TABLE.name, (recent_txnum::key(0xab12_3400_0000_0000, TxNum(9)), Vec::new())),
        (restored::TABLE.name, (restored::key(&restored), restored::value(&restored))),
    ])
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
        assert!(examples.contains_key(table.name), "{} has no example", table.name);
    }
    for (table, (key, value)) in examples {
        let section = sections.get(table).unwrap_or_else(|| panic!("docs/format.md lacks the table {table}"));
        let block = section.rsplit("```text\n").next().expect("split gives a part");
        let (key, value) = (hex(&key), hex(&value));
        assert_eq!((digits(block, "key"), digits(block, "value")), (key, value), "docs/format.md, table {table}");
    }
}
