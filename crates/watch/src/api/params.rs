//! Parts of a request as values.

use std::str::FromStr;

use birdhouse_chain::{Height, ScriptHash};
use bitcoin::address::NetworkUnchecked;
use bitcoin::{Address, BlockHash, Network, Txid};
use percent_encoding::percent_decode_str;

use crate::api::failure::Failure;

/// Parts of a request.
#[derive(Debug, Clone, Default)]
pub(super) struct Params {
    /// Parts of the path by their names in the route.
    pub(super) path: Vec<(&'static str, String)>,
    /// Pairs of the query, decoded.
    pub(super) query: Vec<(String, String)>,
    /// The body.
    pub(super) body: Vec<u8>,
    /// `Last-Event-ID`.
    pub(super) last_event: Option<String>,
}

/// Returns a text without its percent encoding.
pub(super) fn decoded(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Returns the pairs of a query.
pub(super) fn query_pairs(query: &str) -> Vec<(String, String)> {
    let value = |text: &str| decoded(&text.replace('+', " "));
    let pair = |part: &str| {
        let (name, rest) = part.split_once('=').unwrap_or((part, ""));
        (value(name), value(rest))
    };
    query.split('&').filter(|part| !part.is_empty()).map(pair).collect()
}

impl Params {
    /// Returns a part of the path.
    pub(super) fn part(&self, name: &str) -> &str {
        self.path.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value)
    }

    fn parsed<T: FromStr>(&self, name: &str, what: &'static str) -> Result<T, Failure> {
        self.part(name).parse().map_err(|_| Failure::bad_request(what))
    }

    pub(super) fn txid(&self) -> Result<Txid, Failure> {
        self.parsed("txid", "Invalid txid")
    }

    pub(super) fn hash(&self) -> Result<BlockHash, Failure> {
        self.parsed("hash", "Invalid block hash")
    }

    pub(super) fn number(&self, name: &str) -> Result<u32, Failure> {
        self.parsed(name, "Invalid number")
    }

    pub(super) fn height(&self) -> Result<Height, Failure> {
        self.number("height").map(Height)
    }

    /// Returns the script of `address` or `scripthash`.
    pub(super) fn scripthash(&self, network: Network) -> Result<ScriptHash, Failure> {
        let text = self.part("address");
        if text.is_empty() {
            return self.parsed("scripthash", "Invalid scripthash");
        }
        let address: Address<NetworkUnchecked> = text.parse().map_err(|_| Failure::bad_request("Invalid address"))?;
        let address = address.require_network(network);
        let address = address.map_err(|_| Failure::bad_request("The address is of another network"))?;
        Ok(ScriptHash::of(address.script_pubkey().as_bytes()))
    }

    /// Returns the last value of the query with this name.
    pub(super) fn asked(&self, name: &str) -> Option<&str> {
        self.query.iter().rev().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns all values of the query with this name.
    pub(super) fn all_asked<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.query.iter().filter(move |(other, _)| other == name).map(|(_, value)| value.as_str())
    }

    /// Returns the body as JSON.
    pub(super) fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| Failure::bad_request(format!("Invalid body: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_pairs() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let pairs = query_pairs("synced-tip=12%3Aab&category=ChainTip&category=a+b%2B&&bare&empty=");
        let expected = [
            pair("synced-tip", "12:ab"),
            pair("category", "ChainTip"),
            pair("category", "a b+"),
            pair("bare", ""),
            pair("empty", ""),
        ];
        assert_eq!(pairs, expected);
    }
}
