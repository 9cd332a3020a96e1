//! The wants of one WebSocket client, and the messages about them at each change.
//!
//! Blocks, confirmations, replacements and addresses are sent at once. What changes with every transaction of the
//! mempool, numbers and positions, is sent at a pace: see [`Tracking::paced`].

use std::collections::HashMap;
use std::sync::Arc;

use birdhouse_chain::{Height, ScriptHash, Snapshot, Touched};
use bitcoin::Txid;
use serde_json::{Map, Value, json};

use super::response::{BlockMessage, Response};
use super::touches::Touches;
use super::tracked::{Changes, Tracked};
use super::wishes::{Action, Replaced, Wants, Wish, Wishes};
use crate::fees::{BLOCKS_MAX, Projection, Rates, newest, tree_of};
use crate::limits::{LIVE_BLOCKS, REPLACEMENTS_PAGE};
use crate::wire::{BlockJson, Failure, TransactionJson, script_of_address};
use crate::work::Question;

/// The wants of a client, and its knowledge.
#[derive(Debug)]
pub(super) struct Tracking {
    wants: Wants,
    transaction: Option<(Txid, Tracked)>,
    /// True if the client waits for its transaction to come.
    is_awaited: bool,
    transactions: HashMap<Txid, Tracked>,
    address: Option<ScriptHash>,
    /// Scripts with the addresses that the client has for them.
    addresses: HashMap<ScriptHash, String>,
    /// A projected block by its index, as the client knows it.
    block: Option<(usize, Arc<Projection>)>,
    replaced: Option<Replaced>,
    /// The snapshot that the client knows.
    at: Arc<Snapshot>,
    /// The number of the next message about a projected block.
    sequence: u64,
}

impl Tracking {
    /// Tracks nothing yet.
    pub(super) fn new(at: Arc<Snapshot>) -> Self {
        Self {
            wants: Wants::default(),
            transaction: None,
            is_awaited: false,
            transactions: HashMap::new(),
            address: None,
            addresses: HashMap::new(),
            block: None,
            replaced: None,
            at,
            sequence: 0,
        }
    }

    /// The number of tracked transactions and addresses.
    pub(crate) fn count(&self) -> usize {
        let single = usize::from(self.transaction.is_some()) + usize::from(self.address.is_some());
        single + self.transactions.len() + self.addresses.len()
    }

    /// True if the client wants fee rates, for which the node is asked.
    pub(super) fn wants_stats(&self) -> bool {
        self.wants.stats
    }

    /// True if something is sent at a pace.
    pub(super) fn is_paced(&self) -> bool {
        let wants = self.wants.stats || self.wants.mempool_blocks || self.block.is_some();
        wants || self.transaction.is_some() || !self.transactions.is_empty()
    }

    // === wishes ===

