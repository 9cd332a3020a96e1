//! Answers as values, and their exact text: the only place that knows the shapes clients parse.
//!
//! Amounts are integers of satoshis, fees decimal numbers of BTC/kvB without exponent, hashes are shown
//! byte-reversed. Every reply is one line. No result has a member "id" with a number, because Sparrow
//! finds ids by text.

use std::fmt::Write as _;
use std::io;

use birdhouse_chain::{
    Balance, Confirmation, Height, HistoryEntry, MerkleBranch, ScriptHash, UnconfirmedEntry, Unspent,
};
use bitcoin::hashes::Hash as _;
use bitcoin::{BlockHash, Txid};
use serde::ser::{SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::envelope::Id;
use crate::error::RpcError;
use crate::settings::Host;
use crate::version::Version;

/// Electrum's status of a script: `None` without history.
pub(crate) type Status = Option<[u8; 32]>;

/// The result of a request, in the domain's terms.
#[derive(Debug)]
pub(crate) enum Answer {
    Null,
    Bool(bool),
    Text(String),
    /// A list that is always empty here.
    Nothing,
    Version {
        software: String,
        version: Version,
    },
    Features {
        hosts: Vec<Host>,
        genesis_hash: BlockHash,
        server_version: String,
    },
    Header([u8; 80]),
    ProvenHeader {
        header: [u8; 80],
        branch: MerkleBranch,
    },
    Headers {
        headers: Vec<[u8; 80]>,
        form: HeadersForm,
        branch: Option<MerkleBranch>,
    },
    Tip(TipHeader),
    /// BTC/kvB; `None` when the node has no estimate.
    Fee(Option<f64>),
    Balance(Balance),
    History {
        confirmed: Vec<HistoryEntry>,
        unconfirmed: Vec<UnconfirmedEntry>,
    },
    Unspent(Vec<Unspent>),
    /// sat/vB and virtual bytes.
    FeeHistogram(Vec<(f64, u64)>),
    Status(Status),
    Bytes(Vec<u8>),
    Core(serde_json::Value),
    Merkle {
        branch: MerkleBranch,
        height: Height,
    },
    Txid(Txid),
    TxidMerkle {
        txid: Txid,
        branch: MerkleBranch,
    },
    Package {
        success: bool,
        errors: Vec<PackageError>,
    },
    MempoolInfo {
        mempool_min: f64,
        relay_min: f64,
        relay_increment: f64,
    },
}

/// How a run of headers is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadersForm {
    /// One string `hex`, until 1.6.
    Joined,
    /// A list `headers`, from 1.6.
    List,
}

/// A tip as `blockchain.headers.subscribe` tells it: exactly these two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TipHeader {
    pub(crate) header: [u8; 80],
    pub(crate) height: Height,
}

/// Why Core refused one transaction of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PackageError {
    pub(crate) txid: String,
    pub(crate) error: String,
}

/// Headers in one answer, at most: a difficulty period.
pub(crate) const HEADERS_MAX: u32 = 2016;

// === replies ===

/// A reply, without the end of its line.
pub(crate) fn reply(id: &Id, result: &Result<Answer, RpcError>, bytes_max: usize) -> Vec<u8> {
    match result {
        Err(error) => error_reply(id, error),
        Ok(answer) => {
            let mut line = Bounded { bytes: opening(id), max: bytes_max };
            line.bytes.extend_from_slice(b",\"result\":");
            if serde_json::to_writer(&mut line, answer).is_err() {
                return error_reply(id, &RpcError::history_too_large());
            }
            line.bytes.push(b'}');
            line.bytes
        }
    }
}

/// The reply that carries an error, without the end of its line.
pub(crate) fn error_reply(id: &Id, error: &RpcError) -> Vec<u8> {
    let mut line = opening(id);
    let members = format!(",\"error\":{{\"code\":{},\"message\":", error.code);
    line.extend_from_slice(members.as_bytes());
    serde_json::to_writer(&mut line, &error.message).expect("a string is always written to memory");
    line.extend_from_slice(b"}}");
    line
}

/// A new tip.
pub(crate) fn tip_notification(tip: &TipHeader) -> Vec<u8> {
    notification("blockchain.headers.subscribe", &[tip])
}

/// A new status.
pub(crate) fn status_notification(scripthash: &ScriptHash, status: Status) -> Vec<u8> {
    let status = status.map(|status| hex(&status));
    notification("blockchain.scripthash.subscribe", &(scripthash.to_string(), status))
}

