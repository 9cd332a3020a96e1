//! A block of tweaks as clients read it.
//!
//! Version 1 is JSON, version 2 is base64 of
//!
//! ```text
//! height u32 LE | number of transactions, CompactSize
//! for each: txid 32, not reversed | tweak 33 | number of outputs, CompactSize | for each: vout, CompactSize | key 32
//! ```

use std::collections::HashMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use birdhouse_chain::{Spender, TweakOutput, put_compact_size};
use bitcoin::Txid;
use bitcoin::hashes::Hash as _;

use crate::protocol::TweakCoding;

/// The newest version of the dialect.
pub(crate) const MAX_VERSION: u32 = 2;

const METHOD: &str = "blockchain.tweaks.subscribe";
/// Bytes of version 1: around each block, transaction and output, with values of a million satoshis.
const JSON_BLOCK_BYTES: u64 = 90;
const JSON_TRANSACTION_BYTES: u64 = (r#""":{"tweak":"","output_pubkeys":{}},"#.len() + 64 + 66) as u64;
const JSON_OUTPUT_BYTES: u64 = (r#""0":["",1000000],"#.len() + 64) as u64;
/// Bytes of version 2, before base64.
const BINARY_BLOCK_BYTES: u64 = 5;
const BINARY_TRANSACTION_BYTES: u64 = 32 + 33 + 1;
const BINARY_OUTPUT_BYTES: u64 = 1 + 32;

/// A transaction of a block.
pub(super) struct Transaction<'a> {
    pub(super) txid: Txid,
    pub(super) tweak: &'a [u8; 33],
    pub(super) outputs: &'a [TweakOutput],
    /// Inputs that spend them, by the numbers of the outputs. Version 2 has none.
    pub(super) spenders: &'a HashMap<u32, Spender>,
}

/// Blocks, and what they have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) blocks: u64,
    pub(crate) transactions: u64,
    pub(crate) outputs: u64,
}

/// A block to which transactions are added.
#[derive(Debug)]
pub(super) struct Written {
    coding: TweakCoding,
    height: u32,
    transactions: u64,
    bytes: Vec<u8>,
}

// === impl Written ===

impl Written {
    pub(super) fn new(coding: TweakCoding, height: u32) -> Self {
        Self { coding, height, transactions: 0, bytes: Vec::new() }
    }

    pub(super) fn put(&mut self, transaction: &Transaction<'_>) {
        match self.coding {
            TweakCoding::Json => self.put_json(transaction),
            TweakCoding::Binary => self.put_binary(transaction),
        }
        self.transactions += 1;
    }

    /// Returns the members of the object that clients read.
    pub(super) fn finish(self) -> String {
        let Self { coding, height, transactions, bytes } = self;
        match coding {
            TweakCoding::Json => {
                let text = String::from_utf8(bytes).expect("digits and punctuation are ASCII");
                format!("\"{height}\":{{{text}}}")
            }
            TweakCoding::Binary => {
                let mut block = height.to_le_bytes().to_vec();
                put_compact_size(&mut block, transactions);
                block.extend(bytes);
                format!("\"tweaks_v2\":\"{}\"", STANDARD.encode(block))
            }
        }
    }

    fn put_json(&mut self, transaction: &Transaction<'_>) {
        let Transaction { txid, tweak, outputs, spenders } = transaction;
        let comma = if self.transactions > 0 { "," } else { "" };
        let tweak = const_hex::encode(tweak);
        let mut text = format!("{comma}\"{txid}\":{{\"tweak\":\"{tweak}\",\"output_pubkeys\":{{");
        for (index, TweakOutput { vout, key, value }) in outputs.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            let key = const_hex::encode(key);
            write!(text, "{comma}\"{vout}\":[\"{key}\",{value}").expect(TAKES);
            if let Some(Spender { txid, vin, block }) = spenders.get(vout) {
                write!(text, ",{{\"txid\":\"{txid}\",\"vin\":{vin}").expect(TAKES);
                if let Some(block) = block {
                    let (height, hash) = (block.height, block.hash);
                    write!(text, ",\"confirmed\":{{\"height\":{height},\"hash\":\"{hash}\"}}").expect(TAKES);
                }
                text.push('}');
            }
            text.push(']');
        }
        text.push_str("}}");
        self.bytes.extend(text.into_bytes());
    }

    fn put_binary(&mut self, transaction: &Transaction<'_>) {
        let Transaction { txid, tweak, outputs, .. } = transaction;
        self.bytes.extend(txid.to_byte_array());
        self.bytes.extend(*tweak);
        put_compact_size(&mut self.bytes, outputs.len() as u64);
        for output in *outputs {
            put_compact_size(&mut self.bytes, output.vout.into());
            self.bytes.extend(output.key);
        }
    }
}

const TAKES: &str = "a string takes everything";

