//! Headers, filter headers and filters in files of fixed length, as [block-dn](https://github.com/guggero/block-dn)
//! has them: caches in between may keep a whole file for ever. Everything is below `/block-dn`, because `/block` is
//! Esplora's. `tweak_files` has files of the same server for silent payments.

use std::ops::Range;
use std::sync::Arc;

use birdhouse_chain::{FilterHeaders, Height, Snapshot, put_compact_size};
use bitcoin::Network;
use bitcoin::hex::DisplayHex as _;
use serde_json::json;

use super::blocks::bytes_of;
use super::{Media, Route};
use crate::limits::{FILTERS_A_FILE, HEADERS_A_FILE, TWEAKS_A_FILE};
use crate::wire::{Answer, Cache, Content, Failure, Reply, Rows};
use crate::work::{Lane, Question};

/// Not in the list of endpoints: they are served if the operator has filters computed.
pub(super) const ROUTES: &[Route] = &[
    Route::get("/block-dn/status", Lane::Memory, status, "The state of the chain and of the filters."),
    Route::get("/block-dn/headers/{start}", Lane::Memory, headers, "Headers from a multiple of 100 000.")
        .with(Media::Bytes),
    Route::get("/block-dn/headers/import/{end}", Lane::Memory, headers_import, "Headers below a height, for import.")
        .with(Media::Bytes),
    Route::get("/block-dn/filter-headers/{start}", Lane::Memory, filter_headers, "Filter headers, as headers.")
        .with(Media::Bytes),
    Route::get(
        "/block-dn/filter-headers/import/{end}",
        Lane::Memory,
        filter_headers_import,
        "Filter headers below a height, for import.",
    )
    .with(Media::Bytes),
    Route::get("/block-dn/filters/{start}", Lane::Blocks, filters, "Basic filters from a multiple of 2000.")
        .with(Media::Bytes),
    Route::get("/block-dn/filters/single/{height}", Lane::Blocks, filter, "The basic filter of one block.")
        .with(Media::Bytes),
    Route::get("/block-dn/block/{hash}", Lane::Index, block, "A block's bytes.").with(Media::Bytes),
];

/// Seconds for which a file that is complete may be cached: a year.
const COMPLETE_S: u32 = 31_536_000;
/// Seconds for which another answer may be cached.
const GROWING_S: u32 = 60;
/// Blocks on top of a file that make it complete: deeper reorgs are rarer than caches are emptied.
const FINAL_BLOCKS: u32 = 10;
/// Headers that one piece of an answer has.
const PIECE_HEADERS: u32 = 2000;
/// Version of the files for import.
const IMPORT_VERSION: u8 = 0;

/// Records of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Records {
    Headers,
    FilterHeaders,
}

fn status(question: &Question<'_>) -> Answer {
    let (at, settings) = (question.at, &question.service.settings);
    let tip = at.tip();
    let mut synced = true;
    let (mut last, mut header, mut last_tweaks) = (None, None, None);
    if let Some(known) = &settings.filters {
        last = known.len(at).checked_sub(1).map(Height);
        header = last.map(|last| known.read(at, last..Height(last.0 + 1))).transpose()?.flatten();
        synced &= last == Some(tip.height);
    }
    if let Some(tweaks) = &settings.tweaks {
        // A chain that taproot has not reached is covered whole.
        let covered = tweaks.len(at).saturating_sub(1).min(tip.height.0);
        synced &= covered == tip.height.0;
        last_tweaks = Some(covered);
    }
    let genesis = at.block_hash(Height(0)).ok_or_else(Failure::no_block)?;
    let status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "chain_genesis_hash": genesis.to_string(),
        "chain_name": chain_name(settings.network),
        "best_block_height": tip.height.0,
        "best_block_hash": tip.hash.to_string(),
        "best_filter_height": last.map(|last| last.0),
        "best_filter_header": header.map(shown),
        "best_sptweak_height": last_tweaks,
        "all_files_synced": synced,
        "entries_per_header_file": HEADERS_A_FILE,
        "entries_per_filter_file": FILTERS_A_FILE,
        "entries_per_sptweak_file": TWEAKS_A_FILE,
    });
    Reply::json(question.room, &status, Cache::seconds(GROWING_S))
}

/// Returns a hash as it is shown: reversed.
fn shown(mut hash: Vec<u8>) -> String {
    hash.reverse();
    hash.to_lower_hex_string()
}

/// Returns the name that block-dn's clients know.
fn chain_name(network: Network) -> &'static str {
    match network {
        Network::Testnet => "testnet3",
        Network::Testnet4 => "testnet4",
        Network::Signet => "signet",
        Network::Regtest => "regtest",
        Network::Bitcoin => "mainnet",
    }
}

fn headers(question: &Question<'_>) -> Answer {
    let file = file(question, HEADERS_A_FILE, question.at.tip().height.0 + 1)?;
    records(question, Records::Headers, file, Vec::new())
}

fn filter_headers(question: &Question<'_>) -> Answer {
    let file = file(question, HEADERS_A_FILE, of(question)?.len(question.at))?;
    records(question, Records::FilterHeaders, file, Vec::new())
}

fn headers_import(question: &Question<'_>) -> Answer {
    import(question, Records::Headers)
}

fn filter_headers_import(question: &Question<'_>) -> Answer {
    import(question, Records::FilterHeaders)
}

