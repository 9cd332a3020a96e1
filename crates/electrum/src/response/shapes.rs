//! JSON of every answer but the long lists: the only file that knows the shapes that clients parse.
//!
//! Amounts are integers of satoshis, fees decimal numbers of BTC/kvB without exponent, hashes are shown byte-reversed.
//! Sources: the [protocol documentation], "Protocol Methods"; for Fulcrum's own methods [its documentation].
//!
//! [protocol documentation]: https://electrum-protocol.readthedocs.io/en/latest/protocol-methods.html
//! [its documentation]: https://electrum-cash-protocol.readthedocs.io/en/latest/protocol-methods.html

use std::collections::BTreeMap;
use std::fmt::Write as _;

use birdhouse_chain::{Confirmation, Height, MempoolTransaction, MerkleBranch};
use bitcoin::BlockHash;
use bitcoin::hashes::Hash as _;
use const_hex::encode as hex;
use serde::ser::{Error as _, SerializeMap as _};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use super::hex::{reversed_hex, txid_hex};
use crate::limits::HEADERS_MAX;
use crate::protocol::{
    Answer, FeaturesForm, Fees, FirstUse, HeadersForm, MempoolFees, Offer, OutpointStatus, Peer, TipHeader, Utxo,
    Version, electrum_height,
};
use crate::settings::Host;

/// Writes an object of members in this order. A member `"name"?` is left out if its value is `None`.
macro_rules! object {
    (@ $map:ident) => {};
    (@ $map:ident $name:literal: $value:expr $(, $($rest:tt)*)?) => {
        $map.serialize_entry($name, &$value)?;
        $(object!(@ $map $($rest)*))?
    };
    (@ $map:ident $name:literal?: $value:expr $(, $($rest:tt)*)?) => {
        if let Some(value) = $value {
            $map.serialize_entry($name, &value)?;
        }
        $(object!(@ $map $($rest)*))?
    };
    ($out:ident, $($members:tt)+) => {{
        let mut map = $out.serialize_map(None)?;
        object!(@ map $($members)+);
        map.end()
    }};
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => out.serialize_unit(),
            Self::Bool(value) => out.serialize_bool(*value),
            Self::Text(text) => out.serialize_str(text),
            Self::Peers(peers) => out.collect_seq(peers.iter().map(PeerShape)),
            Self::Pong(digits) => object!(out, "data": "0".repeat(*digits as usize)),
            Self::Version { software, version } => (software, version.to_string()).serialize(out),
            Self::Features { hosts, genesis_hash, server_version, form, silent_payments, tweaks } => {
                let hosts: BTreeMap<&str, &Host> = hosts.iter().map(|host| (host.name.as_str(), host)).collect();
                object! {
                    out,
                    "hosts": hosts,
                    "genesis_hash": reversed_hex(genesis_hash.to_byte_array()),
                    "hash_function"?: (*form == FeaturesForm::WithHashFunction).then_some("sha256"),
                    "server_version": server_version,
                    "protocol_min": Version::MIN.to_string(),
                    "protocol_max": Version::MAX.to_string(),
                    "pruning": (),
                    // The versions of addresses, as in Frigate.
                    "silent_payments"?: (*silent_payments == Offer::Made).then_some([0]),
                    // As in rbitcoin.
                    "tweaks"?: (*tweaks == Offer::Made).then_some(true)
                }
            }
            Self::Header(header) => out.serialize_str(&hex(header)),
            Self::ProvenHeader { header, branch } => {
                object!(out, "branch": Siblings(branch), "header": hex(header), "root": reversed_hex(branch.root))
            }
            Self::Headers { headers, form, branch } => {
                let (joined, list) = match form {
                    HeadersForm::Joined => (Some(hex(headers.as_flattened())), None),
                    HeadersForm::List => (None, Some(headers.iter().map(hex).collect::<Vec<_>>())),
                };
                object! {
                    out,
                    "count": headers.len(),
                    "hex"?: joined,
                    "headers"?: list,
                    "max": HEADERS_MAX,
                    "root"?: branch.as_ref().map(|branch| reversed_hex(branch.root)),
                    "branch"?: branch.as_ref().map(Siblings)
                }
            }
            Self::Tip(tip) => tip.serialize(out),
            Self::Balance(balance) => {
                object!(out, "confirmed": balance.confirmed, "unconfirmed": balance.unconfirmed)
            }
            Self::Status(status) => status.map(hex).serialize(out),
            Self::FirstUse(first) => first.serialize(out),
            Self::Outpoint(state) => state.status.serialize(out),
            Self::Utxo(utxo) => utxo.serialize(out),
            Self::Core(json) => in_one_line(json, out),
            Self::Silent(object) => object.serialize(out),
            Self::TweakOutput { value, is_spent } => object!(out, "amount": value, "spent": is_spent),
            // Fulcrum's method has no -1.
            Self::TransactionHeight(confirmation) => out.serialize_i64(electrum_height(*confirmation).max(0)),
            Self::Block { hash, height, header } => object! {
                out,
                "block_hash": reversed_hex(hash.to_byte_array()),
                "block_height": height.0,
                "block_header"?: header.map(hex)
            },
            Self::Merkle { branch, height } => {
                object!(out, "block_height": height.0, "merkle": Siblings(branch), "pos": branch.position)
            }
            Self::Txid(txid) => txid_hex(txid).serialize(out),
            Self::TxidMerkle { txid, branch } => {
                object!(out, "tx_hash": txid_hex(txid), "merkle": Siblings(branch))
            }
            Self::Package { success, errors } if errors.is_empty() => object!(out, "success": success),
            Self::Package { success, errors } => object!(out, "success": success, "errors": errors),
            Self::Acceptances(acceptances) => acceptances.serialize(out),
            Self::FeeHistogram(bins) => out.collect_seq(bins.iter().map(|(rate, vsize)| (fee_rate(*rate), vsize))),
            Self::Recent(transactions) => out.collect_seq(transactions.iter().map(|recent| RecentShape(recent))),
            Self::Fees(Fees::One(None)) => out.serialize_i64(-1),
            Self::Fees(Fees::One(Some(fee))) => btc(*fee).serialize(out),
            Self::Fees(Fees::Mempool(MempoolFees { mempool_min, relay_min, increment })) => object!(
                out,
                "mempoolminfee": btc(*mempool_min),
                "minrelaytxfee": btc(*relay_min),
                "incrementalrelayfee": btc(*increment)
            ),
            Self::History { .. } | Self::Unspent { .. } | Self::Bytes(_) | Self::Tweaks { .. } => {
                unreachable!("`put` writes these")
            }
        }
    }
}