    /// Changes what is tracked, at most `max` transactions and addresses, and returns what is known of it.
    pub(super) fn hear(
        &mut self,
        question: &Question<'_>,
        wishes: Wishes,
        rates: Option<Rates>,
        max: usize,
    ) -> Result<Option<String>, Failure> {
        let (at, mut response) = (question.at, Response::default());
        let before = self.wants;
        self.wants = wishes.want.unwrap_or(before);
        let is_first = wishes.action == Some(Action::Init);
        if is_first || wishes.blocks_again || self.wants.blocks && !before.blocks {
            response.add_blocks(at)?;
        }
        if is_first || self.wants.mempool_blocks && !before.mempool_blocks {
            response.add_projection(&question.projection());
        }
        if is_first || self.wants.stats && !before.stats {
            response.add_stats(question, rates)?;
        }
        if is_first {
            response.add("backendInfo", &json!({ "backend": "birdhouse", "version": env!("CARGO_PKG_VERSION") }));
            response.add("loadingIndicators", &json!({}));
        }
        for error in &wishes.unserved {
            response.add(error, &"not served here");
        }
        if wishes.action == Some(Action::Ping) {
            response.add("pong", &true);
        }
        if wishes.transaction != Wish::Kept {
            self.track_transaction(question, &wishes, max, &mut response)?;
        }
        if wishes.transactions != Wish::Kept {
            self.track_transactions(question, wishes.transactions, max, &mut response)?;
        }
        if wishes.address != Wish::Kept {
            self.address = None;
        }
        if let Wish::Given(address) = wishes.address {
            match script_of_address(&address, question.network()).ok() {
                Some(_) if self.count() >= max => too_many(&mut response, "track-address-error", "addresses", max),
                script => self.address = script,
            }
        }
        if let Some(addresses) = wishes.addresses {
            self.track_addresses(question, addresses, max, &mut response);
        }
        if wishes.mempool_block != Wish::Kept {
            self.block = None;
        }
        if let Wish::Given(index @ ..BLOCKS_MAX) = wishes.mempool_block {
            let projection = question.projection();
            response.add_projected_block(at, &projection, BlockMessage { index, sequence: self.sequence });
            self.block = Some((index, projection));
        }
        match wishes.replaced {
            Wish::Kept => {}
            Wish::Ended => self.replaced = None,
            Wish::Given(replaced) => {
                self.replaced = Some(replaced);
                self.add_replacements(at, &mut response)?;
            }
        }
        Ok(response.finish())
    }

    fn track_transaction(
        &mut self,
        question: &Question<'_>,
        wishes: &Wishes,
        max: usize,
        response: &mut Response,
    ) -> Result<(), Failure> {
        (self.transaction, self.is_awaited) = (None, false);
        let Wish::Given(txid) = wishes.transaction else { return Ok(()) };
        if self.count() >= max {
            too_many(response, "track-tx-error", "transactions", max);
            return Ok(());
        }
        let at = question.at;
        let mut tracked = Tracked::begin(at, &txid)?;
        let changes = tracked.changed(at, &txid, None)?.with(tracked.moved(at, &txid, &question.projection())?);
        if wishes.is_awaited {
            if let Some(replacement) = changes.replaced_by {
                response.add("txReplaced", &json!({ "txid": replacement }));
                return Ok(());
            }
            self.is_awaited = !add_transaction(at, question, &txid, response)?;
        }
        add_changes(at, &txid, &changes, response)?;
        self.transaction = Some((txid, tracked));
        Ok(())
    }

    fn track_transactions(
        &mut self,
        question: &Question<'_>,
        wish: Wish<Vec<Txid>>,
        max: usize,
        response: &mut Response,
    ) -> Result<(), Failure> {
        self.transactions.clear();
        let Wish::Given(mut txids) = wish else {
            response.add("track-txs-error", &"incorrect track-txs format");
            return Ok(());
        };
        txids.sort_unstable();
        txids.dedup();
        if self.count() + txids.len() > max {
            too_many(response, "track-txs-error", "transactions", max);
            return Ok(());
        }
        let (at, projection) = (question.at, question.projection());
        let mut all = Map::new();
        for txid in txids {
            let mut tracked = Tracked::begin(at, &txid)?;
            let changes = tracked.changed(at, &txid, None)?.with(tracked.moved(at, &txid, &projection)?);
            let mut members = changes.members().unwrap_or_else(|| json!({}));
            members["confirmed"] = json!(tracked.is_confirmed());
            if members.as_object().is_some_and(|members| members.len() > 1) || tracked.is_confirmed() {
                all.insert(txid.to_string(), members);
            }
            self.transactions.insert(txid, tracked);
        }
        if !all.is_empty() {
            response.add("tracked-txs", &all);
        }
        Ok(())
    }

    fn track_addresses(&mut self, question: &Question<'_>, wish: Vec<String>, max: usize, response: &mut Response) {
        self.addresses.clear();
        // Each is hashed, so they are counted before.
        if self.count() + wish.len() > max {
            too_many(response, "track-addresses-error", "addresses", max);
            return;
        }
        let scripts = wish.into_iter().filter_map(|address| {
            let script = script_of_address(&address, question.network()).ok()?;
            Some((script, address))
        });
        self.addresses = scripts.collect();
    }

