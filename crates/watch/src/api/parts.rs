//! Watched outputs and inputs of a transaction, and its JSON as BWT has it.

use birdhouse_chain::{Confirmation, ResolvedTransaction, Result, ScriptHash, Snapshot};
use bitcoin::{OutPoint, Txid};
use serde_json::{Map, Value, json};

use crate::api::failure::Failure;
use crate::api::missing::Missing;
use crate::api::wallets::Book;

/// Transactions of the mempool that an effective fee rate counts, at most. Core's clusters have 64.
const ANCESTORS_MAX: usize = 100;

/// An input with the output that it spends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Spent {
    pub(super) vin: usize,
    pub(super) prevout: OutPoint,
    pub(super) scripthash: ScriptHash,
    pub(super) value: u64,
}

/// Returns the inputs of a transaction. What a pruned node has removed is asked of the index.
pub(super) fn inputs(at: &Snapshot, found: &ResolvedTransaction) -> Result<Vec<Spent>> {
    let inputs = found.transaction.input.iter().enumerate();
    if !found.is_unresolved() {
        let resolved = inputs.zip(&found.prevouts).map(|((vin, input), prevout)| Spent {
            vin,
            prevout: input.previous_output,
            scripthash: ScriptHash::of(prevout.script_pubkey.as_bytes()),
            value: prevout.value.to_sat(),
        });
        return Ok(resolved.collect());
    }
    let (mut spent, mut missing) = (Vec::new(), Missing::default());
    for (vin, input) in inputs {
        let prevout = input.previous_output;
        if let Some(output) = missing.take(at.output(prevout))?.flatten() {
            spent.push(Spent { vin, prevout, scripthash: output.scripthash, value: output.value });
        }
    }
    missing.end()?;
    Ok(spent)
}

/// Returns the input that spends an output, as `txid:vin`.
pub(super) fn spender(at: &Snapshot, outpoint: OutPoint) -> Result<Option<String>> {
    Ok(at.spender_of(outpoint)?.map(|spender| format!("{}:{}", spender.txid, spender.vin)))
}

/// Returns a transaction with its watched outputs and inputs; `None` if it has none.
pub(super) fn transaction(at: &Snapshot, book: &Book<'_>, txid: Txid) -> Result<Option<Value>, Failure> {
    let Some(found) = at.resolved(txid)? else { return Ok(None) };
    let (mut funding, mut spending, mut change) = (Vec::new(), Vec::new(), 0_i64);
    let mut missing = Missing::default();
    for (vout, output) in (0..).zip(&found.transaction.output) {
        let script = ScriptHash::of(output.script_pubkey.as_bytes());
        let Some(mut shape) = book.script_json(&script)? else { continue };
        let value = output.value.to_sat();
        change += signed(value);
        insert(&mut shape, [("vout", json!(vout)), ("amount", json!(value))]);
        let spender = missing.take(spender(at, OutPoint { txid, vout }))?.flatten();
        insert(&mut shape, [("spent_by", json!(spender))]);
        funding.push(Value::Object(shape));
    }
    for Spent { vin, prevout, scripthash, value } in missing.take(inputs(at, &found))?.unwrap_or_default() {
        let Some(mut shape) = book.script_json(&scripthash)? else { continue };
        change -= signed(value);
        insert(&mut shape, [("vin", json!(vin)), ("amount", json!(value)), ("prevout", json!(prevout.to_string()))]);
        spending.push(Value::Object(shape));
    }
    missing.end()?;
    if funding.is_empty() && spending.is_empty() {
        return Ok(None);
    }
    let mut shape = Map::new();
    insert(
        &mut shape,
        [
            ("txid", json!(txid.to_string())),
            ("block_height", json!(found.block.map(|block| block.height.0))),
            ("fee", json!(found.fee())),
            ("funding", json!(funding)),
            ("spending", json!(spending)),
            ("balance_change", json!(change)),
        ],
    );
    add_mempool(at, txid, &mut shape);
    Ok(Some(Value::Object(shape)))
}

/// Adds what BWT says of an unconfirmed transaction.
fn add_mempool(at: &Snapshot, txid: Txid, shape: &mut Map<String, Value>) {
    let mempool = at.mempool();
    let Some(own) = mempool.get(&txid) else { return };
    let (mut family, mut waiting) = (vec![txid], vec![txid]);
    let (mut fee, mut vsize, mut is_replaceable) = (0, 0, false);
    while let Some(found) = waiting.pop().and_then(|txid| mempool.get(&txid)) {
        fee += found.fee;
        vsize += found.vsize;
        is_replaceable |= found.is_replaceable;
        for parent in mempool.parents(found) {
            if family.len() < ANCESTORS_MAX && !family.contains(&parent) {
                family.push(parent);
                waiting.push(parent);
            }
        }
    }
    let (own_rate, rate) = (rate(own.fee, own.vsize), rate(fee, vsize));
    insert(
        shape,
        [
            ("own_feerate", json!(own_rate)),
            ("effective_feerate", json!(own_rate.min(rate))),
            ("bip125_replaceable", json!(is_replaceable)),
            ("has_unconfirmed_parents", json!(family.len() > 1)),
        ],
    );
}

#[expect(clippy::cast_precision_loss, reason = "fees and sizes are far below 2^52")]
fn rate(fee: u64, vsize: u64) -> f64 {
    fee as f64 / vsize.max(1) as f64
}

/// All bitcoin together are below 2^63 satoshis.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Returns the height of a confirmation.
pub(super) fn height_of(confirmation: Confirmation) -> Option<u32> {
    match confirmation {
        Confirmation::Confirmed(height) => Some(height.0),
        Confirmation::Unconfirmed { .. } => None,
    }
}

/// Adds members to an object.
pub(super) fn insert<const N: usize>(shape: &mut Map<String, Value>, members: [(&str, Value); N]) {
    shape.extend(members.into_iter().map(|(name, value)| (name.to_owned(), value)));
}
