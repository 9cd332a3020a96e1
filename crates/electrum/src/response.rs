//! Answers as values, and the lines that carry them.
//!
//! Every reply is one line of at most [`crate::Limits::reply_bytes`]. The shapes that clients parse are in `shapes`, the
//! long lists, written by hand for speed, in `lists`. No result has a member "id" with a number, because Sparrow finds
//! ids by text.

mod hex;
mod lists;
mod shapes;

use std::io;
use std::sync::Arc;

use birdhouse_chain::{
    Balance, Confirmation, Height, HistoryEntry, MempoolTransaction, MerkleBranch, ScriptHash, UnconfirmedEntry,
    Unspent,
};
use bitcoin::{BlockHash, Txid};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::envelope::Id;
use crate::error::RpcError;
use crate::peers::Peer;
use crate::script::Naming;
use crate::session::State;
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
    Peers(Vec<Peer>),
    /// As many digits as the ping asked for.
    Pong(u32),
    Version {
        software: String,
        version: Version,
    },
    Features {
        hosts: Vec<Host>,
        genesis_hash: BlockHash,
        server_version: String,
        form: FeaturesForm,
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
    Balance(Balance),
    History {
        confirmed: Vec<HistoryEntry>,
        unconfirmed: Vec<UnconfirmedEntry>,
        naming: Naming,
    },
    Unspent {
        outputs: Vec<Unspent>,
        naming: Naming,
    },
    Status(Status),
    FirstUse(Option<FirstUse>),
    Outpoint(OutpointState),
    Utxo(Option<Utxo>),
    Bytes(Vec<u8>),
    /// JSON that Core wrote, unchanged: its numbers too.
    Core(Box<RawValue>),
    TransactionHeight(Confirmation),
    Block {
        hash: BlockHash,
        height: Height,
        header: Option<[u8; 80]>,
    },
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
    Acceptances(Vec<Acceptance>),
    FeeHistogram(Vec<(f64, u64)>),
    Recent(Vec<Arc<MempoolTransaction>>),
    /// BTC/kvB; `None` when the node has no estimate.
    Fee(Option<f64>),
    MempoolFees(MempoolFees),
}

/// What `server.features` tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeaturesForm {
    /// Until 1.7.
    WithHashFunction,
    /// From 1.7.
    WithoutHashFunction,
}

/// How a run of headers is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadersForm {
    /// One string `hex`, until 1.6.
    Joined,
    /// A list `headers`, from 1.6.
    List,
}

/// A header as `blockchain.headers.subscribe` tells it: exactly these two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TipHeader {
    pub(crate) header: [u8; 80],
    pub(crate) height: Height,
}

/// The first transaction of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstUse {
    pub(crate) txid: Txid,
    /// The block it is in; `None` in the mempool.
    pub(crate) block: Option<(Height, BlockHash)>,
}

/// What a client is told of an outpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OutpointStatus {
    /// Where the funding transaction is, if there is one.
    pub(crate) funding: Option<Confirmation>,
    /// The spending transaction, and where it is.
    pub(crate) spender: Option<(Txid, Confirmation)>,
}

/// An outpoint at one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutpointState {
    pub(crate) status: OutpointStatus,
    /// Whose it is, if that could be seen.
    pub(crate) script: Option<ScriptHash>,
    pub(crate) prospect: Prospect,
}

/// Whether a status can still change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prospect {
    Open,
    /// The spender is buried so deep that nobody follows it any more.
    Final,
}

/// An output that nothing spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Utxo {
    pub(crate) scripthash: ScriptHash,
    pub(crate) value: u64,
    pub(crate) funding: Confirmation,
}

/// Why Core refused one transaction of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PackageError {
    pub(crate) txid: String,
    pub(crate) error: String,
}

/// Whether Core's mempool would take a transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Acceptance {
    pub(crate) txid: String,
    pub(crate) wtxid: String,
    /// Missing where another one's failure ended the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allowed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// What a transaction must pay, BTC/kvB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MempoolFees {
    /// To enter the mempool now.
    pub(crate) mempool_min: f64,
    /// To be relayed at all.
    pub(crate) relay_min: f64,
    /// More than what it replaces.
    pub(crate) increment: f64,
}

/// Headers in one answer, at most: a difficulty period.
pub(crate) const HEADERS_MAX: u32 = 2016;

/// The height that the protocol gives a transaction: 0 or -1 in the mempool.
pub(crate) fn electrum_height(confirmation: Confirmation) -> i64 {
    match confirmation {
        Confirmation::Confirmed(height) => height.0.into(),
        Confirmation::Unconfirmed { has_unconfirmed_inputs: false } => 0,
        Confirmation::Unconfirmed { has_unconfirmed_inputs: true } => -1,
    }
}

// === lines ===

/// A reply, without the end of its line.
pub(crate) fn reply(id: &Id, result: &Result<Answer, RpcError>, bytes_max: usize) -> Vec<u8> {
    let written = match result {
        Err(error) => return error_reply(id, error),
        Ok(answer) => {
            let mut line = Line { bytes: opening(id), bytes_max };
            line.bytes.extend_from_slice(b",\"result\":");
            put(&mut line, answer).map(|()| line.bytes)
        }
    };
    match written {
        Ok(mut line) => {
            line.push(b'}');
            line
        }
        Err(TooLong) => error_reply(id, &RpcError::history_too_large()),
    }
}

fn put(line: &mut Line, answer: &Answer) -> Result<(), TooLong> {
    match answer {
        Answer::History { confirmed, unconfirmed, naming } => lists::put_history(line, confirmed, unconfirmed, *naming),
        Answer::Unspent { outputs, naming } => lists::put_unspent(line, outputs, *naming),
        Answer::Bytes(bytes) => lists::put_hex(line, bytes),
        answer => serde_json::to_writer(line, answer).map_err(|_| TooLong),
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

/// What a client is told when something that it follows has changed.
pub(crate) fn notification(state: &State) -> Vec<u8> {
    match state {
        State::Tip(tip) => notify("blockchain.headers.subscribe", &[tip]),
        State::Script(script, status) => {
            let status = status.map(|status| hex::hex(&status));
            notify(script.naming.subscribe_method(), &(script.hash.to_string(), status))
        }
        State::Outpoint(outpoint, state) => {
            let params = (outpoint.txid.to_string(), outpoint.vout, &state.status);
            notify("blockchain.outpoint.subscribe", &params)
        }
    }
}

fn notify(method: &str, params: &impl Serialize) -> Vec<u8> {
    let mut line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":").into_bytes();
    serde_json::to_writer(&mut line, params).expect("hex and numbers are always written to memory");
    line.push(b'}');
    line
}

fn opening(id: &Id) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{}", id.as_json()).into_bytes()
}

/// A line that takes at most `bytes_max`.
struct Line {
    bytes: Vec<u8>,
    bytes_max: usize,
}

/// The line would be longer than it may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TooLong;

impl Line {
    fn put(&mut self, more: &[u8]) -> Result<(), TooLong> {
        if self.bytes.len() + more.len() > self.bytes_max {
            return Err(TooLong);
        }
        self.bytes.extend_from_slice(more);
        Ok(())
    }

    /// Makes room for so many bytes more.
    fn reserve(&mut self, bytes: usize) -> Result<(), TooLong> {
        if self.bytes.len().saturating_add(bytes) > self.bytes_max {
            return Err(TooLong);
        }
        self.bytes.reserve(bytes);
        Ok(())
    }
}

impl io::Write for Line {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        self.put(more).map_err(|TooLong| io::ErrorKind::FileTooLarge)?;
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
