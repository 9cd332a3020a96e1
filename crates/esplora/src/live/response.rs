//! Messages to WebSocket clients, and those parts of them that are the same for everyone.

use std::collections::HashSet;

use birdhouse_chain::{Height, Mempool, MempoolTransaction, Snapshot};
use bitcoin::Txid;
use serde::Serialize;
use serde_json::{Value, json};

use crate::clock;
use crate::endpoints::v1;
use crate::fees::{Projection, Rates};
use crate::limits::{LIVE_BLOCKS, PROJECTED_SHOWN};
use crate::wire::{BlockJson, Failure};
use crate::work::Question;

/// Transactions that came last, in the numbers about the mempool.
const RECENT: usize = 6;
/// Time in seconds over which the flow into the mempool is measured, and the most transactions that are counted.
const FLOW_S: u64 = 600;
const FLOW_TRANSACTIONS: usize = 20_000;
/// Satoshis in a bitcoin, and sat/vB in one BTC/kvB.
const SAT_BTC: f64 = 100_000_000.0;
const SAT_VB: f64 = 100_000.0;

/// A message that is being written.
#[derive(Debug, Default)]
pub(super) struct Response {
    text: String,
}

/// A message about one projected block.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockMessage {
    /// Index of the block; the next one has 0.
    pub(super) index: usize,
    /// Number of the message among those of its client.
    pub(super) sequence: u64,
}

impl Response {
    /// Adds a member.
    pub(crate) fn add(&mut self, name: &str, value: &impl Serialize) {
        self.text.push(if self.text.is_empty() { '{' } else { ',' });
        let value = serde_json::to_string(value).expect("shapes are JSON");
        for part in ["\"", name, "\":", &value] {
            self.text.push_str(part);
        }
    }

    /// Returns the text; `None` without members.
    pub(super) fn finish(mut self) -> Option<String> {
        (!self.text.is_empty()).then(|| {
            self.text.push('}');
            self.text
        })
    }

    /// Adds the newest blocks, the oldest of them first.
    pub(super) fn add_blocks(&mut self, at: &Snapshot) -> Result<(), Failure> {
        let tip = at.tip().height.0;
        let heights = tip.saturating_sub(LIVE_BLOCKS - 1)..=tip;
        let blocks = heights.map(|height| BlockJson::of(at, Height(height))?.ok_or_else(Failure::no_block));
        self.add("blocks", &blocks.collect::<Result<Vec<_>, _>>()?);
        Ok(())
    }

    /// Adds the mempool in numbers. Without a node there are no fee rates.
    pub(super) fn add_stats(&mut self, question: &Question<'_>, rates: Option<Rates>) -> Result<(), Failure> {
        let mempool = question.at.mempool();
        let mut info = json!({
            "loaded": true, "size": mempool.len(), "bytes": mempool.adjusted_vsize(), "total_fee": btc(mempool.fees()),
        });
        if let Some(rates) = rates {
            info["mempoolminfee"] = json!(rates.minimum / SAT_VB);
            self.add("fees", &rates.to_json());
        }
        self.add("mempoolInfo", &info);
        self.add("vBytesPerSecond", &flow(mempool, clock::now()));
        let recent = mempool.recent(RECENT);
        let shortly = |found: &std::sync::Arc<MempoolTransaction>| {
            json!({
                "txid": found.txid, "fee": found.fee, "vsize": found.vsize, "value": found.output_sum(),
                "rate": question.mined_rate(found), "time": found.first_seen,
            })
        };
        self.add("transactions", &recent.iter().map(shortly).collect::<Vec<_>>());
        self.add("da", &question.retarget()?);
        Ok(())
    }

    /// Adds the blocks that miners would make now.
    pub(super) fn add_projection(&mut self, projection: &Projection) {
        self.add("mempool-blocks", &v1::projected(projection));
    }

    /// Adds the transactions of a projected block.
    pub(super) fn add_projected_block(&mut self, at: &Snapshot, projection: &Projection, message: BlockMessage) {
        let BlockMessage { index, sequence } = message;
        let transactions = shown(projection, index).filter_map(|txid| projected_transaction(at, projection, txid));
        let transactions: Vec<Value> = transactions.collect();
        let block = json!({ "index": index, "sequence": sequence, "blockTransactions": transactions });
        self.add("projected-block-transactions", &block);
    }

    /// Adds the changes of a projected block, if there are any.
    pub(super) fn add_projected_changes(
        &mut self,
        at: &Snapshot,
        before: &Projection,
        now: &Projection,
        BlockMessage { index, sequence }: BlockMessage,
    ) {
        let old: HashSet<&Txid> = shown(before, index).collect();
        let new: HashSet<&Txid> = shown(now, index).collect();
        let added = shown(now, index).filter(|txid| !old.contains(*txid));
        let added: Vec<Value> = added.filter_map(|txid| projected_transaction(at, now, txid)).collect();
        let removed: Vec<&Txid> = shown(before, index).filter(|txid| !new.contains(*txid)).collect();
        let rate = |projection: &Projection, txid: &Txid| projection.place(txid).map(|place| cents(place.rate));
        let has_changed = |txid: &&Txid| old.contains(*txid) && rate(before, txid) != rate(now, txid);
        let changed: Vec<Value> =
            shown(now, index).filter(has_changed).map(|txid| json!([txid, rate(now, txid), 0])).collect();
        if added.is_empty() && removed.is_empty() && changed.is_empty() {
            return;
        }
        let delta = json!({ "added": added, "removed": removed, "changed": changed });
        self.add("projected-block-transactions", &json!({ "index": index, "sequence": sequence, "delta": delta }));
    }
}

/// The transactions of a projected block that are shown, the best first.
fn shown(projection: &Projection, index: usize) -> impl Iterator<Item = &Txid> {
    projection.transactions(index).iter().take(PROJECTED_SHOWN)
}

/// A transaction of a projected block, as a list: txid, fee, virtual bytes, sum of outputs, effective fee rate, no
/// flags, and the time at which it came.
fn projected_transaction(at: &Snapshot, projection: &Projection, txid: &Txid) -> Option<Value> {
    let found = at.mempool().get(txid)?;
    let rate = projection.place(txid).map(|place| cents(place.rate));
    Some(json!([txid, found.fee, found.vsize, found.output_sum(), rate, 0, found.first_seen]))
}

fn cents(rate: f64) -> f64 {
    (rate * 100.0).round() / 100.0
}

/// Virtual bytes a second that came lately and are still there.
fn flow(mempool: &Mempool, now: u64) -> u64 {
    let recent = mempool.newest().take(FLOW_TRANSACTIONS).take_while(|found| found.first_seen + FLOW_S > now);
    recent.map(|found| found.vsize).sum::<u64>() / FLOW_S
}

#[expect(clippy::cast_precision_loss, reason = "all bitcoin together are below 2^51 satoshis")]
fn btc(sat: u64) -> f64 {
    sat as f64 / SAT_BTC
}
