//! Makes invoices, and notes what becomes of them: each change of a state is stored before clients hear of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use birdhouse_chain::{Error as ChainError, Index, ScriptHash, Snapshot, Touched};
use birdhouse_net::offload;
use bitcoin::Address;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::sync::{Notify, broadcast};
use tokio::time::sleep;

use crate::api::failure::Failure;
use crate::api::payments;
use crate::api::wallets::{Book, Branch, Wallets};
use crate::error::Result;
use crate::file::WatchName;
use crate::invoice::{BeyondGap, Invoice, InvoiceId, InvoiceState, NotTaken, Reserve, Standing, Taken};
use crate::limits::{
    API_STREAM_LAG_MAX, CONFIRMATIONS_MAX, INVOICE_EXPIRY_DEFAULT, INVOICE_EXPIRY_MAX, INVOICE_LABEL_CHARS_MAX,
    INVOICE_LATE_S, INVOICE_SKIPS_MAX, INVOICES_MAX, INVOICES_PAGE,
};
use crate::notice::{Amounts, InvoiceNotice, Notice, NoticeKind};
use crate::state::invoices::{self, StoredReserve};
use crate::state::{Routed, State, append};

/// The greatest number of an address that a restore may name: a typing error must not end the wallet.
const RESUME_MAX: u32 = 1 << 30;
/// All satoshis that there will be.
const AMOUNT_MAX: u64 = 2_100_000_000_000_000;
/// Longest time between two looks at the clock, in seconds.
const PAUSE_MAX_S: u64 = 3600;
/// Time after which a failed update is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The order of an invoice.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Order {
    /// Name of a watch, or the checksum of a branch.
    wallet: String,
    /// Satoshis.
    amount: u64,
    /// Time to pay, in seconds.
    expiry: Option<u64>,
    label: Option<String>,
    confirmations: Option<u32>,
}

/// The operator's word after a restore.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resumption {
    wallet: String,
    /// The first number that was never given.
    from: Option<u32>,
}

/// A change of an invoice's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StateChange {
    pub(super) id: InvoiceId,
    pub(super) state: InvoiceState,
}

/// A made invoice.
pub(super) struct Made {
    pub(super) invoice: Invoice,
    /// Words for the operator: the wallet may not find this address.
    pub(super) warning: Option<String>,
}

/// Invoices of a server.
pub(super) struct InvoiceBook {
    state: State,
    beyond_gap: BeyondGap,
    /// Restores that were noticed.
    generation: u32,
    known: Mutex<Known>,
    reported: broadcast::Sender<StateChange>,
    /// Wakes the follower: the next end may be sooner.
    made: Notify,
}

/// Invoices that may change, in short.
#[derive(Debug, Default)]
struct Known {
    by_script: HashMap<ScriptHash, u64>,
    /// By number: the state that was announced, and the end of the time to pay.
    states: BTreeMap<u64, Short>,
}

#[derive(Debug, Clone, Copy)]
struct Short {
    reported: InvoiceState,
    expires: u64,
}

impl InvoiceBook {
    /// Takes up the invoices of a file.
    ///
    /// # Errors
    /// Failures of the file.
    pub(super) fn open(state: State, beyond_gap: BeyondGap) -> Result<Self> {
        let path = state.path().to_owned();
        let generation = state.write(|transaction| invoices::generation(transaction, &path))?;
        let mut known = Known::default();
        let mut end = u64::MAX;
        loop {
            let page = state.read(|transaction| invoices::before(transaction, end, INVOICES_PAGE))??;
            let Some((last, _)) = page.last() else { break };
            end = *last;
            for (number, invoice) in &page {
                known.add(*number, invoice);
            }
        }
        let (reported, _) = broadcast::channel(API_STREAM_LAG_MAX);
        Ok(Self { state, beyond_gap, generation, known: Mutex::new(known), reported, made: Notify::new() })
    }

    /// Returns the changes of states from now on.
    pub(super) fn reported(&self) -> broadcast::Receiver<StateChange> {
        self.reported.subscribe()
    }

    /// Returns an invoice.
    pub(super) fn get(&self, id: &InvoiceId) -> Result<Option<Invoice>> {
        self.state.read(|transaction| match invoices::number(transaction, id)? {
            Some(number) => invoices::get(transaction, number),
            None => Ok(Ok(None)),
        })?
    }

    /// Returns invoices before a number, the newest first.
    pub(super) fn before(&self, end: u64) -> Result<Vec<(u64, Invoice)>> {
        self.state.read(|transaction| invoices::before(transaction, end, INVOICES_PAGE))?
    }

