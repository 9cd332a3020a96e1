//! From a request to the function that answers it, and to the lane it runs in.
//!
//! A request that only touches memory runs where it is read; one that reads the index runs on a thread
//! that may wait for the disk; one that asks the node waits apart, so that a node that hangs holds up
//! nobody who only reads.

use birdhouse_chain::Snapshot;

use crate::error::RpcError;
use crate::methods::{broadcast, fees, headers, outpoints, scripts, server, transactions};
use crate::request::Request;
use crate::response::Answer;
use crate::service::{Service, View};

/// Where a request runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumCount, strum::EnumIter, strum::IntoStaticStr)]
pub(crate) enum Lane {
    /// Memory only.
    #[strum(to_string = "memory")]
    Here,
    /// The index.
    #[strum(to_string = "index")]
    Read,
    /// The node.
    #[strum(to_string = "node")]
    Ask,
}

/// What became of a request in a lane.
#[derive(Debug)]
pub(crate) enum Step {
    Done(Result<Answer, RpcError>),
    /// The index does not know; the node may.
    AskNode,
}

impl Request {
    /// The lane in which it starts.
    pub(crate) fn lane(&self) -> Lane {
        match self {
            Self::Version(_)
            | Self::Ping
            | Self::PaddedPing(_)
            | Self::Features(_)
            | Self::Banner
            | Self::DonationAddress
            | Self::Peers
            | Self::AddPeer(_)
            | Self::Header { .. }
            | Self::HeadersTip
            | Self::HeadersSubscribe
            | Self::HeadersUnsubscribe
            | Self::Mempool(_)
            | Self::Unsubscribe(_)
            | Self::OutpointUnsubscribe(_)
            | Self::FeeHistogram
            | Self::MempoolRecent => Lane::Here,
            Self::Headers { .. }
            | Self::HeaderOf(_)
            | Self::Balance(_)
            | Self::History { .. }
            | Self::Unspent(_)
            | Self::Subscribe(_)
            | Self::Status(_)
            | Self::FirstUse(_)
            | Self::OutpointSubscribe { .. }
            | Self::OutpointStatus(_)
            | Self::UtxoInfo(_)
            | Self::Transaction(_)
            | Self::TransactionHeight(_)
            | Self::TransactionBlock { .. }
            | Self::Merkle { .. }
            | Self::TxidAt { .. }
            | Self::MerkleAt { .. }
            // Mostly answered from what others asked a moment ago.
            | Self::EstimateFee { .. }
            | Self::RelayFee
            | Self::MempoolInfo => Lane::Read,
            Self::TransactionVerbose(_)
            | Self::Broadcast { .. }
            | Self::BroadcastPackage { .. }
            | Self::TestMempoolAccept { .. } => Lane::Ask,
        }
    }

    /// Whether the index answers it by looking up one script, or one transaction: what clients ask most.
    fn is_lookup(&self) -> bool {
        matches!(
            self,
            Self::Balance(_)
                | Self::History { .. }
                | Self::Unspent(_)
                | Self::Subscribe(_)
                | Self::Status(_)
                | Self::Transaction(_)
        )
    }
}

/// Answers a request from memory and index.
pub(crate) fn read(service: &Service, view: &View, request: &Request) -> Step {
    if request.lane() == Lane::Ask {
        return Step::AskNode;
    }
    if let Some(question) = fees::question(request) {
        return fees::known(&service.fees, view, question).map_or(Step::AskNode, |answer| Step::Done(Ok(answer)));
    }
    if request.is_lookup() {
        let step = snapshot(view).and_then(|at| Ok(look_up(at, request)?));
        return step.unwrap_or_else(|error| Step::Done(Err(error)));
    }
    Step::Done(answer(service, view, request))
}

/// The answer to a request that is read elsewhere, where it happens to be in memory.
pub(crate) fn known(view: &View, request: &Request) -> Option<Answer> {
    let at = view.snapshot.as_ref().ok()?;
    let scripthash = match request {
        Request::Subscribe(script) => &script.hash,
        Request::Status(scripthash) => scripthash,
        _ => return None,
    };
    at.known_status(scripthash).map(Answer::Status)
}

/// Answers a request for which a few rows of the index are enough. `None`: it is not one of these, or takes more.
pub(crate) fn read_short(view: &View, request: &Request) -> Option<Step> {
    let at = view.snapshot.as_ref().ok().filter(|_| request.is_lookup())?;
    at.short(|at| look_up(at, request)).unwrap_or_else(|error| Some(Step::Done(Err(error.into()))))
}