/// Returns the notification of a block with these members.
pub(crate) fn notification(members: &str) -> Vec<u8> {
    format!(r#"{{"jsonrpc":"2.0","method":"{METHOD}","params":[{{{members}}}]}}"#).into_bytes()
}

/// Returns the notification that ends a stream.
pub(crate) fn done() -> Vec<u8> {
    notification(r#""message":"done""#)
}

/// Returns about the number of bytes of a stream.
pub(crate) fn stream_bytes(coding: TweakCoding, amount: Amount) -> u64 {
    let Amount { blocks, transactions, outputs } = amount;
    match coding {
        TweakCoding::Json => {
            blocks * JSON_BLOCK_BYTES + transactions * JSON_TRANSACTION_BYTES + outputs * JSON_OUTPUT_BYTES
        }
        TweakCoding::Binary => {
            let of_blocks = blocks * BINARY_BLOCK_BYTES;
            let bytes = of_blocks + transactions * BINARY_TRANSACTION_BYTES + outputs * BINARY_OUTPUT_BYTES;
            blocks * JSON_BLOCK_BYTES + bytes * 4 / 3
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use birdhouse_chain::Height;
    use birdhouse_chain::source::BlockId;
    use bitcoin::BlockHash;
    use serde_json::{Value, json};

    use super::*;

    fn written(coding: TweakCoding, height: u32, transactions: &[Transaction<'_>]) -> String {
        let mut written = Written::new(coding, height);
        for transaction in transactions {
            written.put(transaction);
        }
        written.finish()
    }

    fn bytes<const LEN: usize>(hex: &str) -> [u8; LEN] {
        const_hex::decode_to_array(hex).unwrap()
    }

    /// Blocks of Cake's own description of version 2.
    #[test]
    fn blocks_of_version_2_are_those_that_the_wallet_reads() {
        let transaction = Transaction {
            // Not reversed.
            txid: Txid::from_byte_array(bytes("689e7001157733888f15d6145b85d611bd4e9885e3564ac5e5301f0c728f0838")),
            tweak: &bytes("0302cc2a75db0e06919f9d3312c17c831b68ff1ead95498a529fd366d64921e3c0"),
            outputs: &[TweakOutput {
                vout: 0,
                key: bytes("46db9bd8d491531b2e783d32e07acb0624093fcdad75573e7e6da39ac21d0c13"),
                value: 1,
            }],
            spenders: &HashMap::new(),
        };
        let expected = "cAAAAAFonnABFXcziI8V1hRbhdYRvU6YheNWSsXlMB8Mco8IOAMCzCp12w4GkZ+dMxLBfIMbaP8erZVJilKf02bWSSHjwAEARt\
                        ub2NSRUxsueD0y4HrLBiQJP82tdVc+fm2jmsIdDBM=";
        let written = written(TweakCoding::Binary, 112, &[transaction]);
        assert_eq!(written, format!("\"tweaks_v2\":\"{expected}\""));
        assert_eq!(super::Written::new(TweakCoding::Binary, 1).finish(), r#""tweaks_v2":"AQAAAAA=""#);
    }

    #[test]
    fn blocks_of_version_1_have_transactions_by_txid_and_outputs_by_number() {
        let output = |vout, value| TweakOutput { vout, key: [vout.to_le_bytes()[0]; 32], value };
        let (block, txid) = (BlockHash::from_byte_array([9; 32]), Txid::from_byte_array([8; 32]));
        let spender = Spender { txid, vin: 3, block: Some(BlockId { height: Height(7), hash: block }) };
        let (spent, unspent) = (HashMap::from([(1, spender)]), HashMap::new());
        let outputs = [output(1, 546), output(300, 2_100_000_000_000_000)];
        let transaction = |number, spenders| Transaction {
            txid: Txid::from_byte_array([number; 32]),
            tweak: &[2; 33],
            outputs: &outputs,
            spenders,
        };
        let text = written(TweakCoding::Json, 850_000, &[transaction(5, &unspent), transaction(6, &spent)]);
        let (tweak, key) = ("02".repeat(33), |digits: &str| digits.repeat(32));
        let confirmed = json!({ "height": 7, "hash": key("09") });
        let spender = json!({ "txid": key("08"), "vin": 3, "confirmed": confirmed });
        let last = json!([key("2c"), 2_100_000_000_000_000_u64]);
        let expected = json!({ "850000": {
            (key("05")): { "tweak": tweak, "output_pubkeys": { "1": [key("01"), 546], "300": last } },
            (key("06")): { "tweak": tweak, "output_pubkeys": { "1": [key("01"), 546, spender], "300": last } },
        }});
        assert_eq!(serde_json::from_str::<Value>(&format!("{{{text}}}")).unwrap(), expected);
        assert_eq!(written(TweakCoding::Json, 0, &[]), r#""0":{}"#);
    }

    #[test]
    fn a_stream_has_about_the_bytes_that_were_reckoned() {
        let outputs = [0, 1].map(|vout| TweakOutput { vout, key: [7; 32], value: 1_000_000 });
        let none = HashMap::new();
        let transaction =
            |_| Transaction { txid: Txid::all_zeros(), tweak: &[2; 33], outputs: &outputs, spenders: &none };
        let transactions: Vec<Transaction<'_>> = (0..200).map(transaction).collect();
        for coding in [TweakCoding::Json, TweakCoding::Binary] {
            let line = notification(&written(coding, 850_000, &transactions)).len() as u64;
            let reckoned = stream_bytes(coding, Amount { blocks: 1, transactions: 200, outputs: 400 });
            assert!(line.abs_diff(reckoned) * 100 < line, "{coding:?}: {line}, {reckoned}");
        }
    }
}
