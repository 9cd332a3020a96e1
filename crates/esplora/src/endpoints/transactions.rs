//! `/tx` and `/txs/outspends`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use birdhouse_chain::Snapshot;
use birdhouse_chain::source::BlockId;
use bitcoin::block::Header;
use bitcoin::hashes::Hash as _;
use bitcoin::hex::DisplayHex as _;
use bitcoin::{MerkleBlock, OutPoint, Txid, consensus};

use super::{Media, Route};
use crate::limits::{OUTSPENDS_OUTPUTS, OUTSPENDS_TXIDS};
use crate::wire::{
    Answer, Cache, Content, Each, Failure, Json, MerkleProofJson, OutspendJson, Reply, StatusJson, TransactionJson,
};
use crate::work::{Lane, Question};

/// Memory for each output of a transaction while the spenders are looked up: script hash, vout and spender, in a list
/// and in maps.
const SPENDER_BYTES: usize = 320;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/tx/{txid}", Lane::Index, transaction, "A transaction with the outputs that it spends."),
    Route::get("/tx/{txid}/status", Lane::Index, status, "The block of a transaction."),
    Route::get("/tx/{txid}/hex", Lane::Index, hex, "A transaction, in hexadecimal.").with(Media::Text),
    Route::get("/tx/{txid}/raw", Lane::Index, raw, "A transaction's bytes.").with(Media::Bytes),
    Route::get("/tx/{txid}/outspend/{vout}", Lane::Index, outspend, "The input that spends an output."),
    Route::get("/tx/{txid}/outspends", Lane::Index, outspends, "The inputs that spend a transaction's outputs."),
    Route::get("/tx/{txid}/merkle-proof", Lane::Index, merkle_proof, "The branch from a transaction to its block."),
    Route::get(
        "/tx/{txid}/merkleblock-proof",
        Lane::Index,
        merkleblock_proof,
        "The proof of a transaction as in Core's `gettxoutproof`, in hexadecimal.",
    )
    .with(Media::Text),
    Route::get(
        "/txs/outspends",
        Lane::Blocks,
        outspends_of_many,
        "The inputs that spend the outputs of up to 50 transactions, `?txids=` with commas between them.",
    ),
];

fn transaction(question: &Question<'_>) -> Answer {
    let found = question.at.resolved(question.params.txid("txid")?)?.ok_or_else(Failure::no_transaction)?;
    let cache = Cache::by_depth(question.at, found.block.map(|block| block.height)).of(&found);
    let _lent = question.room.lend(found.bytes())?;
    Reply::json(question.room, &TransactionJson::of(question.at, &found, question.network()), cache)
}

fn status(question: &Question<'_>) -> Answer {
    let block = block_of(question.at, question.params.txid("txid")?)?;
    Reply::json(question.room, &StatusJson::of(question.at, block), cache_of(question.at, block))
}

fn hex(question: &Question<'_>) -> Answer {
    let (bytes, cache) = bytes(question)?;
    question.room.take(2 * bytes.len())?;
    Reply::text(bytes.to_lower_hex_string(), cache)
}

fn raw(question: &Question<'_>) -> Answer {
    let (bytes, cache) = bytes(question)?;
    Reply::bytes(bytes, cache)
}

fn bytes(question: &Question<'_>) -> Result<(Vec<u8>, Cache), Failure> {
    let txid = question.params.txid("txid")?;
    let bytes = question.at.transaction_bytes(txid)?.ok_or_else(Failure::no_transaction)?;
    Ok((bytes, cache_of(question.at, block_of(question.at, txid)?)))
}

/// An output that does not exist is unspent, as in Esplora.
fn outspend(question: &Question<'_>) -> Answer {
    let outpoint = OutPoint { txid: question.params.txid("txid")?, vout: question.params.number("vout")? };
    let spender = question.at.spender_of(outpoint)?;
    let cache = cache_of(question.at, spender.and_then(|spender| spender.block));
    Reply::json(question.room, &OutspendJson::of(question.at, spender), cache)
}

fn outspends(question: &Question<'_>) -> Answer {
    let mut json = Json::new(question.room);
    let txid = question.params.txid("txid")?;
    let count = question.at.output_count(txid)?.ok_or_else(Failure::no_transaction)?;
    write_outspends(question.at, txid, count, &mut json)?;
    Ok(Reply::new(Content::Json(json.into_bytes()), Cache::SHORT))
}