    /// Returns the indices of a branch that invoices have.
    pub(super) fn reserve(&self, branch: &Branch) -> Result<Reserve> {
        let key = branch.text();
        Ok(self.state.read(|transaction| invoices::reserve(transaction, &key))?.reserve)
    }

    // === making invoices ===

    /// Makes an invoice: with an address that nobody was given, and that chain and mempool do not know.
    pub(super) fn make(
        &self,
        at: &Snapshot,
        book: &Book<'_>,
        order: Order,
        id: InvoiceId,
        now: u64,
    ) -> Result<Made, Failure> {
        let order = checked(order)?;
        let branch = book.branch_to_pay(&order.wallet)?;
        if !branch.is_ranged() {
            return Err(Failure::conflict(NotTaken::NoRange.to_string()));
        }
        let key = branch.text();
        let mut known = self.known.lock();
        let stored = self.state.read(|transaction| invoices::reserve(transaction, &key))?;
        if stored.generation < self.generation {
            return Err(must_resume(branch, stored.reserve));
        }
        let Taken { index, reserve, unused } = self.unused(at, branch, stored.reserve, &known)?;
        let script = branch.script(index).ok_or_else(Failure::internal)?;
        let address = Address::from_script(&script, book.network)
            .map_err(|_| Failure::conflict("the scripts of this wallet have no addresses"))?;
        let invoice = Invoice {
            id,
            watch: branch.watch.clone(),
            branch: branch.checksum(),
            index,
            address: address.to_string(),
            script: script.to_hex_string(),
            amount: order.amount,
            label: order.label,
            created: now,
            expires: now + order.expiry.unwrap_or(INVOICE_EXPIRY_DEFAULT),
            confirmations: order.confirmations.unwrap_or(1),
            seen: Vec::new(),
            reported: InvoiceState::Unpaid,
        };
        let stored = StoredReserve { reserve, generation: self.generation };
        let number = self.state.write(|transaction| invoices::append(transaction, &key, stored, &invoice))?;
        known.add(number, &invoice);
        self.made.notify_one();
        let warning = unused.map(|unused| warning(&branch.watch, unused, branch.gap));
        Ok(Made { invoice, warning })
    }

    /// Takes the first index whose script has no transaction and no invoice: another form of the same descriptor has
    /// other reserves and the same scripts.
    fn unused(&self, at: &Snapshot, branch: &Branch, reserve: Reserve, known: &Known) -> Result<Taken, Failure> {
        let mut used = branch.used;
        for _ in 0..INVOICE_SKIPS_MAX {
            let taken = reserve.take(used, branch.gap, self.beyond_gap);
            let taken = taken.map_err(|why| Failure::conflict(reason(why, branch).to_string()))?;
            let script = branch.script(taken.index).ok_or_else(Failure::internal)?;
            let scripthash = ScriptHash::of(script.as_bytes());
            if !known.by_script.contains_key(&scripthash) && at.first_use(&scripthash)?.is_none() {
                return Ok(taken);
            }
            used = Some(taken.index);
        }
        Err(Failure::unavailable("the next addresses of this wallet are all used; raise the gap of its watch"))
    }

    /// Goes on after a restore, at the number that the operator names, or beyond all that is known. Returns the next
    /// number.
    pub(super) fn resume(&self, book: &Book<'_>, word: &Resumption) -> Result<u32, Failure> {
        let branch = book.branch(&word.wallet)?;
        let key = branch.text();
        let _one_at_a_time = self.known.lock();
        let stored = self.state.read(|transaction| invoices::reserve(transaction, &key))?;
        let least = stored.reserve.after_restore(branch.used);
        if stored.generation >= self.generation && word.from.is_none() {
            return Err(Failure::conflict("this wallet needs no word: invoices go on"));
        }
        let from = word.from.unwrap_or(least);
        if from > RESUME_MAX {
            return Err(Failure::bad_request(format!("\"from\" must be {RESUME_MAX} or less")));
        }
        if from < least {
            return Err(Failure::bad_request(format!("\"from\" must be {least} or more")));
        }
        let stored = StoredReserve { reserve: stored.reserve.resumed(from), generation: self.generation };
        self.state.write(|transaction| invoices::put_reserve(transaction, &key, stored))?;
        Ok(stored.reserve.next)
    }

    // === following the chain ===