    // === changes ===

    /// True if a change concerns the client beyond what is sent at a pace.
    pub(super) fn concerns(&self, at: &Snapshot, touched: &Touched) -> bool {
        let mempool = at.mempool();
        let one = self.transaction.iter().map(|(txid, tracked)| (txid, tracked));
        let has_come = self.is_awaited && one.clone().any(|(txid, _)| mempool.get(txid).is_some());
        self.at.tip() != at.tip()
            || has_come
            || self.transactions.iter().chain(one).any(|(txid, tracked)| tracked.is_replaced_anew(at, txid))
            || self.replaced.is_some() && self.has_new_replacements(at)
            || self.scripts().any(|script| is_touched(touched, script))
    }

    /// Notes a change that does not concern the client.
    pub(super) fn see(&mut self, at: &Arc<Snapshot>) {
        self.at = Arc::clone(at);
    }

    /// Returns the messages of a change.
    pub(super) fn changed(
        &mut self,
        question: &Question<'_>,
        at: &Arc<Snapshot>,
        touched: &Touched,
    ) -> Result<Vec<String>, Failure> {
        let (mut messages, mut response) = (Vec::new(), Response::default());
        let known = self.at.tip();
        let is_extended = at.block_hash(known.height) == Some(known.hash);
        // After a reorg the newest block is sent; clients ask for the rest anew.
        let first = if is_extended { Height(known.height.0 + 1) } else { at.tip().height };
        let new_from = (known != at.tip()).then_some(first);
        if new_from.is_some() && self.wants.blocks {
            if is_extended && at.tip().height.0 - known.height.0 <= LIVE_BLOCKS {
                for height in first.0..=at.tip().height.0 {
                    messages.extend(std::mem::take(&mut response).finish());
                    let block = BlockJson::of(at, Height(height))?.ok_or_else(Failure::no_block)?;
                    response.add("block", &block);
                }
            } else {
                response.add_blocks(at)?;
            }
        }
        self.add_transaction_changes(question, at, new_from, &mut response)?;
        self.add_addresses(question, at, touched, new_from, &mut response)?;
        if self.replaced.is_some() && self.has_new_replacements(at) {
            self.add_replacements(at, &mut response)?;
        }
        messages.extend(response.finish());
        self.see(at);
        Ok(messages)
    }

    fn add_transaction_changes(
        &mut self,
        question: &Question<'_>,
        at: &Snapshot,
        new_from: Option<Height>,
        response: &mut Response,
    ) -> Result<(), Failure> {
        if let Some((txid, tracked)) = &mut self.transaction {
            if self.is_awaited {
                self.is_awaited = !add_transaction(at, question, txid, response)?;
            }
            let changes = tracked.changed(at, txid, new_from)?;
            add_changes(at, txid, &changes, response)?;
        }
        let mut all = Map::new();
        for (txid, tracked) in &mut self.transactions {
            if let Some(members) = tracked.changed(at, txid, new_from)?.members() {
                all.insert(txid.to_string(), members);
            }
        }
        if !all.is_empty() {
            response.add("tracked-txs", &all);
        }
        Ok(())
    }

    fn add_addresses(
        &self,
        question: &Question<'_>,
        at: &Snapshot,
        touched: &Touched,
        new_from: Option<Height>,
        response: &mut Response,
    ) -> Result<(), Failure> {
        let touches = |script: &ScriptHash| Touches::between(&self.at, at, script, new_from, question);
        if let Some(script) = self.address.filter(|script| is_touched(touched, script)) {
            let Touches { mempool, confirmed, removed } = touches(&script)?;
            let kinds = [
                ("address-transactions", mempool),
                ("block-transactions", confirmed),
                ("address-removed-transactions", removed),
            ];
            for (name, transactions) in kinds.into_iter().filter(|(_, transactions)| !transactions.is_empty()) {
                response.add(name, &transactions);
            }
        }
        let mut all = HashMap::new();
        for (script, address) in self.addresses.iter().filter(|(script, _)| is_touched(touched, script)) {
            let found = touches(script)?;
            if !found.is_empty() {
                all.insert(address, found);
            }
        }
        if !all.is_empty() {
            response.add("multi-address-transactions", &all);
        }
        Ok(())
    }

