//! Blocks over Core's REST interface, for nodes whose files are out of reach.
//!
//! The node serves `/rest/block` and `/rest/spenttxouts` (Core 30) straight from its disk. Parts of blocks come from
//! `/rest/blockpart` (Core 31), or else from the whole block. Spent outputs cannot be verified: REST carries no
//! checksum.
//! Source: Core's `rest.cpp`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use birdhouse_chain::source::{BlockMeta, SourceError, SourceResult};
use bitcoin::blockdata::constants::genesis_block;
use bitcoin::{BlockHash, Network};

use crate::error::{not_found, permanent, transient};
use crate::header_json::HeaderJson;
use crate::http::{Http, Reply};
use crate::remote::{self, Interface, RemoteSource};
use crate::rpc::Rpc;

/// Number of headers in one answer; Core's maximum.
const HEADERS_PER_PAGE: usize = 2000;
/// Largest answer, in bytes. Only memory limits spent outputs: 97 000 inputs can spend scripts of 10 000 bytes.
const ANSWER_BYTES_MAX: u64 = 1 << 30;

/// A node's REST interface as a source of blocks.
pub type RestSource = RemoteSource<Rest>;

/// A node's REST interface.
#[derive(Debug)]
pub struct Rest {
    http: Arc<Http>,
    network: Network,
    /// Set when the node is older than Core 31.
    lacks_blockpart: AtomicBool,
}

impl RestSource {
    /// Opens the REST interface of the node that `rpc` asks, over the same connections.
    ///
    /// # Errors
    /// The node lacks a required path, is of another network, or does not answer.
    pub fn open(rpc: &Rpc, network: Network) -> SourceResult<Self> {
        let address = rpc.address();
        let rest = Rest { http: Arc::clone(rpc.http()), network, lacks_blockpart: AtomicBool::new(false) };
        let genesis = genesis_block(network).block_hash();
        let reply = rest.http.get(&format!("/rest/headers/1/{genesis}.bin"), ANSWER_BYTES_MAX)?;
        match reply.status {
            200 if reply.body.is_empty() => Err(permanent(format!(
                "the node at {address} is not of the network {}; choose another --network or another node",
                network.to_core_arg()
            ))),
            200 => rest.prove_spent(genesis).map(|()| Self(rest)),
            404 => Err(permanent(format!("the node at {address} has no REST interface; set rest=1 in bitcoin.conf"))),
            _ => Err(rest.refused(&reply, "headers")),
        }
    }
}

impl Rest {
    fn prove_spent(&self, genesis: BlockHash) -> SourceResult<()> {
        self.spent(genesis).map(drop).map_err(|e| match e.kind {
            birdhouse_chain::source::SourceErrorKind::NotFound => permanent(format!(
                "the node at {} is too old: /rest/spenttxouts needs Bitcoin Core 30; upgrade the node",
                self.http.address()
            )),
            _ => e,
        })
    }

    fn bytes(&self, path: &str, what: &str) -> SourceResult<Vec<u8>> {
        let reply = self.http.get(path, ANSWER_BYTES_MAX)?;
        if reply.status == 200 { Ok(reply.body) } else { Err(self.refused(&reply, what)) }
    }

    fn refused(&self, reply: &Reply, what: &str) -> SourceError {
        let body = String::from_utf8_lossy(&reply.body[..reply.body.len().min(200)]).trim().to_owned();
        let message = format!("failed to get {what} over REST from {}: {body} ({})", self.http.address(), reply.status);
        match reply.status {
            404 if body.contains("pruned") => not_found(format!("{message}; the node has deleted this block")),
            404 => not_found(message),
            500 | 503 => transient(message),
            403 => permanent(format!("{message}; add the address of this server to rpcallowip")),
            _ => permanent(message),
        }
    }

    /// Returns headers of the active chain from block `hash` on, including it.
    fn headers(&self, hash: BlockHash) -> SourceResult<Vec<HeaderJson>> {
        let page = self.bytes(&format!("/rest/headers/{HEADERS_PER_PAGE}/{hash}.json"), "headers")?;
        serde_json::from_slice(&page)
            .map_err(|e| permanent(format!("failed to read headers over REST from {}: {e}", self.http.address())))
    }

    /// Returns the part; `None` when the node lacks `/rest/blockpart`.
    fn blockpart(&self, hash: BlockHash, offset: u32, len: u32) -> SourceResult<Option<Vec<u8>>> {
        if self.lacks_blockpart.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let path = format!("/rest/blockpart/{hash}.bin?offset={offset}&size={len}");
        let reply = self.http.get(&path, ANSWER_BYTES_MAX)?;
        match reply.status {
            200 if reply.body.len() == len as usize => Ok(Some(reply.body)),
            400 => Err(remote::outside(hash, offset, len)),
            // The answer about a missing block names it; the answer about an unknown path does not.
            404 if !String::from_utf8_lossy(&reply.body).contains(&hash.to_string()) => {
                self.lacks_blockpart.store(true, Ordering::Relaxed);
                Ok(None)
            }
            _ => Err(self.refused(&reply, "a part of a block")),
        }
    }
}

impl Interface for Rest {
    fn describe(&self) -> String {
        format!("REST interface at {} ({})", self.http.address(), self.network.to_core_arg())
    }

    fn chain(&self, tip: Option<BlockHash>) -> SourceResult<Vec<BlockMeta>> {
        let mut chain: Vec<BlockMeta> = Vec::new();
        let mut from = genesis_block(self.network).block_hash();
        loop {
            let page = self.headers(from)?;
            let len = page.len();
            if page.first().is_none_or(|first| first.hash != from) {
                return Err(remote::moved(from));
            }
            // A further page begins with the last header of the previous one.
            for header in page.into_iter().skip(usize::from(!chain.is_empty())) {
                let hash = header.hash;
                let previous = chain.last().map(|meta| meta.hash);
                let meta = header.into_meta(previous);
                chain.push(meta.ok_or_else(|| permanent(format!("the node sent an invalid header of block {hash}")))?);
                if tip == Some(hash) {
                    return Ok(chain);
                }
            }
            if len < HEADERS_PER_PAGE {
                return tip.map_or(Ok(chain), |tip| Err(remote::moved(tip)));
            }
            from = chain.last().map_or(from, |meta| meta.hash);
        }
    }

    fn raw_block(&self, hash: BlockHash) -> SourceResult<Vec<u8>> {
        self.bytes(&format!("/rest/block/{hash}.bin"), "a block")
    }

    fn spent(&self, hash: BlockHash) -> SourceResult<Vec<u8>> {
        self.bytes(&format!("/rest/spenttxouts/{hash}.bin"), "spent outputs")
    }

    fn part(&self, hash: BlockHash, offset: u32, len: u32) -> SourceResult<Vec<u8>> {
        match self.blockpart(hash, offset, len)? {
            Some(part) => Ok(part),
            None => remote::part_of(hash, &self.raw_block(hash)?, offset, len),
        }
    }
}