    /// Stores what a change of the index, or the time, makes of invoices; then tells it. While the node's mempool is
    /// not known, no state goes back and no time ends.
    pub(super) fn update(&self, at: &Snapshot, touched: &Touched, wallets: &dyn Wallets, now: u64) -> Result<()> {
        let numbers = self.known.lock().concerned(touched, now);
        let (mut changes, mut routed) = (Vec::new(), Vec::new());
        for number in numbers {
            let Some(mut invoice) = self.state.read(|transaction| invoices::get(transaction, number))?? else {
                continue;
            };
            let before = invoice.clone();
            let paid = match payments::of(at, &invoice, now) {
                Ok(paid) => paid,
                // One address that strangers filled, or an old block of a pruned node, must not keep the others.
                Err(error @ (ChainError::TooLong { .. } | ChainError::Removed { .. })) => {
                    tracing::warn!(%error, number, "failed to read the payments of an invoice");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            for one in &paid {
                invoice.note(&one.outpoint.to_string(), one.payment.seen);
            }
            let standing = payments::standing(at, &invoice, &paid, now);
            invoice.reported = standing.state;
            if invoice != before {
                routed.extend(notice(&invoice, before.reported, standing, wallets, now));
                changes.push((number, before.reported, invoice));
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        self.state.write(|transaction| {
            append(transaction, &mut routed)?;
            changes.iter().try_for_each(|(number, _, invoice)| invoices::put(transaction, *number, invoice))
        })?;
        if let Some(last) = routed.last() {
            wallets.appended(last.notice.seq);
        }
        let mut known = self.known.lock();
        for (number, before, invoice) in changes {
            known.add(number, &invoice);
            if before != invoice.reported {
                // Nobody listens now: everybody reads the state at first.
                let _ = self.reported.send(StateChange { id: invoice.id, state: invoice.reported });
            }
        }
        Ok(())
    }

    /// Returns the next time at which an invoice ends, in seconds since 1970.
    pub(super) fn next_end(&self) -> Option<u64> {
        let known = self.known.lock();
        known.states.values().filter(|short| short.reported.asks()).map(|short| short.expires).min()
    }
}

impl Known {
    fn add(&mut self, number: u64, invoice: &Invoice) {
        self.by_script.insert(ScriptHash::of(payments::script_of(invoice).as_bytes()), number);
        self.states.insert(number, Short { reported: invoice.reported, expires: invoice.expires });
        if let Some(oldest) = number.checked_sub(INVOICES_MAX).filter(|oldest| self.states.remove(oldest).is_some()) {
            self.by_script.retain(|_, number| *number != oldest);
        }
    }

    /// Returns the invoices whose state may have changed: their script was touched, their time has ended, or they wait
    /// for confirmations.
    fn concerned(&self, touched: &Touched, now: u64) -> Vec<u64> {
        let is_over = |short: &Short| short.reported == InvoiceState::Expired && short.expires + INVOICE_LATE_S < now;
        let waits = |short: &Short| match short.reported {
            InvoiceState::Paid | InvoiceState::Overpaid => true,
            InvoiceState::Unpaid | InvoiceState::Underpaid => short.expires < now,
            InvoiceState::Confirmed | InvoiceState::Expired => false,
        };
        match touched {
            Touched::Any => {
                self.states.iter().filter(|(_, short)| !is_over(short)).map(|(number, _)| *number).collect()
            }
            Touched::Scripts(scripts) => {
                let mut numbers: Vec<u64> = if self.by_script.len() < scripts.len() {
                    let is_touched = |script: &&ScriptHash| scripts.binary_search(script).is_ok();
                    self.by_script.iter().filter(|(script, _)| is_touched(script)).map(|(_, number)| *number).collect()
                } else {
                    scripts.iter().filter_map(|script| self.by_script.get(script)).copied().collect()
                };
                numbers.extend(self.states.iter().filter(|(_, short)| waits(short)).map(|(number, _)| *number));
                numbers.sort_unstable();
                numbers.dedup();
                numbers
            }
        }
    }
}

/// Returns the notice of a change, if the watch asks for it.
fn notice(
    invoice: &Invoice,
    before: InvoiceState,
    standing: Standing,
    wallets: &dyn Wallets,
    now: u64,
) -> Option<Routed> {
    let state = standing.state.change_from(before)?;
    let channels = wallets.channels_for(&invoice.watch, state);
    if channels.is_empty() {
        return None;
    }
    let (label, amount) = (invoice.label.clone(), invoice.amount);
    let kind = NoticeKind::Invoice(InvoiceNotice { invoice: invoice.id.to_string(), state, label, amount });
    let amounts = Amounts { received: standing.received, spent: 0 };
    Some(Routed { notice: Notice { amounts, ..Notice::apart(invoice.watch.clone(), kind, now) }, channels })
}

fn checked(mut order: Order) -> Result<Order, Failure> {
    if order.amount == 0 || order.amount > AMOUNT_MAX {
        return Err(Failure::bad_request("\"amount\" must be a number of satoshis, at least 1"));
    }
    if order.expiry.is_some_and(|expiry| expiry == 0 || expiry > INVOICE_EXPIRY_MAX) {
        return Err(Failure::bad_request(format!("\"expiry\" must be 1 to {INVOICE_EXPIRY_MAX} seconds")));
    }
    if order.confirmations.is_some_and(|confirmations| confirmations == 0 || confirmations > CONFIRMATIONS_MAX) {
        return Err(Failure::bad_request(format!("\"confirmations\" must be 1 to {CONFIRMATIONS_MAX}")));
    }
    if order.label.as_ref().is_some_and(|label| label.chars().count() > INVOICE_LABEL_CHARS_MAX) {
        return Err(Failure::bad_request(format!("\"label\" may have {INVOICE_LABEL_CHARS_MAX} characters")));
    }
    order.label = order.label.filter(|label| !label.is_empty());
    Ok(order)
}

/// The reason for which a branch gives no address: beyond the window no payment shows that an address is used.
fn reason(why: NotTaken, branch: &Branch) -> NotTaken {
    match why {
        NotTaken::Gap { .. } if branch.is_full => NotTaken::Full,
        why => why,
    }
}

fn warning(watch: &WatchName, unused: u32, gap: u32) -> String {
    format!(
        "{unused} addresses of {watch} before this one are unpaid; a wallet that is restored from its seed looks {gap} \
         ahead, and beyond that no invoice is made"
    )
}

fn must_resume(branch: &Branch, reserve: Reserve) -> Failure {
    let (watch, least) = (&branch.watch, reserve.after_restore(branch.used));
    Failure::conflict(format!(
        "this server was restored from a copy, so it does not know which addresses of {watch} were given after that. \
         Look for the highest number of an address that your shop has; numbers are the last part of \
         \"origin\". Then send POST /invoices/resume once, with {{\"wallet\": \"{watch}\", \"from\": N}}: N is beyond \
         that number, and {least} at least. Without \"from\" it goes on at {least}"
    ))
}

/// Follows the index and the clock until the index ends. What failed is done again, for all invoices.
pub(super) async fn follow(book: Arc<InvoiceBook>, index: Arc<Index>, wallets: Arc<dyn Wallets>, clock: fn() -> u64) {
    let mut updates = index.updates();
    let (mut touched, mut is_listed) = (Touched::Any, false);
    loop {
        let done = match index.snapshot() {
            Ok(at) => {
                if at.mempool().is_listed() && !is_listed {
                    // What was held back until now is in no update.
                    (touched, is_listed) = (Touched::Any, true);
                }
                offload(|| book.update(&at, &touched, &*wallets, clock()))
            }
            Err(_) => Ok(()),
        };
        let is_done = index.is_ready() && done.is_ok();
        if let Err(error) = done {
            tracing::error!(%error, "failed to update invoices");
        }
        let until_end = book.next_end().map_or(u64::MAX, |end| (end + 1).saturating_sub(clock()));
        // No update says that the mempool is known now.
        let pause = if is_done && is_listed { Duration::from_secs(until_end.clamp(1, PAUSE_MAX_S)) } else { RETRY };
        let next = tokio::select! {
            update = index.next_update(&mut updates) => match update {
                Some(update) => update.touched.clone(),
                None => return,
            },
            () = sleep(pause) => Touched::Scripts(Vec::new()),
            () = book.made.notified() => Touched::Scripts(Vec::new()),
        };
        touched = if is_done { next } else { Touched::Any };
    }
}

#[cfg(test)]
mod tests {
    use bitcoin::ScriptBuf;

    use super::*;
    use crate::api::wallets::BranchScripts;

    #[test]
    fn a_watch_without_further_scripts_is_no_question_of_its_gap() {
        let (watch, scripts) = (WatchName::new("Shop"), BranchScripts::Script(ScriptBuf::new()));
        let branch = Branch { watch, number: 0, scripts, gap: 20, watched: 75_000, is_full: false, used: Some(74_990) };
        let gap = NotTaken::Gap { unused: 20, gap: 20 };
        assert_eq!(reason(gap, &branch), gap);
        let full = Branch { is_full: true, ..branch };
        assert_eq!((reason(gap, &full), reason(NotTaken::Exhausted, &full)), (NotTaken::Full, NotTaken::Exhausted));
    }
}
