//! Tweaks of silent payments block by block, in the JSON of
//! [BlindBit's oracle](https://github.com/setavenger/blindbit-oracle/blob/master/internal/server/README.md), version 2.
//! Everything is below `/blindbit`, which its clients have as the address of their server.
//!
//! Every answer names its block by the hash, too, so that a client notices a reorg.

use birdhouse_chain::{Height, TweakDetail, TweakRow, TweakRows};
use bitcoin::hex::DisplayHex as _;
use bitcoin::{BlockHash, Network, Txid};
use hyper::StatusCode;
use serde::Serialize;
use serde_json::json;

use super::Route;
use super::tweak_files::{covered, of, rows_of};
use crate::wire::{Answer, Cache, Each, Failure, Reply};
use crate::work::{Lane, Question};

/// Served bare alone.
pub(super) const ROUTES: &[Route] = &[
    Route::get("/blindbit/info", Lane::Memory, info, "The network and the last block with tweaks."),
    Route::get("/blindbit/tweaks/{height}", Lane::Blocks, tweaks, "The tweaks of a block."),
    Route::get(
        "/blindbit/compute-index/{height}",
        Lane::Blocks,
        compute_index,
        "The tweaks of a block, with txids and the first bytes of the keys that they may pay.",
    ),
];

/// Bytes of a key that stand for it.
const SHORT_KEY_BYTES: usize = 8;

/// An answer about a block.
#[derive(Serialize)]
struct OfBlock<I: Serialize> {
    block_identifier: BlockIdentifier,
    index: I,
}

#[derive(Serialize)]
struct BlockIdentifier {
    block_hash: BlockHash,
    block_height: u32,
}

#[derive(Serialize)]
struct ComputeItem {
    txid: Txid,
    tweak: String,
    outputs: Vec<String>,
}

fn info(question: &Question<'_>) -> Answer {
    let tweaks = of(question)?;
    // A chain that taproot has not reached is covered whole.
    let last = tweaks.len(question.at).saturating_sub(1).min(question.at.tip().height.0);
    let info = json!({
        "network": name(question.network()),
        "height": last,
        "tweaks_only": true,
        "tweaks_full_basic": true,
        "tweaks_full_with_dust_filter": false,
        "tweaks_cut_through_with_dust_filter": false,
    });
    Reply::json(question.room, &info, Cache::SHORT)
}

/// Returns the name of a network in `/info`.
fn name(network: Network) -> &'static str {
    match network {
        Network::Bitcoin => "main",
        Network::Testnet => "testnet",
        Network::Testnet4 => "testnet4",
        Network::Signet => "signet",
        Network::Regtest => "regtest",
    }
}

fn tweaks(question: &Question<'_>) -> Answer {
    let Some(block) = Block::named(question, TweakDetail::Scan)? else { return no_block(question) };
    block.reply(question, Each::of(block.rows().map(|row| row.tweak.to_lower_hex_string())))
}

fn compute_index(question: &Question<'_>) -> Answer {
    if of(question)?.detail() != TweakDetail::Full {
        return Err(Failure::unavailable("this server keeps no keys of outputs: its setting silent-payments is scan"));
    }
    let Some(block) = Block::named(question, TweakDetail::Full)? else { return no_block(question) };
    let txids = question.at.txids_of_block(block.height)?.unwrap_or_default();
    let items = block.rows().filter_map(|row| Some(item(&row, *txids.get(row.position as usize)?)));
    block.reply(question, Each::of(items))
}

/// Answers a height that is no number, or that has no block.
fn no_block(question: &Question<'_>) -> Answer {
    let reply = Reply::json(question.room, &json!({ "error": "there is no block at this height" }), Cache::SHORT)?;
    Ok(reply.with_status(StatusCode::BAD_REQUEST))
}

fn item(row: &TweakRow<'_>, txid: Txid) -> ComputeItem {
    let outputs = row.outputs.into_iter().flat_map(|outputs| outputs.iter());
    ComputeItem {
        txid,
        tweak: row.tweak.to_lower_hex_string(),
        outputs: outputs.map(|output| output.key[..SHORT_KEY_BYTES].to_lower_hex_string()).collect(),
    }
}

/// A block that the index covers.
struct Block {
    height: Height,
    hash: BlockHash,
    /// `None` below the first block that has any.
    rows: Option<TweakRows>,
}

impl Block {
    /// Returns the block that the path names; `None` if there is none.
    fn named(question: &Question<'_>, detail: TweakDetail) -> Result<Option<Self>, Failure> {
        let (at, tweaks) = (question.at, of(question)?);
        let Ok(height) = question.params.number("height").map(Height) else { return Ok(None) };
        let Some(hash) = at.block_hash(height) else { return Ok(None) };
        covered(question, tweaks, height.0 + 1)?;
        Ok(Some(Self { height, hash, rows: rows_of(tweaks, at, height, detail)? }))
    }

    fn rows(&self) -> impl Iterator<Item = TweakRow<'_>> {
        self.rows.iter().flat_map(TweakRows::iter)
    }

    fn reply(&self, question: &Question<'_>, index: impl Serialize) -> Answer {
        let block_identifier = BlockIdentifier { block_hash: self.hash, block_height: self.height.0 };
        let cache = Cache::by_depth(question.at, Some(self.height));
        Reply::json(question.room, &OfBlock { block_identifier, index }, cache)
    }
}
