//! A transaction.

use birdhouse_chain::ResolvedTransaction;
use birdhouse_esplora::script::{address_of, inner_scripts, type_of};
use birdhouse_esplora::{Answer, Cache, Failure, Lane, Question, Reply, Route, family, quotient};
use bitcoin::hex::DisplayHex;
use bitcoin::{OutPoint, TxIn, TxOut, Txid, consensus};

use super::page_part::part_of;
use super::spending::spending;
use super::versions::{gone, versions};
use crate::views::flow::Flow;
use crate::views::parts::{PARTS_PAGE, input_path};
use crate::views::transaction::{
    Input, Output, Part, Script, Spending, Transaction, Tweak, Waiting, page, unspent_page,
};

/// Bytes of a transaction whose digits are on its page.
const RAW_BYTES_MAX: usize = 20_000;
/// The highest sequence number of an input that lets its transaction be replaced
/// ([BIP 125](https://github.com/bitcoin/bips/blob/master/bip-0125.mediawiki)).
const REPLACEABLE_MAX: u32 = 0xffff_fffd;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/tx/{txid}", Lane::Blocks, transaction, "A transaction."),
    Route::get("/tx/{txid}/spender/{vout}", Lane::Blocks, spender, "The transaction that spends an output."),
];

fn transaction(question: &Question<'_>) -> Answer {
    let at = question.at;
    let txid = question.params.txid("txid").map_err(|_| Failure::bad_request("this is no txid"))?;
    let Some(found) = at.resolved(txid)? else { return gone(question, txid) };
    let (inputs, outputs) = (&found.transaction.input, &found.transaction.output);
    let part = |name, count| part_of(question, name, count, PARTS_PAGE as usize);
    let pages = (part("inputs", inputs.len())?, part("outputs", outputs.len())?);
    let values = Transaction {
        network: question.network(),
        tip: at.tip(),
        txid,
        block: found.block.map(|block| (block, at.block_time(block.height).unwrap_or_default())),
        confirmations: found.block.map_or(0, |block| at.tip().height.0 - block.height.0 + 1),
        is_coinbase: found.transaction.is_coinbase(),
        version: found.transaction.version.0,
        lock_time: found.transaction.lock_time.to_consensus_u32(),
        fee: found.fee(),
        size: found.transaction.total_size() as u64,
        vsize: found.transaction.vsize() as u64,
        weight: found.transaction.weight().to_wu(),
        is_replaceable: inputs.iter().any(|input| input.sequence.0 <= REPLACEABLE_MAX),
        waiting: waiting(question, txid),
        stale: question.stale_block_with(&txid),
        versions: versions(at, &txid)?,
        flow: Flow::of(&found),
        inputs: pages.0.slice(inputs).map(|(vin, input)| self::input(question, &found, vin, input)).collect(),
        outputs: pages.1.slice(outputs).map(|(vout, output)| self::output(question, txid, vout, output)).collect(),
        pages,
        raw: raw(&found),
        tweak: tweak(question, txid)?,
    };
    Reply::html(page(&values), Cache::Private)
}

fn tweak(question: &Question<'_>, txid: Txid) -> Result<Option<Tweak>, Failure> {
    let found = question.at.tweak_of(txid)?.filter(|found| !found.outputs.is_empty());
    Ok(found.map(|found| found.tweak.map_or(Tweak::None, Tweak::Of)))
}

fn waiting(question: &Question<'_>, txid: Txid) -> Option<Waiting> {
    let mempool = question.at.mempool();
    let own = mempool.get(&txid)?;
    let (ancestors, descendants) = (family::ancestors(mempool, txid), family::descendants(mempool, txid));
    let (fee, vsize) = ancestors
        .iter()
        .fold((own.fee, own.adjusted_vsize()), |(fee, vsize), one| (fee + one.fee, vsize + one.adjusted_vsize()));
    let relative =
        |one: &std::sync::Arc<birdhouse_chain::MempoolTransaction>| (one.txid, quotient(one.fee, one.adjusted_vsize()));
    let projection = question.projection();
    Some(Waiting {
        first_seen: own.first_seen,
        place: projection.place(&txid),
        blocks: projection.blocks.len(),
        rate: question.mined_rate(own),
        rate_with_ancestors: quotient(fee, vsize),
        ancestors: ancestors.iter().map(relative).collect(),
        descendants: descendants.iter().map(relative).collect(),
    })
}

fn input(question: &Question<'_>, found: &ResolvedTransaction, vin: usize, input: &TxIn) -> Input {
    let prevout = found.prevout(vin);
    let (redeem, witness) = prevout.map(|prevout| inner_scripts(input, prevout)).unwrap_or_default();
    Input {
        vin,
        outpoint: (!found.transaction.is_coinbase()).then_some(input.previous_output),
        part: prevout.map(|prevout| part(question, prevout)),
        sequence: input.sequence.0,
        script_sig: (!input.script_sig.is_empty()).then(|| Script::of(&input.script_sig)),
        witness: input.witness.iter().map(DisplayHex::to_lower_hex_string).collect(),
        redeem,
        witness_script: witness,
    }
}

fn output(question: &Question<'_>, txid: Txid, vout: usize, output: &TxOut) -> Output {
    let outpoint = OutPoint { txid, vout: u32::try_from(vout).expect("a transaction has fewer than 2^32 outputs") };
    let is_spendable = !output.script_pubkey.is_op_return();
    let spending = if is_spendable { spending(question.at, outpoint) } else { Spending::Never };
    Output { vout, part: part(question, output), spending }
}

pub(super) fn part(question: &Question<'_>, output: &TxOut) -> Part {
    let script = &output.script_pubkey;
    Part {
        value: output.value.to_sat(),
        address: address_of(script, question.network()),
        kind: type_of(script),
        script: Script::of(script),
        note: script.is_op_return().then(|| note(script)).flatten(),
    }
}

/// The text that an unspendable output carries, if it is one.
fn note(script: &bitcoin::Script) -> Option<String> {
    let pushes = script.instructions().filter_map(|one| one.ok()?.push_bytes().map(|push| push.as_bytes().to_vec()));
    let text = String::from_utf8(pushes.flatten().collect()).ok()?;
    let is_readable = !text.is_empty() && text.chars().all(|char| !char.is_control() || char == '\n');
    is_readable.then_some(text)
}

/// Leads to the input that spends an output, or answers that there is none.
fn spender(question: &Question<'_>) -> Answer {
    let at = question.at;
    let txid = question.params.txid("txid").map_err(|_| Failure::bad_request("this is no txid"))?;
    let outpoint = OutPoint { txid, vout: question.params.number("vout")? };
    if let Some(found) = at.spender_of(outpoint)? {
        return Reply::elsewhere(input_path(&found.txid, found.vin));
    }
    let Some(found) = at.resolved(txid)? else { return gone(question, txid) };
    let output = found.transaction.output.get(outpoint.vout as usize);
    let output = output.ok_or_else(|| Failure::not_found("the transaction has fewer outputs"))?;
    Reply::html(unspent_page(question.network(), at.tip(), outpoint, &part(question, output)), Cache::Private)
}

fn raw(found: &ResolvedTransaction) -> Option<String> {
    let bytes = consensus::serialize(&found.transaction);
    (bytes.len() <= RAW_BYTES_MAX).then(|| bytes.to_lower_hex_string())
}