fn notification(method: &str, params: &impl Serialize) -> Vec<u8> {
    let mut line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":").into_bytes();
    serde_json::to_writer(&mut line, params).expect("hex and numbers are always written to memory");
    line.push(b'}');
    line
}

fn opening(id: &Id) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{}", id.as_json()).into_bytes()
}

/// Memory that takes at most `max` bytes.
struct Bounded {
    bytes: Vec<u8>,
    max: usize,
}

impl io::Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        if self.bytes.len() + more.len() > self.max {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(more);
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// === impl Answer ===

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => out.serialize_unit(),
            Self::Bool(value) => out.serialize_bool(*value),
            Self::Text(text) => out.serialize_str(text),
            Self::Nothing => out.serialize_seq(Some(0))?.end(),
            Self::Version { software, version } => (software, version.to_string()).serialize(out),
            Self::Features { hosts, genesis_hash, server_version } => {
                features(hosts, *genesis_hash, server_version, out)
            }
            Self::Header(header) => out.serialize_str(&hex(header)),
            Self::ProvenHeader { header, branch } => {
                let mut map = out.serialize_map(Some(3))?;
                map.serialize_entry("branch", &Siblings(branch))?;
                map.serialize_entry("header", &hex(header))?;
                map.serialize_entry("root", reversed_hex(&branch.root).as_str())?;
                map.end()
            }
            Self::Headers { headers, form, branch } => block_headers(headers, *form, branch.as_ref(), out),
            Self::Tip(tip) => tip.serialize(out),
            Self::Fee(None) => out.serialize_i64(-1),
            Self::Fee(Some(fee)) => decimal(*fee).serialize(out),
            Self::Balance(balance) => {
                let mut map = out.serialize_map(Some(2))?;
                map.serialize_entry("confirmed", &balance.confirmed)?;
                map.serialize_entry("unconfirmed", &balance.unconfirmed)?;
                map.end()
            }
            Self::History { confirmed, unconfirmed } => {
                let mut seq = out.serialize_seq(Some(confirmed.len() + unconfirmed.len()))?;
                for entry in confirmed {
                    seq.serialize_element(&HistoryShape(entry))?;
                }
                for entry in unconfirmed {
                    seq.serialize_element(&UnconfirmedShape(entry))?;
                }
                seq.end()
            }
            Self::FeeHistogram(bins) => bins.serialize(out),
            Self::Unspent(outputs) => out.collect_seq(outputs.iter().map(UnspentShape)),
            Self::Status(status) => status.map(|status| hex(&status)).serialize(out),
            Self::Bytes(bytes) => out.serialize_str(&hex(bytes)),
            Self::Core(value) => value.serialize(out),
            Self::Merkle { branch, height } => {
                let mut map = out.serialize_map(Some(3))?;
                map.serialize_entry("block_height", &height.0)?;
                map.serialize_entry("merkle", &Siblings(branch))?;
                map.serialize_entry("pos", &branch.position)?;
                map.end()
            }
            Self::Txid(txid) => out.serialize_str(txid_hex(txid).as_str()),
            Self::TxidMerkle { txid, branch } => {
                let mut map = out.serialize_map(Some(2))?;
                map.serialize_entry("tx_hash", txid_hex(txid).as_str())?;
                map.serialize_entry("merkle", &Siblings(branch))?;
                map.end()
            }
            Self::Package { success, errors } => {
                let mut map = out.serialize_map(None)?;
                map.serialize_entry("success", success)?;
                if !errors.is_empty() {
                    map.serialize_entry("errors", errors)?;
                }
                map.end()
            }
            Self::MempoolInfo { mempool_min, relay_min, relay_increment } => {
                let mut map = out.serialize_map(Some(3))?;
                map.serialize_entry("mempoolminfee", &decimal(*mempool_min))?;
                map.serialize_entry("minrelaytxfee", &decimal(*relay_min))?;
                map.serialize_entry("incrementalrelayfee", &decimal(*relay_increment))?;
                map.end()
            }
        }
    }
}

