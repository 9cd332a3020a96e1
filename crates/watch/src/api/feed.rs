//! Streams of changes, as items; `entrance` sends them as server-sent events, `socket` as messages.
//!
//! A stream of wallets goes from state to state: what it sends is the difference of the last snapshot that its client
//! knows and the next one. Updates come from the watches, which know by then the scripts that an update made known,
//! such as those of silent payments. A position comes after all changes of its
//! block, so a client that comes back with it misses nothing. It may be announced again what was unconfirmed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Height, ScriptHash, Snapshot, Touched, Update};
use birdhouse_net::{Meter, PING_WORK};
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use hyper::StatusCode;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tokio::time::sleep;

use crate::api::change::{self, Change, Difference, Scripts};
use crate::api::failure::Failure;
use crate::api::history;
use crate::api::invoice_book::StateChange;
use crate::api::item::Item;
use crate::api::missing::Missing;
use crate::api::payments;
use crate::api::service::Service;
use crate::api::wallets::Following;
use crate::api::wish::{Feed, Synced, Wish};
use crate::invoice::InvoiceId;
use crate::limits::API_PORTION;

/// Interval of signs of life while nothing happens: they find out if the client is still there.
const ALIVE_INTERVAL: Duration = Duration::from_secs(20);

/// Checks that a cursor is of the chain.
///
/// # Errors
/// A reorg has taken its block: status 410.
pub(super) fn check(at: &Snapshot, synced: &Synced) -> Result<(), Failure> {
    let Synced { height, hash: Some(hash) } = *synced else { return Ok(()) };
    let current = at.block_hash(Height(height));
    if current == Some(hash) {
        return Ok(());
    }
    let current = current.unwrap_or(at.tip().hash);
    let text = format!("Reorg detected at height {height} (previous={hash} current={current})");
    Err(Failure::Refused(StatusCode::GONE, text.into()))
}

/// A connection that carries a stream.
pub(super) struct Caller {
    pub(super) service: Arc<Service>,
    pub(super) meter: Arc<Meter>,
    /// Changes, as its sender is dropped, when the server ends.
    pub(super) stopped: watch::Receiver<()>,
}

/// Opens a stream. Polling it for the next items may be given up at any time: nothing is lost.
pub(super) fn open(caller: Caller, feed: Feed) -> BoxStream<'static, Vec<Item>> {
    match feed {
        Feed::Changes(wish, synced) => stream::unfold(Changes::begin(caller, wish, synced), async |mut changes| {
            Some((changes.next().await?, changes))
        })
        .boxed(),
        Feed::Invoices(id) => {
            stream::unfold(Invoices::begin(caller, id), async |mut invoices| Some((invoices.next().await?, invoices)))
                .boxed()
        }
    }
}

/// A stream of changes.
struct Changes {
    caller: Caller,
    wish: Wish,
    synced: Option<Synced>,
    /// The state that the client knows once all that waits is sent; its updates come after it.
    known: Option<Following>,
    waiting: VecDeque<Part>,
}

/// A part of a difference that is still to be sent.
enum Part {
    Changes(Vec<Change>),
    /// Transactions, whose parts are read when they are sent.
    Entries(Vec<history::Entry>),
    Tip(BlockId),
}

/// A stream of invoices.
struct Invoices {
    caller: Caller,
    id: Option<InvoiceId>,
    reported: broadcast::Receiver<StateChange>,
    has_begun: bool,
}

// === impl Changes ===

impl Changes {
    /// Begins with what is unknown to the client.
    fn begin(caller: Caller, wish: Wish, synced: Option<Synced>) -> Self {
        Self { caller, wish, synced, known: None, waiting: VecDeque::new() }
    }

    /// Waits for the next items; `None` ends the stream.
    async fn next(&mut self) -> Option<Vec<Item>> {
        loop {
            if let Some(part) = self.waiting.pop_front() {
                let items = self.items(&part).await?;
                if items.is_empty() {
                    continue;
                }
                return charged(&self.caller.meter, items);
            }
            let Some(known) = &mut self.known else {
                return self.first().await;
            };
            let service = Arc::clone(&self.caller.service);
            let (at, scripts) = tokio::select! {
                update = known.updates.recv() => match update {
                    Ok(update) => touched(&service, &update),
                    Err(RecvError::Lagged(_)) => {
                        let Following { at, updates, .. } = service.wallets.follow()?;
                        known.updates = updates;
                        (at, service.book().scripthashes())
                    }
                    Err(RecvError::Closed) => return None,
                },
                () = sleep(ALIVE_INTERVAL) => return charged(&self.caller.meter, vec![Item::Alive]),
                _ = self.caller.stopped.changed() => return None,
            };
            let found = service.wallets.found_since(known.found);
            let scripts = Scripts { watched: &scripts, found: &found };
            let differs = || change::difference(&known.at, &at, scripts).map_err(Failure::from);
            let difference = service.read(&self.caller.meter, differs).await.ok()?;
            known.at = at;
            known.found += found.len();
            self.enqueue(difference);
        }
    }

