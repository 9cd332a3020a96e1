//! `/tx` and `/txs/outspends`.

use birdhouse_chain::Snapshot;
use birdhouse_chain::source::BlockId;
use bitcoin::block::Header;
use bitcoin::hashes::Hash as _;
use bitcoin::hex::DisplayHex as _;
use bitcoin::{MerkleBlock, OutPoint, Txid, consensus};

use super::{Media, Route};
use crate::failure::Failure;
use crate::limits::OUTSPENDS_TXIDS;
use crate::reply::{Answer, Cache, Reply};
use crate::shapes::{MerkleProofJson, OutspendJson, StatusJson, TransactionJson};
use crate::work::{Lane, Question};

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
    let cache = Cache::by_depth(question.at, found.block.map(|block| block.height));
    Reply::json(&TransactionJson::of(question.at, &found, question.service.settings.network), cache)
}

fn status(question: &Question<'_>) -> Answer {
    let block = block_of(question.at, question.params.txid("txid")?)?;
    Reply::json(&StatusJson::of(question.at, block), cache_of(question.at, block))
}

fn hex(question: &Question<'_>) -> Answer {
    let (bytes, cache) = bytes(question)?;
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
    Reply::json(&OutspendJson::of(question.at, spender), cache)
}

fn outspends(question: &Question<'_>) -> Answer {
    let found = question.at.spenders_of(question.params.txid("txid")?)?.ok_or_else(Failure::no_transaction)?;
    let spends: Vec<_> = found.into_iter().map(|spender| OutspendJson::of(question.at, spender)).collect();
    Reply::json(&spends, Cache::SHORT)
}

/// Unknown transactions have an empty list.
fn outspends_of_many(question: &Question<'_>) -> Answer {
    let txids = question.params.query("txids").ok_or_else(|| Failure::bad_request("No txids specified"))?;
    let txids: Vec<&str> = txids.split(',').collect();
    if txids.len() > OUTSPENDS_TXIDS {
        return Err(Failure::bad_request("Too many txids requested"));
    }
    let mut all = Vec::with_capacity(txids.len());
    for txid in txids {
        let found = match txid.parse::<Txid>() {
            Ok(txid) => question.at.spenders_of(txid)?.unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        all.push(found.into_iter().map(|spender| OutspendJson::of(question.at, spender)).collect::<Vec<_>>());
    }
    Reply::json(&all, Cache::SHORT)
}

fn merkle_proof(question: &Question<'_>) -> Answer {
    let (txid, block) = confirmed(question)?;
    let branch = question.at.merkle(txid, block.height)?.ok_or_else(Failure::internal)?;
    let merkle = branch.siblings.into_iter().map(|hash| Txid::from_byte_array(hash).to_string()).collect();
    let proof = MerkleProofJson { block_height: block.height.0, merkle, pos: branch.position };
    Reply::json(&proof, cache_of(question.at, Some(block)))
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
