//! The changes that a client asks for, and the block up to which it knows them. Pure.

use std::str::FromStr;

use birdhouse_chain::{Height, ScriptHash};
use bitcoin::{BlockHash, OutPoint};

use crate::api::change::Change;
use crate::api::failure::Failure;
use crate::api::params::Params;
use crate::invoice::InvoiceId;
use crate::limits::API_STREAM_VALUES_MAX;

/// Conditions on changes: one value of each kind that is named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Wish {
    pub(super) categories: Vec<String>,
    pub(super) scripthashes: Vec<ScriptHash>,
    pub(super) outpoints: Vec<OutPoint>,
}

/// The block up to which a client knows all changes. Without a hash a reorg is not noticed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Synced {
    pub(super) height: u32,
    pub(super) hash: Option<BlockHash>,
}

/// The subject of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Feed {
    /// Changes of watched wallets.
    Changes(Wish, Option<Synced>),
    /// States of all invoices, or of one.
    Invoices(Option<InvoiceId>),
}

impl Wish {
    /// Reads `category`, `scripthash` and `outpoint`.
    pub(super) fn of(params: &Params) -> Result<Self, Failure> {
        Ok(Self {
            categories: params.all_asked("category").map(str::to_owned).take(API_STREAM_VALUES_MAX).collect(),
            scripthashes: parsed(params, "scripthash")?,
            outpoints: parsed(params, "outpoint")?,
        })
    }

    /// Returns true for a change that is asked for.
    pub(super) fn has(&self, change: &Change) -> bool {
        let Self { categories, scripthashes, outpoints } = self;
        (categories.is_empty() || categories.iter().any(|category| category == change.category()))
            && (scripthashes.is_empty() || change.scripthash().is_some_and(|script| scripthashes.contains(script)))
            && (outpoints.is_empty() || change.outpoint().is_some_and(|outpoint| outpoints.contains(outpoint)))
    }
}

fn parsed<T: FromStr>(params: &Params, name: &str) -> Result<Vec<T>, Failure> {
    let invalid = || Failure::bad_request(format!("Invalid {name}"));
    let values = params.all_asked(name).take(API_STREAM_VALUES_MAX).map(|text| text.parse().ok().ok_or_else(invalid));
    values.collect()
}

impl Synced {
    /// Returns the height of the first block that the client does not know.
    pub(super) fn next_height(self) -> Height {
        Height(self.height.saturating_add(1))
    }

    /// Reads `Last-Event-ID`, which a client sends that comes back, or `synced-tip`.
    pub(super) fn of(params: &Params) -> Result<Option<Self>, Failure> {
        if let Some(last) = params.last_event.as_deref().and_then(Self::parse) {
            return Ok(Some(last));
        }
        let text = params.asked("synced-tip");
        text.map(|text| Self::parse(text).ok_or_else(|| Failure::bad_request("Invalid synced-tip"))).transpose()
    }

    fn parse(text: &str) -> Option<Self> {
        let (height, hash) = text.split_once(':').map_or((text, None), |(height, hash)| (height, Some(hash)));
        let hash = match hash {
            Some(hash) => Some(hash.parse().ok()?),
            None => None,
        };
        Some(Self { height: height.parse().ok()?, hash })
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash as _;
    use bitcoin::{BlockHash, Txid};

    use super::*;

    #[test]
    fn a_change_must_meet_one_value_of_each_kind() {
        let txid = Txid::all_zeros();
        let (one, other) = (ScriptHash([1; 32]), ScriptHash([2; 32]));
        let (outpoint, prevout) = (OutPoint { txid, vout: 1 }, OutPoint { txid, vout: 7 });
        let funded = Change::TxoFunded { outpoint, scripthash: one, value: 1, height: None };
        let spent = Change::TxoSpent { txid, vin: 0, scripthash: other, prevout, height: None };
        let seen = Change::Transaction { txid, height: None };
        let wish = |categories: &[&str], scripthashes: &[ScriptHash], outpoints: &[OutPoint]| Wish {
            categories: categories.iter().map(|name| (*name).to_owned()).collect(),
            scripthashes: scripthashes.to_vec(),
            outpoints: outpoints.to_vec(),
        };
        let cases = [
            (wish(&[], &[], &[]), [true, true, true]),
            (wish(&["Transaction"], &[], &[]), [false, false, true]),
            (wish(&["TxoSpent", "TxoFunded"], &[], &[]), [true, true, false]),
            (wish(&[], &[one], &[]), [true, false, false]),
            (wish(&[], &[one, other], &[]), [true, true, false]),
            // The output that is spent, not the input.
            (wish(&[], &[], &[prevout]), [false, true, false]),
            (wish(&["TxoSpent"], &[one], &[]), [false, false, false]),
        ];
        for (wish, expected) in cases {
            assert_eq!([&funded, &spent, &seen].map(|change| wish.has(change)), expected, "{wish:?}");
        }
    }

    #[test]
    fn a_cursor_is_a_height_with_or_without_a_hash() {
        let hash = BlockHash::from_byte_array([7; 32]);
        assert_eq!(Synced::parse("0"), Some(Synced { height: 0, hash: None }));
        assert_eq!(Synced::parse(&format!("120:{hash}")), Some(Synced { height: 120, hash: Some(hash) }));
        for bad in ["", ":", "120:", "x:1", "-1", "120:ab"] {
            assert_eq!(Synced::parse(bad), None, "{bad}");
        }
        let params = |last: &str, asked: &str| Params {
            last_event: Some(last.into()),
            query: vec![("synced-tip".into(), asked.into())],
            ..Params::default()
        };
        // The header of a client that comes back, as BWT does.
        assert_eq!(Synced::of(&params("5", "3")).ok().flatten().map(|synced| synced.height), Some(5));
        assert_eq!(Synced::of(&params("text", "3")).ok().flatten().map(|synced| synced.height), Some(3));
        assert!(Synced::of(&params("text", "text")).is_err());
    }
}