    /// Begins at the current snapshot, with all changes since the client's cursor. Without one, the client learns
    /// where it begins.
    async fn first(&mut self) -> Option<Vec<Item>> {
        let following = self.caller.service.wallets.follow()?;
        let at = Arc::clone(&following.at);
        let mut items = vec![Item::Begun];
        if let Some(synced) = self.synced {
            let service = Arc::clone(&self.caller.service);
            let scripts = service.book().scripthashes();
            let read = || history::entries(&at, &scripts, synced.next_height()).map_err(Failure::from);
            let changed = service.read(&self.caller.meter, read).await.ok()?;
            self.enqueue(Difference { changed, tip: Some(at.tip()), ..Difference::default() });
        } else {
            items.push(Item::Position(at.tip()));
        }
        self.known = Some(following);
        Some(items)
    }

    fn enqueue(&mut self, Difference { reorg, gone, changed, tip }: Difference) {
        let gone = gone.into_iter().map(|txid| Change::TransactionReplaced { txid });
        let first: Vec<Change> = reorg.into_iter().chain(gone).collect();
        self.waiting.push_back(Part::Changes(first));
        self.waiting.extend(changed.chunks(API_PORTION).map(|entries| Part::Entries(entries.to_vec())));
        self.waiting.extend(tip.map(Part::Tip));
    }

    /// Returns the items of a part; `None` if it cannot be read, which ends the stream: the client comes back.
    async fn items(&mut self, part: &Part) -> Option<Vec<Item>> {
        match part {
            Part::Changes(changes) => Some(self.asked(changes)),
            Part::Tip(block) => {
                let tip = Change::ChainTip(*block);
                let item = if self.wish.has(&tip) { Item::Tip(*block, tip.to_json()) } else { Item::Position(*block) };
                Some(vec![item])
            }
            Part::Entries(entries) => {
                let (service, at) = (Arc::clone(&self.caller.service), Arc::clone(&self.known.as_ref()?.at));
                let read = || read_changes(&service, &at, entries);
                let changes = service.read(&self.caller.meter, read).await.ok()?;
                Some(self.asked(&changes))
            }
        }
    }

    fn asked(&self, changes: &[Change]) -> Vec<Item> {
        let asked = changes.iter().filter(|change| self.wish.has(change));
        asked.map(|change| Item::Event(change.to_json())).collect()
    }
}

/// Returns the watched scripts that an update touched.
fn touched(service: &Service, update: &Update) -> (Arc<Snapshot>, Vec<ScriptHash>) {
    let book = service.book();
    let scripts = match &update.touched {
        Touched::Any => book.scripthashes(),
        Touched::Scripts(scripts) => scripts.iter().filter(|script| book.has(script)).copied().collect(),
    };
    (Arc::clone(&update.snapshot), scripts)
}

/// Reads the watched parts of transactions. One that has left since has a later snapshot to say so.
fn read_changes(service: &Service, at: &Snapshot, entries: &[history::Entry]) -> Result<Vec<Change>, Failure> {
    let book = service.book();
    let (mut changes, mut missing) = (Vec::new(), Missing::default());
    for entry in entries {
        if let Some(found) = missing.take(at.resolved(entry.txid))?.flatten() {
            let of_it = change::of_transaction(at, &found, &|script| book.has(script));
            changes.extend(missing.take(of_it)?.unwrap_or_default());
        }
    }
    missing.end()?;
    Ok(changes)
}

// === impl Invoices ===

impl Invoices {
    /// Begins with the state of one invoice, if it is about one.
    fn begin(caller: Caller, id: Option<InvoiceId>) -> Self {
        let reported = caller.service.invoices.reported();
        Self { caller, id, reported, has_begun: false }
    }

    /// Waits for the next items; `None` ends the stream.
    async fn next(&mut self) -> Option<Vec<Item>> {
        if !std::mem::replace(&mut self.has_begun, true) {
            return match self.id {
                Some(id) => self.event(id).await,
                None => Some(vec![Item::Begun]),
            };
        }
        loop {
            let reported = tokio::select! {
                reported = self.reported.recv() => reported,
                () = sleep(ALIVE_INTERVAL) => return charged(&self.caller.meter, vec![Item::Alive]),
                _ = self.caller.stopped.changed() => return None,
            };
            match reported {
                Ok(StateChange { id, .. }) if self.id.is_none_or(|own| own == id) => return self.event(id).await,
                Ok(_) => {}
                // The client comes back, and reads the states.
                Err(_) => return None,
            }
        }
    }

    async fn event(&self, id: InvoiceId) -> Option<Vec<Item>> {
        let service = &self.caller.service;
        let at = service.index.snapshot().ok()?;
        let now = (service.settings.clock)();
        let read = || {
            let Some(invoice) = service.invoices.get(&id)? else { return Ok(None) };
            let paid = payments::of(&at, &invoice, now)?;
            Ok(Some(payments::json(&at, &invoice, &paid, now)))
        };
        let invoice = service.read(&self.caller.meter, read).await.ok()??;
        let event = json!({ "category": "Invoice", "params": [invoice] });
        charged(&self.caller.meter, vec![Item::Event(event)])
    }
}

/// Charges a client for what it is sent. One that has used its share comes back.
fn charged(meter: &Meter, items: Vec<Item>) -> Option<Vec<Item>> {
    meter.charge(PING_WORK, Instant::now()).ok()?;
    Some(items)
}
