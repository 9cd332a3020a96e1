//! `blockchain.block.*` and `blockchain.headers.*`: headers and their proofs up to a checkpoint.
//!
//! A `cp_height` of 0 means no proof.

use birdhouse_chain::{EarlyHeaders, Height, MerkleBranch, Snapshot, Syncing};

use crate::error::RpcError;
use crate::limits::HEADERS_MAX;
use crate::protocol::{Answer, BlockName, HeadersForm, TipHeader};

/// The header chain that a request sees.
pub(crate) enum HeaderChain<'a> {
    Indexed(&'a Snapshot),
    /// The chain of the first build, and what its other requests are refused with.
    Early(&'a EarlyHeaders, Syncing),
}

impl HeaderChain<'_> {
    fn tip(&self) -> Height {
        match self {
            Self::Indexed(at) => at.tip().height,
            Self::Early(early, _) => early.tip().height,
        }
    }

    fn header(&self, height: Height) -> Option<[u8; 80]> {
        match self {
            Self::Indexed(at) => at.header(height),
            Self::Early(early, _) => early.header(height),
        }
    }

    fn headers(&self, start: Height, count: u32) -> Vec<[u8; 80]> {
        match self {
            Self::Indexed(at) => at.headers(start, count),
            Self::Early(early, _) => early.headers(start, count),
        }
    }
}

/// `blockchain.block.header`.
pub(crate) fn header(at: &HeaderChain<'_>, height: Height, cp_height: Height) -> Result<Answer, RpcError> {
    let header = at.header(height).ok_or_else(|| RpcError::bad_request(format!("height {height} out of range")))?;
    Ok(match proof(at, height, cp_height)? {
        None => Answer::Header(header),
        Some(branch) => Answer::ProvenHeader { header, branch },
    })
}

/// `blockchain.block.headers`. Near the tip the answer has fewer headers than the request; the proof is that of the
/// last one.
pub(crate) fn headers(
    at: &HeaderChain<'_>,
    start: Height,
    count: u32,
    cp_height: Height,
    form: HeadersForm,
) -> Result<Answer, RpcError> {
    let headers = at.headers(start, count.min(HEADERS_MAX));
    let sent = u32::try_from(headers.len()).expect("at most HEADERS_MAX headers were asked for");
    let branch = match sent.checked_sub(1) {
        None => None,
        Some(last) => proof(at, Height(start.0.saturating_add(last)), cp_height)?,
    };
    Ok(Answer::Headers { headers, form, branch })
}

/// `blockchain.header.get`.
pub(crate) fn header_of(at: &Snapshot, name: BlockName) -> Result<Answer, RpcError> {
    let height = match name {
        BlockName::Height(height) => Some(height),
        BlockName::Hash(hash) => at.block_height(&hash),
    };
    let found = height.and_then(|height| Some(TipHeader { header: at.header(height)?, height }));
    found.map(Answer::Tip).ok_or_else(|| RpcError::bad_request("no such block in the chain"))
}

/// `blockchain.headers.subscribe` and `blockchain.headers.get_tip`.
pub(crate) fn tip(at: &HeaderChain<'_>) -> Result<TipHeader, RpcError> {
    let height = at.tip();
    let header = at.header(height).ok_or_else(RpcError::internal)?;
    Ok(TipHeader { header, height })
}

fn proof(at: &HeaderChain<'_>, height: Height, cp_height: Height) -> Result<Option<MerkleBranch>, RpcError> {
    if cp_height.0 == 0 {
        return Ok(None);
    }
    let at = match at {
        HeaderChain::Indexed(at) => at,
        HeaderChain::Early(_, syncing) => return Err((*syncing).into()),
    };
    at.header_branch(height, cp_height).map(Some).ok_or_else(|| {
        let tip = at.tip().height;
        RpcError::bad_request(format!(
            "header height {height} must be <= cp_height {cp_height} which must be <= chain height {tip}"
        ))
    })
}