/// `[address, name, ["v1.6", "t50001", "s50002"]]`.
struct PeerShape<'a>(&'a Peer);

impl Serialize for PeerShape<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let Peer { host, address, protocol_max } = self.0;
        let ports = [('t', host.tcp_port), ('s', host.ssl_port)];
        let ports = ports.into_iter().filter_map(|(letter, port)| Some(format!("{letter}{}", port?)));
        let details: Vec<String> = [format!("v{protocol_max}")].into_iter().chain(ports).collect();
        (address, &host.name, details).serialize(out)
    }
}

impl Serialize for TipHeader {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        object!(out, "hex": hex(self.header), "height": self.height.0)
    }
}

/// In the mempool the block's hash is all zeros and the height 0.
impl Serialize for FirstUse {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let (Height(height), hash) = self.block.unwrap_or_else(|| (Height(0), BlockHash::all_zeros()));
        // Other servers of this method have `block_height` too.
        object!(
            out,
            "block_hash": reversed_hex(hash.to_byte_array()),
            "height": height,
            "block_height": height,
            "tx_hash": txid_hex(&self.txid)
        )
    }
}

/// Without a funding transaction there is no spender.
impl Serialize for OutpointStatus {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let spender = self.funding.and(self.spender);
        object! {
            out,
            "funder_height"?: self.funding.map(electrum_height),
            "spender_txhash"?: spender.map(|(txid, _)| txid_hex(&txid)),
            "spender_height"?: spender.map(|(_, confirmation)| electrum_height(confirmation))
        }
    }
}

/// Without `confirmed_height` in the mempool.
impl Serialize for Utxo {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let height = Some(electrum_height(self.funding)).filter(|_| matches!(self.funding, Confirmation::Confirmed(_)));
        object! {
            out,
            "scripthash": self.scripthash.to_string(),
            "value": self.value,
            "confirmed_height"?: height
        }
    }
}

struct RecentShape<'a>(&'a MempoolTransaction);

impl Serialize for RecentShape<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        object!(out, "txid": txid_hex(&self.0.txid), "fee": self.0.fee, "vsize": self.0.vsize)
    }
}

struct Siblings<'a>(&'a MerkleBranch);

impl Serialize for Siblings<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(self.0.siblings.iter().copied().map(reversed_hex))
    }
}

// === numbers and text ===

/// Writes a fee to the satoshi, never as `1e-5`, which some wallets' parsers do not read.
fn btc(fee: f64) -> Box<RawValue> {
    let mut text = String::new();
    write!(text, "{fee:.8}").expect("a string takes everything");
    number(text)
}

/// Writes a fee rate in as few digits as it has, and never with an exponent.
fn fee_rate(rate: f64) -> Box<RawValue> {
    number(rate.to_string())
}

fn number(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Writes JSON of Core in one line. Core writes one line; a proxy before it may not. No JSON string holds a bare line
/// break.
fn in_one_line<S: Serializer>(json: &RawValue, out: S) -> Result<S::Ok, S::Error> {
    if !json.get().contains(['\n', '\r']) {
        return json.serialize(out);
    }
    let joined = RawValue::from_string(json.get().replace(['\n', '\r'], " "));
    joined.map_err(S::Error::custom)?.serialize(out)
}
