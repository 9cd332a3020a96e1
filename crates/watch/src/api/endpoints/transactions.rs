//! `/tx`, `/txs` and `/txo`.

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Height, ScriptHash};
use bitcoin::block::Header;
use bitcoin::hex::DisplayHex as _;
use bitcoin::{MerkleBlock, OutPoint, Txid, consensus};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::api::failure::Failure;
use crate::api::history;
use crate::api::parts::{self, height_of, insert};
use crate::api::portions::{Frame, Portions};
use crate::api::reply::{Answer, JSON, Reply, TEXT};
use crate::api::routes::Route;
use crate::api::service::Question;
use crate::api::wallets::Book;
use crate::limits::API_PORTION;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/tx/{txid}", transaction, "A transaction of the wallets, with their outputs and inputs."),
    Route::get("/tx/{txid}/verbose", verbose, "Any transaction, as the node's getrawtransaction shows it.").by_node(),
    Route::get("/tx/{txid}/hex", hex, "Any transaction, in hexadecimal.").with(TEXT),
    Route::get("/tx/{txid}/proof", proof, "The proof that a block has a transaction, as gettxoutproof gives it.")
        .with(TEXT),
    Route::get("/txs", all, "Transactions of all wallets, the oldest first."),
    Route::get("/txs/since/{height}", since, "Those from a height on, and unconfirmed ones."),
    Route::get("/txs/since/{height}/compact", since_in_short, "Their txids with their heights."),
    Route::post("/tx", broadcast, "Sends a transaction to the node; the answer is its txid.").by_node().with(TEXT),
    Route::get("/txo/{txid}/{vout}", output, "An output of a watched wallet."),
];

/// The body of a broadcast.
#[derive(Deserialize)]
struct Broadcast {
    tx_hex: String,
}

fn no_transaction() -> Failure {
    Failure::not_found("Transaction not found")
}

fn transaction(question: &Question<'_>) -> Answer {
    let txid = question.params.txid()?;
    Reply::json(&parts::transaction(question.at, &question.book(), txid)?.ok_or_else(no_transaction)?)
}

/// Returns a transaction's bytes, and its block if it has one.
fn found(question: &Question<'_>, txid: Txid) -> Result<(Vec<u8>, Option<BlockId>), Failure> {
    if let Some(waiting) = question.at.mempool().get(&txid) {
        return Ok((waiting.raw.to_vec(), None));
    }
    let found = question.at.transaction(txid)?.ok_or_else(no_transaction)?;
    Ok((found.raw, Some(found.block)))
}

fn verbose(question: &Question<'_>) -> Answer {
    let (raw, block) = found(question, question.params.txid()?)?;
    let decoded = question.node()?.decode_transaction(&raw)?;
    let mut shape: Map<String, Value> = serde_json::from_str(decoded.get()).map_err(|_| Failure::internal())?;
    insert(&mut shape, [("hex", json!(raw.to_lower_hex_string()))]);
    if let Some(BlockId { height, hash }) = block {
        let time = question.at.block_time(height);
        insert(
            &mut shape,
            [
                ("in_active_chain", json!(true)),
                ("blockhash", json!(hash.to_string())),
                ("confirmations", json!(question.at.tip().height.0 + 1 - height.0)),
                ("time", json!(time)),
                ("blocktime", json!(time)),
            ],
        );
    }
    Reply::json(&Value::Object(shape))
}

fn hex(question: &Question<'_>) -> Answer {
    let (raw, _) = found(question, question.params.txid()?)?;
    Reply::text(TEXT, raw.to_lower_hex_string())
}

fn proof(question: &Question<'_>) -> Answer {
    let txid = question.params.txid()?;
    let block = question.at.transaction_block(txid)?;
    let block = block.ok_or_else(|| Failure::not_found("Transaction not found or is unconfirmed"))?;
    let header = question.at.header(block.height).ok_or_else(Failure::internal)?;
    let header: Header = consensus::deserialize(&header).map_err(|_| Failure::internal())?;
    let txids = question.at.txids_of_block(block.height)?.ok_or_else(Failure::internal)?;
    let proof = MerkleBlock::from_header_txids_with_predicate(&header, &txids, |other| *other == txid);
    Reply::text(TEXT, consensus::encode::serialize_hex(&proof))
}

fn all(question: &Question<'_>) -> Answer {
    whole(question, &question.book().scripthashes(), Height(0))
}

fn since(question: &Question<'_>) -> Answer {
    whole(question, &question.book().scripthashes(), question.params.height()?)
}

fn since_in_short(question: &Question<'_>) -> Answer {
    in_short(question, &question.book().scripthashes(), question.params.height()?)
}

/// Returns the transactions of these scripts from a height on, with the outputs and inputs of all wallets.
pub(super) fn whole(question: &Question<'_>, scripts: &[ScriptHash], from: Height) -> Answer {
    let entries = history::entries(question.at, scripts, from)?;
    let (wallets, network) = (std::sync::Arc::clone(&question.service.wallets), question.network());
    let list = Frame { head: "[", separator: ",", tail: "]" };
    Reply::portions(JSON, Portions::new(entries, list, API_PORTION), move |at, entry, text| {
        // Between two portions a watch may be removed.
        let shape = parts::transaction(at, &Book::new(&*wallets, network), entry.txid)?;
        let shape = shape.unwrap_or_else(|| json!({ "txid": entry.txid.to_string(), "block_height": entry.height() }));
        text.push_str(&shape.to_string());
        Ok(())
    })
}

/// Returns txids and heights of the same.
pub(super) fn in_short(question: &Question<'_>, scripts: &[ScriptHash], from: Height) -> Answer {
    let entries = history::entries(question.at, scripts, from)?;
    Reply::json(&entries.iter().map(|entry| json!([entry.txid.to_string(), entry.height()])).collect())
}

fn broadcast(question: &Question<'_>) -> Answer {
    let Broadcast { tx_hex } = question.params.json()?;
    Reply::text(TEXT, question.node()?.broadcast(&tx_hex)?.to_string())
}

fn output(question: &Question<'_>) -> Answer {
    let outpoint = OutPoint { txid: question.params.txid()?, vout: question.params.number("vout")? };
    let book = question.book();
    let missing = || Failure::not_found("The output is not of a watched wallet");
    let found = question.at.output(outpoint)?.ok_or_else(missing)?;
    let mut shape = book.script_json(&found.scripthash)?.ok_or_else(missing)?;
    insert(
        &mut shape,
        [
            ("txid", json!(outpoint.txid.to_string())),
            ("vout", json!(outpoint.vout)),
            ("amount", json!(found.value)),
            ("block_height", json!(height_of(found.funding))),
            ("spent_by", json!(parts::spender(question.at, outpoint)?)),
        ],
    );
    Reply::json(&Value::Object(shape))
}