fn look_up(at: &Snapshot, request: &Request) -> birdhouse_chain::Result<Step> {
    let answer = match request {
        Request::Balance(scripthash) => scripts::balance(at, scripthash)?,
        Request::History { script, from, to } => scripts::history(at, *script, *from, *to)?,
        Request::Unspent(script) => scripts::unspent(at, *script)?,
        Request::Subscribe(script) => scripts::status(at, &script.hash)?,
        Request::Status(scripthash) => scripts::status(at, scripthash)?,
        Request::Transaction(txid) => match transactions::raw(at, *txid)? {
            Some(answer) => answer,
            None => return Ok(Step::AskNode),
        },
        _ => unreachable!("only requests that are lookups come here"),
    };
    Ok(Step::Done(Ok(answer)))
}

fn answer(service: &Service, view: &View, request: &Request) -> Result<Answer, RpcError> {
    match request {
        Request::Ping => Ok(Answer::Null),
        Request::PaddedPing(digits) => Ok(Answer::Pong(*digits)),
        Request::Features(form) => Ok(server::features(&service.settings, service.index.genesis_hash(), *form)),
        Request::Banner => Ok(Answer::Text(service.settings.banner.clone())),
        Request::DonationAddress => Ok(Answer::Text(service.settings.donation_address.clone())),
        Request::Peers => Ok(Answer::Peers(service.peers.list())),
        Request::AddPeer(features) => Ok(Answer::Bool(service.peers.announce(features, view.from))),

        Request::Header { height, cp_height } => headers::header(snapshot(view)?, *height, *cp_height),
        Request::Headers { start, count, cp_height, form } => {
            headers::headers(snapshot(view)?, *start, *count, *cp_height, *form)
        }
        Request::HeaderOf(name) => headers::header_of(snapshot(view)?, *name),
        Request::HeadersTip | Request::HeadersSubscribe => headers::tip(snapshot(view)?).map(Answer::Tip),

        Request::Mempool(script) => snapshot(view).map(|at| scripts::mempool(at, *script)),
        Request::FirstUse(scripthash) => scripts::first_use(snapshot(view)?, scripthash),

        Request::OutpointSubscribe { outpoint, .. } | Request::OutpointStatus(outpoint) => {
            outpoints::status(snapshot(view)?, *outpoint)
        }
        Request::UtxoInfo(outpoint) => outpoints::utxo(snapshot(view)?, *outpoint),

        Request::TransactionHeight(txid) => transactions::height(snapshot(view)?, *txid),
        Request::TransactionBlock { txid, detail } => transactions::block(snapshot(view)?, *txid, *detail),
        Request::Merkle { txid, height } => transactions::merkle(snapshot(view)?, *txid, *height),
        Request::TxidAt { height, position } => transactions::txid_at(snapshot(view)?, *height, *position),
        Request::MerkleAt { height, position } => transactions::merkle_at(snapshot(view)?, *height, *position),

        Request::FeeHistogram => snapshot(view).map(fees::histogram),
        Request::MempoolRecent => snapshot(view).map(fees::recent),

        Request::Version(_)
        | Request::HeadersUnsubscribe
        | Request::Unsubscribe(_)
        | Request::OutpointUnsubscribe(_) => unreachable!("the session answers these"),
        Request::Balance(_)
        | Request::History { .. }
        | Request::Unspent(_)
        | Request::Subscribe(_)
        | Request::Status(_)
        | Request::Transaction(_) => unreachable!("`read` looks these up"),
        Request::TransactionVerbose(_)
        | Request::EstimateFee { .. }
        | Request::RelayFee
        | Request::MempoolInfo
        | Request::Broadcast { .. }
        | Request::BroadcastPackage { .. }
        | Request::TestMempoolAccept { .. } => unreachable!("`read` sends these to the node"),
    }
}

/// Answers a request for which [`read`] said [`Step::AskNode`].
pub(crate) fn ask(service: &Service, view: &View, request: &Request) -> Result<Answer, RpcError> {
    if let Request::Transaction(txid) = request {
        return transactions::unseen(service.node.as_deref(), *txid);
    }
    let node = service.node.as_deref().ok_or_else(RpcError::no_node)?;
    if let Some(question) = fees::question(request) {
        return fees::ask(&service.fees, view, node, question);
    }
    match request {
        Request::TransactionVerbose(txid) => transactions::verbose(snapshot(view)?, node, *txid),
        Request::Broadcast { raw } => broadcast::transaction(node, raw),
        Request::BroadcastPackage { raws, detail } => broadcast::package(node, raws, *detail),
        Request::TestMempoolAccept { raws } => broadcast::test(node, raws),
        _ => unreachable!("only requests of the lane `Ask` come here"),
    }
}

fn snapshot(view: &View) -> Result<&Snapshot, RpcError> {
    view.snapshot.as_deref().map_err(|syncing| RpcError::from(*syncing))
}