/// Writes the inputs that spend the `count` outputs of a transaction.
pub(super) fn write_outspends(at: &Snapshot, txid: Txid, count: u32, json: &mut Json<'_>) -> Result<(), Failure> {
    let _lent = json.room().lend(count as usize * SPENDER_BYTES)?;
    let found = at.spenders_of(txid)?.ok_or_else(Failure::no_transaction)?;
    json.value(&Each::of(found.into_iter().map(|spender| OutspendJson::of(at, spender))))
}

/// One list for each txid of the query, as in mempool's electrs, also where one repeats; unknown transactions have an
/// empty list. Each transaction is looked up once.
fn outspends_of_many(question: &Question<'_>) -> Answer {
    let txids = question.params.query("txids").ok_or_else(|| Failure::bad_request("No txids specified"))?;
    let txids: Vec<&str> = txids.split(',').collect();
    if txids.len() > OUTSPENDS_TXIDS {
        return Err(Failure::bad_request("Too many txids requested"));
    }
    let counts = output_counts(question.at, &txids)?;
    let outputs: u64 = txids.iter().map(|txid| u64::from(counts[txid])).sum();
    if outputs > OUTSPENDS_OUTPUTS {
        return Err(Failure::bad_request("Too many outputs requested"));
    }
    let (mut json, mut written) = (Json::new(question.room), HashMap::new());
    for (at, text) in txids.iter().enumerate() {
        json.text(if at == 0 { "[" } else { "," })?;
        if let Some(known) = written.get(text) {
            json.again(Range::clone(known))?;
            continue;
        }
        let start = json.len();
        match text.parse() {
            Ok(txid) if counts[text] > 0 => write_outspends(question.at, txid, counts[text], &mut json)?,
            _ => json.text("[]")?,
        }
        written.insert(*text, start..json.len());
    }
    json.text("]")?;
    Ok(Reply::new(Content::Json(json.into_bytes()), Cache::SHORT))
}

/// The numbers of outputs of transactions; 0 of what is none.
fn output_counts<'a>(at: &Snapshot, txids: &[&'a str]) -> Result<HashMap<&'a str, u32>, Failure> {
    let mut counts = HashMap::new();
    for text in txids {
        if let Entry::Vacant(new) = counts.entry(*text) {
            new.insert(text.parse().map_or(Ok(None), |txid| at.output_count(txid))?.unwrap_or(0));
        }
    }
    Ok(counts)
}

fn merkle_proof(question: &Question<'_>) -> Answer {
    let (txid, block) = confirmed(question)?;
    let branch = question.at.merkle(txid, block.height)?.ok_or_else(Failure::internal)?;
    let merkle = branch.siblings.into_iter().map(|hash| Txid::from_byte_array(hash).to_string()).collect();
    let proof = MerkleProofJson { block_height: block.height.0, merkle, pos: branch.position };
    Reply::json(question.room, &proof, cache_of(question.at, Some(block)))
}

fn merkleblock_proof(question: &Question<'_>) -> Answer {
    let (txid, block) = confirmed(question)?;
    let header = question.at.header(block.height).ok_or_else(Failure::internal)?;
    let header: Header = consensus::deserialize(&header).map_err(|_| Failure::internal())?;
    let txids = question.at.txids_of_block(block.height)?.ok_or_else(Failure::internal)?;
    let proof = MerkleBlock::from_header_txids_with_predicate(&header, &txids, |other| *other == txid);
    Reply::text(consensus::encode::serialize_hex(&proof), cache_of(question.at, Some(block)))
}

fn confirmed(question: &Question<'_>) -> Result<(Txid, BlockId), Failure> {
    let txid = question.params.txid("txid")?;
    let block = question.at.transaction_block(txid)?;
    let block = block.ok_or_else(|| Failure::not_found("Transaction not found or is unconfirmed"))?;
    Ok((txid, block))
}

/// The block of a transaction; `None` for one in the mempool or nowhere.
fn block_of(at: &Snapshot, txid: Txid) -> Result<Option<BlockId>, Failure> {
    Ok(at.transaction_block(txid)?)
}

fn cache_of(at: &Snapshot, block: Option<BlockId>) -> Cache {
    Cache::by_depth(at, block.map(|block| block.height))
}