    /// Returns the message about everything that is sent at a pace.
    pub(super) fn paced(&mut self, question: &Question<'_>, rates: Option<Rates>) -> Result<Option<String>, Failure> {
        let (at, mut response) = (question.at, Response::default());
        if self.wants.stats {
            response.add_stats(question, rates)?;
        }
        let projection = question.projection();
        if self.wants.mempool_blocks {
            response.add_projection(&projection);
        }
        if let Some((txid, tracked)) = &mut self.transaction {
            let changes = tracked.moved(at, txid, &projection)?;
            add_changes(at, txid, &changes, &mut response)?;
        }
        let mut all = Map::new();
        for (txid, tracked) in &mut self.transactions {
            if let Some(members) = tracked.moved(at, txid, &projection)?.members() {
                all.insert(txid.to_string(), members);
            }
        }
        if !all.is_empty() {
            response.add("tracked-txs", &all);
        }
        if let Some((index, before)) = &mut self.block
            && !Arc::ptr_eq(before, &projection)
        {
            self.sequence += 1;
            let message = BlockMessage { index: *index, sequence: self.sequence };
            response.add_projected_changes(at, before, &projection, message);
            *before = projection;
        }
        Ok(response.finish())
    }

    fn scripts(&self) -> impl Iterator<Item = &ScriptHash> {
        self.address.iter().chain(self.addresses.keys())
    }

    fn has_new_replacements(&self, at: &Snapshot) -> bool {
        self.at.mempool().replacements().last() != at.mempool().replacements().last()
    }

    fn add_replacements(&self, at: &Snapshot, response: &mut Response) -> Result<(), Failure> {
        let Some(replaced) = self.replaced else { return Ok(()) };
        let trees = newest(at, REPLACEMENTS_PAGE, |tree| replaced == Replaced::All || tree.full_rbf)?;
        response.add("rbfLatest", &trees);
        Ok(())
    }
}

fn is_touched(touched: &Touched, script: &ScriptHash) -> bool {
    match touched {
        Touched::Any => true,
        Touched::Scripts(touched) => touched.binary_search(script).is_ok(),
    }
}

fn too_many(response: &mut Response, name: &str, kind: &str, max: usize) {
    let text = format!("too many {kind} requested, this connection supports tracking a maximum of {max} {kind}");
    response.add(name, &text);
}

/// Adds a transaction that came; false if it has not.
fn add_transaction(
    at: &Snapshot,
    question: &Question<'_>,
    txid: &Txid,
    response: &mut Response,
) -> Result<bool, Failure> {
    let found = at.resolved(*txid)?;
    if let Some(found) = &found {
        response.add("tx", &TransactionJson::of(at, found, question.network()));
    }
    Ok(found.is_some())
}

/// Adds the changes of the one transaction of `track-tx`.
fn add_changes(at: &Snapshot, txid: &Txid, changes: &Changes, response: &mut Response) -> Result<(), Failure> {
    if let Some((block, vsize)) = changes.position {
        let position: Value = json!({ "block": block, "vsize": vsize });
        response.add("txPosition", &json!({ "txid": txid, "position": position }));
    }
    if changes.has_confirmed {
        response.add("txConfirmed", txid);
    }
    if let Some(replacement) = changes.replaced_by {
        response.add("rbfTransaction", &json!({ "txid": replacement }));
        response.add("rbfInfo", &tree_of(at, txid)?);
    }
    if !changes.spent.is_empty() {
        response.add("utxoSpent", &changes.spent);
    }
    Ok(())
}
