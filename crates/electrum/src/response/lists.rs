//! Answers that may have megabytes, written straight into the line.
//!
//! A history of 129 000 transactions has 12 MB of text; `serde`'s way in `shapes` costs several times as much an entry.

use birdhouse_chain::{Confirmation, HistoryEntry, UnconfirmedEntry, Unspent};
use bitcoin::Txid;
use serde::Serialize;

use super::hex;
use super::line::{Line, TooLong};
use crate::protocol::{Naming, electrum_height};

/// Bytes of an entry of a history, at least.
const HISTORY_ENTRY_BYTES: usize = br#"{"tx_hash":"","height":0},"#.len() + 64;
/// Bytes of an unspent output, at least.
const UNSPENT_BYTES: usize = br#"{"tx_hash":"","tx_pos":0,"height":0,"value":0},"#.len() + 64;

/// Writes confirmed transactions, then those in the mempool, with their fee.
pub(super) fn put_history(
    line: &mut Line,
    confirmed: &[HistoryEntry],
    unconfirmed: &[UnconfirmedEntry],
    naming: Naming,
) -> Result<(), TooLong> {
    line.reserve((confirmed.len() + unconfirmed.len()) * HISTORY_ENTRY_BYTES)?;
    let mut list = List::open(line, naming, "history")?;
    for entry in confirmed {
        list.put(&entry.txid, |out| put_member(out, ",\"height\":", entry.height.0))?;
    }
    for entry in unconfirmed {
        let has_unconfirmed_inputs = entry.has_unconfirmed_inputs;
        list.put(&entry.txid, |out| {
            put_member(out, ",\"height\":", electrum_height(Confirmation::Unconfirmed { has_unconfirmed_inputs }));
            put_member(out, ",\"fee\":", entry.fee);
        })?;
    }
    list.close()
}

/// Writes unspent outputs. In the mempool their height is 0, with unconfirmed inputs too.
pub(super) fn put_unspent(line: &mut Line, outputs: &[Unspent], naming: Naming) -> Result<(), TooLong> {
    line.reserve(outputs.len() * UNSPENT_BYTES)?;
    let mut list = List::open(line, naming, "utxos")?;
    for output in outputs {
        list.put(&output.txid, |out| {
            put_member(out, ",\"tx_pos\":", output.vout);
            put_member(out, ",\"height\":", electrum_height(output.confirmation).max(0));
            put_member(out, ",\"value\":", output.value);
        })?;
    }
    list.close()
}

/// Writes bytes as a string of hexadecimal digits.
pub(super) fn put_hex(line: &mut Line, bytes: &[u8]) -> Result<(), TooLong> {
    line.reserve(bytes.len() * 2 + 2)?;
    line.bytes.push(b'"');
    hex::put_hex(&mut line.bytes, bytes);
    line.bytes.push(b'"');
    Ok(())
}

/// A list of transactions that is being written.
struct List<'a> {
    line: &'a mut Line,
    separator: &'static str,
    end: &'static str,
}

impl<'a> List<'a> {
    /// Opens a bare list, or one that is the member `name` of an object.
    fn open(line: &'a mut Line, naming: Naming, name: &str) -> Result<Self, TooLong> {
        let end = match naming {
            Naming::Hash => {
                line.put(b"[")?;
                "]"
            }
            Naming::Pubkey => {
                line.put(format!("{{\"{name}\":[").as_bytes())?;
                "]}"
            }
        };
        Ok(Self { line, separator: "", end })
    }

    /// Adds an entry; `put_members` writes what follows the txid.
    fn put(&mut self, txid: &Txid, put_members: impl FnOnce(&mut Vec<u8>)) -> Result<(), TooLong> {
        let out = &mut self.line.bytes;
        out.extend_from_slice(self.separator.as_bytes());
        self.separator = ",";
        out.extend_from_slice(b"{\"tx_hash\":\"");
        out.extend_from_slice(&hex::txid_hex(txid).0);
        out.push(b'"');
        put_members(out);
        out.push(b'}');
        // An entry is short: it may exceed the bound until the line is dropped.
        self.line.reserve(0)
    }

    fn close(self) -> Result<(), TooLong> {
        self.line.put(self.end.as_bytes())
    }
}

fn put_member(out: &mut Vec<u8>, name: &str, number: impl Serialize) {
    out.extend_from_slice(name.as_bytes());
    serde_json::to_writer(out, &number).expect("a number is always written to memory");
}
