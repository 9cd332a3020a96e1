//! Choice of the block source: the node's files, else REST, else RPC.

use std::path::Path;
use std::sync::Arc;

use birdhouse_chain::source::{BlockSource, SourceError, SourceErrorKind, SourceResult};
use bitcoin::Network;

use crate::blk::BlockFiles;
use crate::error::{permanent, transient};
use crate::rest::RestSource;
use crate::rpc::Rpc;
use crate::rpc_source::RpcSource;

/// The chosen source of blocks.
pub struct Chosen {
    /// The source.
    pub source: Box<dyn BlockSource>,
    /// Reasons why cheaper sources were skipped, each after the name of its source.
    pub skipped: Vec<String>,
}

/// Opens the first source that works, in the order files, REST, RPC; logs it and the reason for each skipped one.
///
/// Without `rpc` there is no running node and only files are tried.
///
/// # Errors
/// The reasons of all sources; transient when waiting can help one of them.
pub fn open_source(blocks_dir: &Path, network: Network, rpc: Option<&Arc<Rpc>>) -> SourceResult<Chosen> {
    let mut skipped = Vec::new();
    let opened = first_of(
        &mut skipped,
        [
            ("files", &|| Ok(Box::new(files(blocks_dir, network, rpc)?) as Box<dyn BlockSource>)),
            ("REST", &|| Ok(Box::new(RestSource::open(node(rpc)?, network)?))),
            ("RPC", &|| Ok(Box::new(RpcSource::open(Arc::clone(node(rpc)?), network)?))),
        ],
    );
    let reasons: Vec<String> = skipped.iter().map(|(name, error)| format!("{name}: {error}")).collect();
    match opened {
        Some(source) => {
            for (name, error) in &skipped {
                tracing::warn!(source = *name, reason = %error, "skipped a cheaper block source");
            }
            Ok(Chosen { source, skipped: reasons })
        }
        None if rpc.is_none() => Err(skipped.swap_remove(0).1),
        None if skipped.iter().any(|(_, error)| error.kind == SourceErrorKind::Transient) => {
            Err(transient(reasons.join("; ")))
        }
        None => Err(permanent(reasons.join("; "))),
    }
}

type Opener<'a> = &'a dyn Fn() -> SourceResult<Box<dyn BlockSource>>;

fn first_of<'a>(
    skipped: &mut Vec<(&'a str, SourceError)>,
    openers: [(&'a str, Opener<'_>); 3],
) -> Option<Box<dyn BlockSource>> {
    for (name, open) in openers {
        match open() {
            Ok(source) => return Some(source),
            Err(error) => skipped.push((name, error)),
        }
    }
    None
}

fn files(blocks_dir: &Path, network: Network, rpc: Option<&Arc<Rpc>>) -> SourceResult<BlockFiles> {
    let files = BlockFiles::open(blocks_dir, network)?;
    Ok(match rpc {
        Some(rpc) => files.with_node(Arc::new(RpcSource::behind(Arc::clone(rpc), network))),
        None => files,
    })
}

fn node(rpc: Option<&Arc<Rpc>>) -> SourceResult<&Arc<Rpc>> {
    rpc.ok_or_else(|| permanent("no running node is configured"))
}
