//! Results of requests as values, in the domain's terms. [`crate::response`] writes them as JSON.

use std::net::IpAddr;
use std::sync::Arc;

use birdhouse_chain::{
    Balance, Confirmation, Height, HistoryEntry, MempoolTransaction, MerkleBranch, ScriptHash, UnconfirmedEntry,
    Unspent,
};
use bitcoin::{BlockHash, Txid};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::protocol::script::Naming;
use crate::protocol::tweaks::TweakStream;
use crate::protocol::version::Version;
use crate::settings::{Host, Settings};

/// Electrum's status of a script: `None` without history.
pub(crate) type Status = Option<[u8; 32]>;

/// The result of a request.
#[derive(Debug)]
pub(crate) enum Answer {
    Null,
    Bool(bool),
    Text(String),
    Peers(Vec<Peer>),
    /// Number of digits that the ping asked for.
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
        silent_payments: Offer,
        tweaks: Offer,
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
    /// JSON that Core wrote, with its numbers unchanged.
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
    Fees(Fees),
    /// A subscription to silent payments, as its notifications repeat it.
    Silent(Box<RawValue>),
    /// The first block of tweaks, as JSON, and what follows it.
    Tweaks {
        json: String,
        stream: TweakStream,
    },
    /// An output that a wallet has found by a tweak.
    TweakOutput {
        /// Satoshis.
        value: u64,
        is_spent: bool,
    },
}

impl Answer {
    /// The server's description of itself: `server.features`.
    pub(crate) fn features(settings: &Settings, genesis_hash: BlockHash, form: FeaturesForm, offers: Offers) -> Self {
        let Offers { silent_payments, tweaks } = offers;
        let (hosts, server_version) = (settings.hosts.clone(), settings.server_version.clone());
        Self::Features { hosts, genesis_hash, server_version, form, silent_payments, tweaks }
    }
}

/// Offer of a part of the protocol to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    Made,
    /// The server or the listener does not have it, or the connection is not safe enough for it.
    Withheld,
}

/// Offers of a server to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offers {
    /// Subscriptions by scan key.
    pub(crate) silent_payments: Offer,
    /// Tweaks for those who scan by themselves.
    pub(crate) tweaks: Offer,
}

impl Offers {
    /// No offer.
    pub(crate) const NONE: Self = Self { silent_payments: Offer::Withheld, tweaks: Offer::Withheld };
}

/// Members of the answer to `server.features`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FeaturesForm {
    /// Until 1.7.
    WithHashFunction,
    /// From 1.7.
    WithoutHashFunction,
}

/// JSON form of a run of headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HeadersForm {
    /// One string `hex`, until 1.6.
    Joined,
    /// A list `headers`, from 1.6.
    List,
}

/// Another server, found to work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) host: Host,
    pub(crate) address: IpAddr,
    /// Newest protocol version that it speaks.
    pub(crate) protocol_max: String,
}

/// A header in the form of `blockchain.headers.subscribe`: exactly these two keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TipHeader {
    pub(crate) header: [u8; 80],
    pub(crate) height: Height,
}

/// The first transaction of a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FirstUse {
    pub(crate) txid: Txid,
    /// Its block; `None` in the mempool.
    pub(crate) block: Option<(Height, BlockHash)>,
}

/// Status of an outpoint, as clients receive it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OutpointStatus {
    /// Confirmation of the funding transaction, if there is one.
    pub(crate) funding: Option<Confirmation>,
    /// The spending transaction and its confirmation.
    pub(crate) spender: Option<(Txid, Confirmation)>,
}

/// An outpoint at one snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutpointState {
    pub(crate) status: OutpointStatus,
    pub(crate) output: Output,
    pub(crate) prospect: Prospect,
}

/// The output of an outpoint. Its transaction is named by its txid, so only [`Output::Unseen`] can become another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    /// Its transaction was never seen.
    Unseen,
    /// It pays this script.
    Of(ScriptHash),
    /// It can never be spent, and the index has no such outputs.
    Unspendable,
}

/// Possible future of an outpoint's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prospect {
    /// The status can still change.
    Open,
    /// Nobody follows it any more: its last transaction is buried deep, or the funding one has no such output.
    Final,
}

/// An output that nothing spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Utxo {
    pub(crate) scripthash: ScriptHash,
    /// Satoshis.
    pub(crate) value: u64,
    pub(crate) funding: Confirmation,
}

/// Core's reason for refusing one transaction of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct PackageError {
    pub(crate) txid: String,
    pub(crate) error: String,
}

/// Core's verdict on a transaction, from `testmempoolaccept`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Acceptance {
    pub(crate) txid: String,
    pub(crate) wtxid: String,
    /// Missing where the failure of another transaction ended the test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) allowed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
}

/// Fees that the node knows, BTC/kvB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Fees {
    /// `None` when the node has no estimate.
    One(Option<f64>),
    Mempool(MempoolFees),
}

/// Fee rates that the node requires, BTC/kvB.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MempoolFees {
    /// To enter the mempool now.
    pub(crate) mempool_min: f64,
    /// To be relayed at all.
    pub(crate) relay_min: f64,
    /// Above the transaction that is replaced.
    pub(crate) increment: f64,
}

/// Returns the height that the protocol gives a transaction: 0 or -1 in the mempool.
pub(crate) fn electrum_height(confirmation: Confirmation) -> i64 {
    match confirmation {
        Confirmation::Confirmed(height) => height.0.into(),
        Confirmation::Unconfirmed { has_unconfirmed_inputs: false } => 0,
        Confirmation::Unconfirmed { has_unconfirmed_inputs: true } => -1,
    }
}