fn features<S: Serializer>(hosts: &[Host], genesis: BlockHash, server: &str, out: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Ports {
        #[serde(rename = "tcp_port")]
        tcp: Option<u16>,
        #[serde(rename = "ssl_port")]
        ssl: Option<u16>,
        #[serde(rename = "ws_port", skip_serializing_if = "Option::is_none")]
        ws: Option<u16>,
        #[serde(rename = "wss_port", skip_serializing_if = "Option::is_none")]
        wss: Option<u16>,
    }
    let ports = |host: &Host| Ports { tcp: host.tcp_port, ssl: host.ssl_port, ws: host.ws_port, wss: host.wss_port };
    let hosts: std::collections::BTreeMap<&str, Ports> =
        hosts.iter().map(|host| (host.name.as_str(), ports(host))).collect();
    let mut map = out.serialize_map(Some(7))?;
    map.serialize_entry("hosts", &hosts)?;
    map.serialize_entry("genesis_hash", reversed_hex(genesis.as_byte_array()).as_str())?;
    map.serialize_entry("hash_function", "sha256")?;
    map.serialize_entry("server_version", server)?;
    map.serialize_entry("protocol_min", &Version::MIN.to_string())?;
    map.serialize_entry("protocol_max", &Version::MAX.to_string())?;
    map.serialize_entry("pruning", &())?;
    map.end()
}

fn block_headers<S: Serializer>(
    headers: &[[u8; 80]],
    form: HeadersForm,
    branch: Option<&MerkleBranch>,
    out: S,
) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(None)?;
    map.serialize_entry("count", &headers.len())?;
    match form {
        HeadersForm::Joined => map.serialize_entry("hex", &hex(headers.as_flattened()))?,
        HeadersForm::List => {
            let headers: Vec<String> = headers.iter().map(|header| hex(header)).collect();
            map.serialize_entry("headers", &headers)?;
        }
    }
    map.serialize_entry("max", &HEADERS_MAX)?;
    if let Some(branch) = branch {
        map.serialize_entry("root", reversed_hex(&branch.root).as_str())?;
        map.serialize_entry("branch", &Siblings(branch))?;
    }
    map.end()
}

impl Serialize for TipHeader {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(Some(2))?;
        map.serialize_entry("hex", &hex(&self.header))?;
        map.serialize_entry("height", &self.height.0)?;
        map.end()
    }
}

struct HistoryShape<'a>(&'a HistoryEntry);

impl Serialize for HistoryShape<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(Some(2))?;
        map.serialize_entry("tx_hash", txid_hex(&self.0.txid).as_str())?;
        map.serialize_entry("height", &self.0.height.0)?;
        map.end()
    }
}

struct UnconfirmedShape<'a>(&'a UnconfirmedEntry);

impl Serialize for UnconfirmedShape<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(Some(3))?;
        map.serialize_entry("tx_hash", txid_hex(&self.0.txid).as_str())?;
        map.serialize_entry("height", &if self.0.has_unconfirmed_inputs { -1 } else { 0 })?;
        map.serialize_entry("fee", &self.0.fee)?;
        map.end()
    }
}

struct UnspentShape<'a>(&'a Unspent);

impl Serialize for UnspentShape<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut map = out.serialize_map(Some(4))?;
        map.serialize_entry("tx_hash", txid_hex(&self.0.txid).as_str())?;
        map.serialize_entry("tx_pos", &self.0.vout)?;
        let height = match self.0.confirmation {
            Confirmation::Confirmed(height) => height.0,
            Confirmation::Unconfirmed { .. } => 0,
        };
        map.serialize_entry("height", &height)?;
        map.serialize_entry("value", &self.0.value)?;
        map.end()
    }
}

struct Siblings<'a>(&'a MerkleBranch);

impl Serialize for Siblings<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut seq = out.serialize_seq(Some(self.0.siblings.len()))?;
        for sibling in &self.0.siblings {
            seq.serialize_element(reversed_hex(sibling).as_str())?;
        }
        seq.end()
    }
}

// === hex and numbers ===

/// 64 digits without an allocation: a history may have a hundred thousand of them.
struct HashHex([u8; 64]);

impl HashHex {
    fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

fn reversed_hex(hash: &[u8; 32]) -> HashHex {
    let mut text = [0; 64];
    for (pair, byte) in text.chunks_exact_mut(2).zip(hash.iter().rev()) {
        pair.copy_from_slice(&digits(*byte));
    }
    HashHex(text)
}

fn txid_hex(txid: &Txid) -> HashHex {
    reversed_hex(txid.as_byte_array())
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.extend(digits(*byte).map(char::from));
    }
    text
}

fn digits(byte: u8) -> [u8; 2] {
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// A fee to the satoshi, never as `1e-5`, which some wallets' parsers do not read.
fn decimal(fee: f64) -> Box<RawValue> {
    let mut text = String::new();
    write!(text, "{fee:.8}").expect("a string takes everything");
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
