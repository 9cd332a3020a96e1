//! From a request to the function that answers it.
//!
//! A request of the memory lane runs where it is read; one that reads the index runs on a thread that may wait for the
//! disk; one that asks the node waits separately, so that a node that hangs delays nobody who only reads.

use std::panic::{AssertUnwindSafe, catch_unwind};

use birdhouse_chain::source::BlockPart;
use birdhouse_chain::{KnownStatus, Snapshot, Tweaks};
use bitcoin::Txid;
use tracing::error;

use crate::error::RpcError;
use crate::methods::{HeaderChain, broadcast, fees, headers, outpoints, scripts, transactions, tweaks};
use crate::protocol::{Answer, Offer, Offers};
use crate::request::{FeeQuery, IndexRequest, Lane, Lookup, MemoryRequest, NodeRequest, Query, Read};
use crate::service::{Service, View};
use crate::silentpayments::Access;

/// Outcome of a read.
#[derive(Debug)]
pub(super) enum Step {
    Done(Result<Answer, RpcError>),
    /// The index does not know the answer; the node may.
    Ask(NodeCall),
    /// The answer needs parts of blocks that the node has removed; its peers have them.
    Fetch(Vec<BlockPart>),
}

impl Step {
    /// Returns the step after a failure.
    fn after(error: RpcError) -> Self {
        if error.removed.is_empty() { Self::Done(Err(error)) } else { Self::Fetch(error.removed) }
    }
}

/// A call of the node, for a request of its own lane or for one that the index could not answer.
#[derive(Debug)]
pub(super) enum NodeCall {
    Request(NodeRequest),
    /// `blockchain.transaction.get` of a transaction that the index does not know.
    Transaction(Txid),
    /// Fees that are not cached.
    Fees(FeeQuery),
}

impl NodeCall {
    /// Returns the lane that the request counts for: the one in which it began.
    pub(super) fn lane(&self) -> Lane {
        match self {
            Self::Request(_) => Lane::Node,
            Self::Transaction(_) | Self::Fees(_) => Lane::Index,
        }
    }

    /// Returns the bytes that the request has sent for the node.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Request(NodeRequest::Broadcast { raw }) => raw.len(),
            Self::Request(NodeRequest::BroadcastPackage { raws, .. } | NodeRequest::TestMempoolAccept { raws }) => {
                raws.iter().map(String::len).sum()
            }
            Self::Request(NodeRequest::TransactionVerbose(_)) | Self::Transaction(_) | Self::Fees(_) => 0,
        }
    }
}

// === entry points: a panic in them is caught ===

/// Answers a request from memory or from the index.
pub(super) fn read(service: &Service, view: &View, read: &Read) -> Step {
    let step = catch(|| match read {
        Read::Memory(request) => memory(service, view, request).map(|answer| Step::Done(Ok(answer))),
        Read::Index(request) => index(service, view, request),
    });
    step.unwrap_or_else(Step::after)
}

/// Answers a lookup for which a few rows of the index are enough; returns `None` if it takes more.
pub(super) fn read_inline(view: &View, lookup: &Lookup) -> Option<Step> {
    let step = catch(|| Ok(snapshot(view)?.within_budget(|at| look_up(at, lookup, view.entries_max))?));
    step.unwrap_or_else(|error| Some(Step::after(error)))
}

/// Calls the node.
pub(super) fn ask(service: &Service, view: &View, call: &NodeCall) -> Step {
    catch(|| node(service, view, call).map(|answer| Step::Done(Ok(answer)))).unwrap_or_else(Step::after)
}

/// Returns the answer to a request where it is short and memory holds it, always or this time.
pub(super) fn known(service: &Service, view: &View, read: &Read) -> Option<Result<Answer, RpcError>> {
    let scripthash = match read {
        Read::Memory(request) => return request.is_short().then(|| catch(|| memory(service, view, request))),
        Read::Index(IndexRequest::Lookup(Lookup::Subscribe(script))) => &script.hash,
        Read::Index(IndexRequest::Lookup(Lookup::Status(scripthash))) => scripthash,
        Read::Index(_) => return None,
    };
    match view.snapshot.as_ref().ok()?.known_status(scripthash) {
        KnownStatus::Known(status) => Some(Ok(Answer::Status(status))),
        KnownStatus::Unknown => None,
    }
}

/// Runs `work` and turns a panic, which is a fault of ours, into an internal error. The panic hook and this function
/// log it; the client receives no detail.
fn catch<T>(work: impl FnOnce() -> Result<T, RpcError>) -> Result<T, RpcError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        error!("request panicked");
        Err(RpcError::internal())
    })
}

// === lanes ===

fn memory(service: &Service, view: &View, request: &MemoryRequest) -> Result<Answer, RpcError> {
    match request {
        MemoryRequest::Ping => Ok(Answer::Null),
        MemoryRequest::PaddedPing(digits) => Ok(Answer::Pong(*digits)),
        MemoryRequest::Features(form) => {
            let tweaks = if tweaks::tweaks(service).is_some() { Offer::Made } else { Offer::Withheld };
            let offers = Offers { silent_payments: silent_payments(service, view), tweaks };
            Ok(Answer::features(&service.settings, service.index.genesis_hash(), *form, offers))
        }
        MemoryRequest::Banner => Ok(Answer::Text(service.banner())),
        MemoryRequest::DonationAddress => Ok(Answer::Text(service.settings.donation_address.clone())),
        MemoryRequest::Peers => Ok(Answer::Peers(service.peers.list())),
        MemoryRequest::AddPeer(features) => Ok(Answer::Bool(service.peers.announce(features, view.from))),

        MemoryRequest::Header { height, cp_height } => headers::header(&headers_of(view)?, *height, *cp_height),
        MemoryRequest::HeadersTip | MemoryRequest::HeadersSubscribe => {
            headers::tip(&headers_of(view)?).map(Answer::Tip)
        }
        MemoryRequest::Mempool(script) => snapshot(view).map(|at| scripts::mempool(at, *script)),
        MemoryRequest::FeeHistogram => snapshot(view).map(fees::histogram),
        MemoryRequest::MempoolRecent => snapshot(view).map(fees::recent),
    }
}

