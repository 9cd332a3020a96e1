//! From a request to the function that answers it, and to the lane it runs in.
//!
//! A request that only touches memory runs where it is read; one that reads the index runs on a thread
//! that may wait for the disk; one that asks the node waits apart, so that a node that hangs holds up
//! nobody who only reads.

use birdhouse_chain::Snapshot;

use crate::error::RpcError;
use crate::methods::{fees, headers, scripts, server, transactions};
use crate::request::Request;
use crate::response::Answer;
use crate::service::{Service, View};

/// Where a request runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Memory only.
    Here,
    /// The index.
    Read,
    /// The node.
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
            | Self::Features
            | Self::Banner
            | Self::DonationAddress
            | Self::Peers
            | Self::Header { .. }
            | Self::HeadersSubscribe
            | Self::Mempool(_)
            | Self::Unsubscribe(_)
            | Self::FeeHistogram => Lane::Here,
            Self::Headers { .. }
            | Self::Balance(_)
            | Self::History(_)
            | Self::Unspent(_)
            | Self::Subscribe(_)
            | Self::Transaction(_)
            | Self::Merkle { .. }
            | Self::TxidAt { .. }
            | Self::MerkleAt { .. } => Lane::Read,
            Self::EstimateFee { .. }
            | Self::RelayFee
            | Self::TransactionVerbose(_)
            | Self::Broadcast { .. }
            | Self::BroadcastPackage { .. }
            | Self::MempoolInfo => Lane::Ask,
        }
    }
}

/// Answers a request from memory and index.
pub(crate) fn read(service: &Service, view: &View, request: &Request) -> Step {
    match request {
        Request::Transaction(txid) => match snapshot(view).and_then(|at| transactions::raw(at, *txid)) {
            Ok(Some(answer)) => Step::Done(Ok(answer)),
            Ok(None) => Step::AskNode,
            Err(error) => Step::Done(Err(error)),
        },
        request if request.lane() == Lane::Ask => Step::AskNode,
        request => Step::Done(answer(service, view, request)),
    }
}

fn answer(service: &Service, view: &View, request: &Request) -> Result<Answer, RpcError> {
    match request {
        Request::Ping => Ok(Answer::Null),
        Request::Features => Ok(server::features(&service.settings, service.index.genesis_hash())),
        Request::Banner => Ok(Answer::Text(service.settings.banner.clone())),
        Request::DonationAddress => Ok(Answer::Text(service.settings.donation_address.clone())),
        Request::Peers => Ok(Answer::Nothing),
        Request::FeeHistogram => snapshot(view).map(|at| Answer::FeeHistogram(at.mempool().fee_histogram())),

        Request::Header { height, cp_height } => headers::header(snapshot(view)?, *height, *cp_height),
        Request::Headers { start, count, cp_height, form } => {
            headers::headers(snapshot(view)?, *start, *count, *cp_height, *form)
        }
        Request::HeadersSubscribe => headers::tip(snapshot(view)?).map(Answer::Tip),

        Request::Balance(scripthash) => scripts::balance(snapshot(view)?, scripthash),
        Request::History(scripthash) => scripts::history(snapshot(view)?, scripthash),
        Request::Mempool(scripthash) => snapshot(view).map(|at| scripts::mempool(at, scripthash)),
        Request::Unspent(scripthash) => scripts::unspent(snapshot(view)?, scripthash),
        Request::Subscribe(scripthash) => scripts::status(snapshot(view)?, scripthash),

        Request::Merkle { txid, height } => transactions::merkle(snapshot(view)?, *txid, *height),
        Request::TxidAt { height, position } => transactions::txid_at(snapshot(view)?, *height, *position),
        Request::MerkleAt { height, position } => transactions::merkle_at(snapshot(view)?, *height, *position),

        Request::Version(_) | Request::Unsubscribe(_) => unreachable!("the session answers these"),
        Request::Transaction(_)
        | Request::TransactionVerbose(_)
        | Request::EstimateFee { .. }
        | Request::RelayFee
        | Request::Broadcast { .. }
        | Request::BroadcastPackage { .. }
        | Request::MempoolInfo => unreachable!("`read` sends these to the node"),
    }
}

/// Answers a request for which [`read`] said [`Step::AskNode`].
pub(crate) fn ask(service: &Service, view: &View, request: &Request) -> Result<Answer, RpcError> {
    let node = service.node.as_deref();
    match request {
        Request::Transaction(txid) => transactions::unconfirmed(node, *txid),
        Request::TransactionVerbose(txid) => {
            transactions::verbose(snapshot(view)?, node.ok_or_else(RpcError::no_node)?, *txid)
        }
        Request::EstimateFee { blocks, mode } => fees::estimate(node.ok_or_else(RpcError::no_node)?, *blocks, *mode),
        Request::RelayFee => fees::relay(node.ok_or_else(RpcError::no_node)?),
        Request::Broadcast { raw } => transactions::broadcast(node.ok_or_else(RpcError::no_node)?, raw),
        Request::BroadcastPackage { raws, detail } => {
            transactions::broadcast_package(node.ok_or_else(RpcError::no_node)?, raws, *detail)
        }
        Request::MempoolInfo => fees::mempool_info(node.ok_or_else(RpcError::no_node)?),
        _ => unreachable!("only requests of the lane `Ask` come here"),
    }
}

fn snapshot(view: &View) -> Result<&Snapshot, RpcError> {
    view.snapshot.as_deref().map_err(|syncing| RpcError::from(*syncing))
}
