//! The change that a notice tells.

use bitcoin::Txid;
use serde::{Deserialize, Serialize};

use super::text;
use crate::file::InvoiceChange;

/// The change that a notice tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum NoticeKind {
    /// The transaction is in the mempool, or in a block before it was seen there.
    Seen,
    /// It has as many confirmations as a level of the watch.
    Confirmed {
        /// The level.
        confirmations: u32,
    },
    /// Another transaction spends one of its inputs.
    Replaced {
        /// The other transaction.
        #[serde(with = "text::plain")]
        by: Txid,
    },
    /// The mempool has lost it, and no other transaction is known to spend its inputs.
    Dropped,
    /// A reorg took its block from the chain.
    Reorganised,
    /// Several changes announced as one, with the sums of the payments that are new.
    Digest {
        /// Transactions in it.
        transactions: u32,
        /// True for the past of a new watch, which the operator has asked for: none of it is an alarm.
        #[serde(default, skip_serializing_if = "text::is_false")]
        is_past: bool,
    },
    /// An invoice has changed.
    Invoice(InvoiceNotice),
    /// A message that was asked for to try a channel.
    Test,
    /// The state of the server itself.
    Health(Health),
}

/// A change of an invoice, and the invoice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvoiceNotice {
    /// Id of the invoice, in hexadecimal.
    pub invoice: String,
    /// The change.
    pub state: InvoiceChange,
    /// Words for the customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Satoshis that are asked for.
    pub amount: u64,
}

/// The state of the server itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// The part that has the trouble, in one word: `node`, `index`, `damage`, `disk`, `files`, `certificate`, `relay`,
    /// `stream`; `server` in notices of earlier versions.
    pub subject: String,
    /// One line for people.
    pub text: String,
    /// True once it is well again.
    pub is_over: bool,
}