/// Returns whether the client may subscribe to silent payments.
fn silent_payments(service: &Service, view: &View) -> Offer {
    let has_index = || Tweaks::among(service.index.derived()).is_some();
    if view.access == Access::Open && has_index() { Offer::Made } else { Offer::Withheld }
}

fn index(service: &Service, view: &View, request: &IndexRequest) -> Result<Step, RpcError> {
    match request {
        IndexRequest::Lookup(lookup) => Ok(look_up(snapshot(view)?, lookup, view.entries_max)?),
        IndexRequest::Query(query) => answer(service, view, query).map(|answer| Step::Done(Ok(answer))),
        IndexRequest::Fees(query) => Ok(match fees::known(&service.fees, view, *query) {
            Some(answer) => Step::Done(Ok(answer)),
            None => Step::Ask(NodeCall::Fees(*query)),
        }),
    }
}

fn look_up(at: &Snapshot, lookup: &Lookup, entries_max: usize) -> birdhouse_chain::Result<Step> {
    let answer = match lookup {
        Lookup::Balance(scripthash) => scripts::balance(at, scripthash)?,
        Lookup::History { script, from, to } => scripts::history(at.up_to(entries_max), at, *script, *from, *to)?,
        Lookup::Unspent(script) => scripts::unspent(at.up_to(entries_max), *script)?,
        Lookup::Subscribe(script) => scripts::status(at, &script.hash)?,
        Lookup::Status(scripthash) => scripts::status(at, scripthash)?,
        Lookup::Transaction(txid) => match transactions::raw(at, *txid)? {
            Some(answer) => answer,
            None => return Ok(Step::Ask(NodeCall::Transaction(*txid))),
        },
    };
    Ok(Step::Done(Ok(answer)))
}

fn answer(service: &Service, view: &View, query: &Query) -> Result<Answer, RpcError> {
    let at = || snapshot(view);
    match query {
        Query::Headers { start, count, cp_height, form } => {
            headers::headers(&headers_of(view)?, *start, *count, *cp_height, *form)
        }
        Query::HeaderOf(name) => headers::header_of(at()?, *name),
        Query::FirstUse(scripthash) => scripts::first_use(at()?, scripthash),
        Query::OutpointSubscribe { outpoint, .. } | Query::OutpointStatus(outpoint) => {
            outpoints::status(at()?, *outpoint)
        }
        Query::UtxoInfo(outpoint) => outpoints::utxo(at()?, *outpoint),
        Query::TweaksSubscribe(range) => tweaks::subscribe(service, at()?, *range, view.tweak_bytes_max),
        Query::TweaksGet(outpoint) => tweaks::get(at()?, *outpoint),
        Query::TransactionHeight(txid) => transactions::height(at()?, *txid),
        Query::TransactionBlock { txid, detail } => transactions::block(at()?, *txid, *detail),
        Query::Merkle { txid, height } => transactions::merkle(at()?, *txid, *height),
        Query::TxidAt { height, position } => transactions::txid_at(at()?, *height, *position),
        Query::MerkleAt { height, position } => transactions::merkle_at(at()?, *height, *position),
    }
}

fn node(service: &Service, view: &View, call: &NodeCall) -> Result<Answer, RpcError> {
    let node = || service.node.as_deref().ok_or_else(RpcError::no_node);
    match call {
        NodeCall::Transaction(txid) => transactions::unseen(&service.index, service.node.as_deref(), *txid),
        NodeCall::Fees(query) => fees::ask(&service.fees, view, node()?, *query),
        NodeCall::Request(request) => match request {
            NodeRequest::TransactionVerbose(txid) => {
                let node = node()?;
                transactions::verbose(&service.index, snapshot(view)?, node, *txid)
            }
            NodeRequest::Broadcast { raw } => broadcast::transaction(&service.index, node()?, raw),
            NodeRequest::BroadcastPackage { raws, detail } => {
                broadcast::package(&service.index, node()?, raws, *detail)
            }
            NodeRequest::TestMempoolAccept { raws } => broadcast::test(node()?, raws),
        },
    }
}

/// Returns the header chain, of the snapshot or of the build under way.
fn headers_of(view: &View) -> Result<HeaderChain<'_>, RpcError> {
    match (&view.snapshot, &view.early) {
        (Ok(at), _) => Ok(HeaderChain::Indexed(at)),
        (Err(syncing), Some(early)) => Ok(HeaderChain::Early(early, *syncing)),
        (Err(syncing), None) => Err((*syncing).into()),
    }
}

fn snapshot(view: &View) -> Result<&Snapshot, RpcError> {
    view.snapshot.as_deref().map_err(|syncing| RpcError::from(*syncing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_internal_error() {
        let result: Result<(), _> = catch(|| panic!("on purpose"));
        assert_eq!(result, Err(RpcError::internal()));
    }
}