/// Records of all heights below `end`, or of the common ones for `latest`, behind ten bytes: magic of the network,
/// version, kind, and the first height.
///
/// Clients refuse a pair of files that end at different heights. So `latest` is one height for both: that up to which
/// headers and filter headers are there. No cache keeps it, for it would keep each file for a time of its own.
fn import(question: &Question<'_>, records_of: Records) -> Answer {
    let (headers, filter_headers) = (question.at.tip().height.0 + 1, of(question)?.len(question.at));
    if question.params.text("end") == "latest" {
        let end = headers.min(filter_headers);
        if end == 0 {
            return Err(Failure::unavailable("no filter header is computed yet"));
        }
        let reply = records(question, records_of, 0..end, import_head(question, records_of))?;
        return Ok(Reply { cache: Cache::NoStore, ..reply });
    }
    let known = if records_of == Records::Headers { headers } else { filter_headers };
    let end = question.params.number("end")?;
    if end == 0 || end > known {
        return Err(Failure::bad_request(format!("the end is a height from 1 to {known}, exclusive, or latest")));
    }
    records(question, records_of, 0..end, import_head(question, records_of))
}

fn import_head(question: &Question<'_>, records_of: Records) -> Vec<u8> {
    let mut head = question.service.settings.network.magic().to_bytes().to_vec();
    head.extend([IMPORT_VERSION, u8::from(records_of == Records::FilterHeaders), 0, 0, 0, 0]);
    head
}

/// Returns the heights of the file that the path names, of which there are `known` records.
pub(super) fn file(question: &Question<'_>, entries: u32, known: u32) -> Result<Range<u32>, Failure> {
    let start: u32 = question.params.number("start")?;
    if !start.is_multiple_of(entries) {
        return Err(Failure::bad_request(format!("the start is 0 or a multiple of {entries}")));
    }
    if start >= known {
        return Err(Failure::bad_request(format!("the start is beyond the last height, {}", known.saturating_sub(1))));
    }
    Ok(start..known.min(start.saturating_add(entries)))
}

/// Caches keep what no probable reorg changes.
pub(super) fn cache(at: &Snapshot, heights: &Range<u32>, entries: u32) -> Cache {
    let is_complete = heights.end.is_multiple_of(entries) && heights.end + FINAL_BLOCKS <= at.tip().height.0 + 1;
    Cache::seconds(if is_complete { COMPLETE_S } else { GROWING_S })
}

fn records(question: &Question<'_>, records_of: Records, heights: Range<u32>, head: Vec<u8>) -> Answer {
    let cache = cache(question.at, &heights, HEADERS_A_FILE);
    let (known, mut head, mut next) = (Arc::clone(of(question)?), Some(head), heights.start);
    let pieces = move |at: &Snapshot| {
        if next >= heights.end {
            return Ok(None);
        }
        let end = heights.end.min(next + PIECE_HEADERS);
        let mut piece = head.take().unwrap_or_default();
        match records_of {
            Records::Headers => piece.extend(at.headers(Height(next), end - next).as_flattened()),
            // Of a snapshot that has left the chain meanwhile, the rest is not known any more.
            Records::FilterHeaders => match known.read(at, Height(next)..Height(end))? {
                Some(records) => piece.extend(records),
                None => return Err(birdhouse_chain::Error::NoBlocks),
            },
        }
        next = end;
        Ok(Some(piece))
    };
    Ok(Reply::new(Content::Pieces(Rows::of(pieces)), cache))
}

/// Filters of a file, each behind its length, computed while the client reads them.
fn filters(question: &Question<'_>) -> Answer {
    let heights = file(question, FILTERS_A_FILE, of(question)?.len(question.at))?;
    // Most that a pruned node lacks is refused before anything is sent: it deletes the oldest blocks.
    if question.at.is_deleted(Height(heights.start))? {
        return Err(deleted_block());
    }
    let cache = cache(question.at, &heights, FILTERS_A_FILE);
    let mut heights = heights.map(Height);
    let pieces = move |at: &Snapshot| {
        let Some(height) = heights.clone().next() else { return Ok(None) };
        let filter = at.basic_filter(height)?.ok_or(birdhouse_chain::Error::NoBlocks)?;
        heights.next();
        let mut piece = Vec::with_capacity(filter.len() + 9);
        put_compact_size(&mut piece, filter.len() as u64);
        piece.extend(filter);
        Ok(Some(piece))
    };
    Ok(Reply::new(Content::Pieces(Rows::of(pieces)), cache))
}

fn filter(question: &Question<'_>) -> Answer {
    let height = Height(question.params.number("height")?);
    let filter = match question.at.basic_filter(height) {
        Err(error) if error.is_removed() => return Err(deleted_block()),
        filter => filter?.ok_or_else(Failure::no_block)?,
    };
    let heights = height.0..height.0 + 1;
    Reply::bytes(filter, cache(question.at, &heights, 1))
}

/// The refusal of a filter, with the status that Core's REST has for a block that is pruned.
fn deleted_block() -> Failure {
    Failure::not_found("the node has deleted the block of this filter (it is pruned), and no peer sends what it spends")
}

fn block(question: &Question<'_>) -> Answer {
    let height = question.at.block_height(&question.params.block_hash()?).ok_or_else(Failure::no_block)?;
    let block = question.at.block_summary(height).ok_or_else(Failure::no_block)?;
    Ok(Reply::new(bytes_of(question, height, block.bytes)?, Cache::seconds(COMPLETE_S)))
}

/// Returns the filter headers.
fn of<'a>(question: &Question<'a>) -> Result<&'a Arc<FilterHeaders>, Failure> {
    let known = question.service.settings.filters.as_ref();
    known.ok_or_else(|| Failure::not_found("this server computes no block filters"))
}
