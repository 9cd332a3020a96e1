//! Payments of an invoice, as a snapshot has them.

use birdhouse_chain::{Height, Result, ScriptHash, Snapshot};
use bitcoin::{OutPoint, ScriptBuf};
use serde_json::{Value, json};

use crate::api::history;
use crate::api::missing::Missing;
use crate::invoice::{Invoice, Payment, Standing};

/// An output that pays an invoice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Paid {
    pub(super) outpoint: OutPoint,
    pub(super) height: Option<u32>,
    pub(super) payment: Payment,
}

/// Returns the script of an invoice.
pub(super) fn script_of(invoice: &Invoice) -> ScriptBuf {
    ScriptBuf::from_hex(&invoice.script).unwrap_or_default()
}

/// Returns the outputs that pay an invoice. One that nobody saw in the mempool was there when its block was made.
pub(super) fn of(at: &Snapshot, invoice: &Invoice, now: u64) -> Result<Vec<Paid>> {
    let script = script_of(invoice);
    let scripthash = ScriptHash::of(script.as_bytes());
    let tip = at.tip().height.0;
    let (mut paid, mut missing) = (Vec::new(), Missing::default());
    for entry in history::entries(at, &[scripthash], Height(0))? {
        let Some(found) = missing.take(at.resolved(entry.txid))?.flatten() else { continue };
        let height = entry.height();
        let seen = match height {
            Some(height) => at.block_time(Height(height)).map(u64::from),
            None => at.mempool().get(&entry.txid).map(|found| found.first_seen),
        };
        for (vout, output) in (0..).zip(&found.transaction.output) {
            if output.script_pubkey != script {
                continue;
            }
            let outpoint = OutPoint { txid: entry.txid, vout };
            let seen = invoice.seen_at(&outpoint.to_string()).or(seen).unwrap_or(now);
            let confirmations = height.map_or(0, |height| tip + 1 - height);
            let payment = Payment { value: output.value.to_sat(), confirmations, seen };
            paid.push(Paid { outpoint, height, payment });
        }
    }
    missing.end()?;
    Ok(paid)
}

/// Returns the state of an invoice by its payments in a snapshot.
pub(super) fn standing(at: &Snapshot, invoice: &Invoice, paid: &[Paid], now: u64) -> Standing {
    let payments: Vec<Payment> = paid.iter().map(|paid| paid.payment).collect();
    let standing = Standing::of(&invoice.terms(), &payments, now);
    if at.mempool().is_listed() { standing } else { standing.without_mempool(invoice.reported) }
}

/// Returns an invoice with its payments in a snapshot as the API shows it.
pub(super) fn json(at: &Snapshot, invoice: &Invoice, paid: &[Paid], now: u64) -> Value {
    let Standing { state, received, confirmed, late, is_known } = standing(at, invoice, paid, now);
    let payment = |paid: &Paid| {
        json!({
            "outpoint": paid.outpoint.to_string(),
            "amount": paid.payment.value,
            "block_height": paid.height,
            "confirmations": paid.payment.confirmations,
            "seen": paid.payment.seen,
        })
    };
    json!({
        "id": invoice.id,
        "wallet": invoice.watch,
        "origin": format!("{}/{}", invoice.branch, invoice.index),
        "address": invoice.address,
        "scripthash": ScriptHash::of(script_of(invoice).as_bytes()).to_string(),
        "amount": invoice.amount,
        "label": invoice.label,
        "created": invoice.created,
        "expires": invoice.expires,
        "confirmations": invoice.confirmations,
        "state": state,
        "is_known": is_known,
        "received": received,
        "confirmed": confirmed,
        "late": late,
        "payments": paid.iter().map(payment).collect::<Vec<_>>(),
        "uri": invoice.uri(),
        "page": format!("/pay/{}", invoice.id),
    })
}
