//! Notices: one thing announced of a watch. No I/O.

mod id;
mod kind;
pub(crate) mod text;

use birdhouse_chain::Balance;
use birdhouse_chain::source::BlockId;
use bitcoin::Txid;
use serde::{Deserialize, Serialize};

use crate::file::WatchName;

pub use id::NoticeId;
pub use kind::{Health, InvoiceNotice, NoticeKind};

/// One thing announced of a watch. Its JSON is that of the log, of webhooks and of the API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Its id: the same in each delivery.
    pub id: NoticeId,
    /// Position in the log, set when it is appended: the cursor of readers.
    pub seq: u64,
    /// The watch; of the server's own name for a notice of its health.
    pub watch: WatchName,
    /// The change.
    #[serde(flatten)]
    pub kind: NoticeKind,
    /// The transaction; none for a digest and for the server's health.
    #[serde(with = "text::optional", default, skip_serializing_if = "Option::is_none")]
    pub txid: Option<Txid>,
    /// Sums, of this watch's scripts in the transaction.
    #[serde(flatten)]
    pub amounts: Amounts,
    /// Balance of the watch after it, in satoshis.
    #[serde(with = "text::balance", default, skip_serializing_if = "Option::is_none")]
    pub balance: Option<Balance>,
    /// Block of the transaction.
    #[serde(with = "text::block", default, skip_serializing_if = "Option::is_none")]
    pub block: Option<BlockId>,
    /// Time of the notice, in seconds since 1970.
    pub at: u64,
    /// True if the node has removed a part of the transaction, so that sums and lists say less.
    #[serde(default, skip_serializing_if = "text::is_false")]
    pub is_partial: bool,
    /// True if the watch is cold: a spend from it is an alarm.
    #[serde(default, skip_serializing_if = "text::is_false")]
    pub is_cold: bool,
    /// Outputs that pay the watch, [`crate::limits::NOTICE_LINES_MAX`] at most.
    #[serde(default)]
    pub outputs: Vec<WatchedOutput>,
    /// Inputs that spend from it, [`crate::limits::NOTICE_LINES_MAX`] at most.
    #[serde(default)]
    pub inputs: Vec<WatchedInput>,
}

impl Notice {
    /// Returns a notice that is about no transaction, at this time in seconds since 1970.
    pub(crate) fn apart(watch: WatchName, kind: NoticeKind, at: u64) -> Self {
        Self {
            id: NoticeId::of(&[]),
            seq: 0,
            watch,
            kind,
            txid: None,
            amounts: Amounts::default(),
            balance: None,
            block: None,
            at,
            is_partial: false,
            is_cold: false,
            outputs: Vec::new(),
            inputs: Vec::new(),
        }
    }

    /// Returns the id of a notice at a position of the log. The position is a part of it: one transaction may come to
    /// the mempool twice, and after two reorgs to the same block.
    pub(crate) fn id_at(&self, seq: u64) -> NoticeId {
        let txid = self.txid.map(|txid| txid.to_string()).unwrap_or_default();
        let kind = serde_json::to_string(&self.kind).expect("its keys are texts");
        let block = self.block.map(|block| block.hash.to_string()).unwrap_or_default();
        let texts = [self.watch.as_str(), &txid, &kind, &block, &seq.to_string()];
        NoticeId::of(&texts.map(str::as_bytes))
    }
}

impl Notice {
    /// True for a spend from a cold wallet that is not taken back, nor of the past, and for what may be one: a part of
    /// it is unknown.
    pub(crate) fn is_alarm(&self) -> bool {
        let may_spend = self.amounts.spent > 0 || self.is_partial;
        self.is_cold
            && may_spend
            && matches!(
                self.kind,
                NoticeKind::Seen | NoticeKind::Confirmed { .. } | NoticeKind::Digest { is_past: false, .. }
            )
    }
}

/// Sums in satoshis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amounts {
    /// Paid to the watch.
    pub received: u64,
    /// Spent from it.
    pub spent: u64,
}

/// A script of a watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedScript {
    /// The script in hexadecimal.
    pub script: String,
    /// Branch of the descriptor: 0 receives, 1 is change, where it has two.
    pub branch: u32,
    /// Number in the branch.
    pub index: u32,
}

/// An output that pays a watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedOutput {
    /// Index in the transaction.
    pub vout: u32,
    /// Satoshis.
    pub value: u64,
    /// Its script.
    #[serde(flatten)]
    pub script: WatchedScript,
}

/// An input that spends from a watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WatchedInput {
    /// Index in the transaction.
    pub vin: u32,
    /// The output that it spends, `txid:vout`.
    pub outpoint: String,
    /// Satoshis.
    pub value: u64,
    /// The script of that output.
    #[serde(flatten)]
    pub script: WatchedScript,
}
