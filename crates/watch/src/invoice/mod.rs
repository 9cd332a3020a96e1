//! Invoices: an address of its own for each, its state from what the chain shows, and its payment request. No I/O.

mod labels;
mod reserve;
mod standing;
mod uri;

use serde::{Deserialize, Serialize};

pub(crate) use labels::{Label, LabelKind, lines as label_lines, parse as parse_labels};
pub use reserve::BeyondGap;
pub(crate) use reserve::{NotTaken, Reserve, Taken};
pub(crate) use standing::{InvoiceState, Payment, Standing, Terms};
pub(crate) use uri::payment_uri;

use crate::file::WatchName;

/// Bytes of an invoice's id.
const ID_BYTES: usize = 16;

/// Id of an invoice: random, so that its page is found by those alone who were given its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct InvoiceId([u8; ID_BYTES]);

/// An invoice, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Invoice {
    /// Its id.
    pub(crate) id: InvoiceId,
    /// The watch whose wallet is paid.
    pub(crate) watch: WatchName,
    /// Checksum of the descriptor that its address is of.
    pub(crate) branch: String,
    /// Number of the address in the branch.
    pub(crate) index: u32,
    /// The address.
    pub(crate) address: String,
    /// Its script in hexadecimal.
    pub(crate) script: String,
    /// Satoshis that are asked for.
    pub(crate) amount: u64,
    /// Words for the customer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<String>,
    /// Time at which it was made, in seconds since 1970.
    pub(crate) created: u64,
    /// End of the time to pay, in seconds since 1970.
    pub(crate) expires: u64,
    /// Confirmations after which it is confirmed.
    pub(crate) confirmations: u32,
    /// Payments that were seen, with the time of that.
    #[serde(default)]
    pub(crate) seen: Vec<SeenPayment>,
    /// The state that was announced last.
    pub(crate) reported: InvoiceState,
}

/// A payment of an invoice, and the time at which it was seen first, in seconds since 1970.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SeenPayment {
    /// The output: `txid:vout`.
    pub(crate) outpoint: String,
    /// The time.
    pub(crate) at: u64,
}

impl InvoiceId {
    /// Returns the id of these random bytes.
    pub(crate) fn new(random: [u8; ID_BYTES]) -> Self {
        Self(random)
    }

    /// Reads an id.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        const_hex::decode_to_array(text).ok().map(Self)
    }

    /// Returns its bytes.
    pub(crate) fn as_bytes(&self) -> &[u8; ID_BYTES] {
        &self.0
    }
}

impl std::fmt::Display for InvoiceId {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&const_hex::encode(self.0))
    }
}

impl Serialize for InvoiceId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for InvoiceId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).ok_or_else(|| serde::de::Error::custom("not an id of an invoice"))
    }
}

impl Invoice {
    /// Returns its terms.
    pub(crate) fn terms(&self) -> Terms {
        Terms { amount: self.amount, expires: self.expires, confirmations: self.confirmations }
    }

    /// Returns the payment request for wallets.
    pub(crate) fn uri(&self) -> String {
        payment_uri(&self.address, self.amount, self.label.as_deref())
    }

    /// Returns the time at which a payment was seen first, if it was.
    pub(crate) fn seen_at(&self, outpoint: &str) -> Option<u64> {
        self.seen.iter().find(|seen| seen.outpoint == outpoint).map(|seen| seen.at)
    }

    /// Notes the time of a payment that was not seen before. Returns false for one that was.
    pub(crate) fn note(&mut self, outpoint: &str, at: u64) -> bool {
        let is_new = self.seen_at(outpoint).is_none() && self.seen.len() < crate::limits::INVOICE_PAYMENTS_MAX;
        if is_new {
            self.seen.push(SeenPayment { outpoint: outpoint.into(), at });
        }
        is_new
    }
}
