//! Silent payments of one client: its histories, scanned in the background, and what each update brings.
//!
//! Blocks are scanned in pieces, and a piece in turns of long reads, on threads that may wait for the disk: whoever
//! asks a short question goes first. A client pays for the time as for its requests, and its scans pause before they
//! use up what its requests need. They end within a slice of about a millisecond when it goes.
//!
//! Connections with one key share what was scanned: the second waits for the piece that the first scans.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_chain::{Found, Height, MempoolTransaction, Snapshot, Tweaks};
use tokio::time::sleep_until;

use crate::client::{Client, RECHECK, SILENT_DUE};
use crate::connection::turns::{self, BEHIND, FAILED, Failure, IsOver, WORK_PERCENT, Work};
use crate::service::{Service, Silent};
use crate::silentpayments::{CaughtUp, Cursor, Job, Part, Piece, Progress, Shares, Step, find_unconfirmed};

/// Transactions of the mempool that are listed outside a turn; more take milliseconds.
const LISTED_INLINE: u64 = 1_000;

/// Ends the subscriptions when the connection stops listening.
struct Ending<'a>(&'a Client);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.state().silent.clear();
    }
}

/// Scans histories whenever there are any, until the client has gone.
pub(super) async fn run(service: &Arc<Service>, client: &Client) {
    let _ending = Ending(client);
    loop {
        client.signals.raised(SILENT_DUE).await;
        // Few clients have any: its state is not part of every connection's.
        if Box::pin(serve(service, client)).await == Outlook::Gone {
            return;
        }
    }
}

/// The client, after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outlook {
    /// It may subscribe later.
    Rests,
    /// Nobody writes to it any more.
    Gone,
}

async fn serve(service: &Arc<Service>, client: &Client) -> Outlook {
    loop {
        if !client.outbox.room().await {
            return Outlook::Gone;
        }
        let step = {
            let mut state = client.state();
            let now = Instant::now();
            push(client, state.silent.due(now));
            state.silent.step(now)
        };
        match step {
            Step::Rest => return Outlook::Rests,
            Step::Flush(ids) => {
                if !client.outbox.flushed().await {
                    return Outlook::Gone;
                }
                client.state().silent.written(&ids, Instant::now());
            }
            Step::Scan(job) => history(service, client, &job).await,
            Step::Recheck => client.signals.raise(RECHECK),
            Step::Wait(None) => client.signals.raised(SILENT_DUE).await,
            Step::Wait(Some(until)) => tokio::select! {
                () = client.signals.raised(SILENT_DUE) => {}
                () = sleep_until(until.into()) => {}
            },
        }
    }
}

fn push(client: &Client, notifications: Vec<Vec<u8>>) {
    for notification in notifications {
        client.push_notification(notification);
    }
}

/// Takes the result of a part of a scan, and sends what is new.
fn take(service: &Service, client: &Client, job: &Job, scanned: Scanned) {
    let (mut state, now) = (client.state(), Instant::now());
    let sent = match scanned {
        Scanned::Blocks(progress) => state.silent.advance(job.id, progress, now),
        Scanned::Everything(caught_up) => {
            service.counters.silent(Silent::Histories, usize::from(!job.is_live()));
            state.silent.catch_up(job.id, caught_up, now)
        }
    };
    service.counters.silent(Silent::Found, sent.transactions);
    push(client, sent.notifications);
}

/// Scans a part of a history, and sends what is new.
async fn history(service: &Arc<Service>, client: &Client, job: &Job) {
    if let Err(overdrawn) = client.meter.check_percent(WORK_PERCENT, Instant::now()) {
        return put_off(client, job, overdrawn.wait);
    }
    let Ok(at) = service.index.snapshot() else { return put_off(client, job, BEHIND) };
    match scan(service, client, job, &at).await {
        Ok(Some(scanned)) => {
            if let Scanned::Everything(_) = scanned {
                // An update that came meanwhile has woken the notifier for live subscriptions alone; scripts wait.
                client.signals.raise(RECHECK);
            }
            take(service, client, job, scanned);
        }
        Ok(None) => put_off(client, job, BEHIND),
        Err(_) => put_off(client, job, FAILED),
    }
}

fn put_off(client: &Client, job: &Job, pause: Duration) {
    client.state().silent.put_off(job.id, Instant::now() + pause);
    client.signals.raise(SILENT_DUE);
    if !job.is_live() {
        // Scripts may have waited for the end of the history.
        client.signals.raise(RECHECK);
    }
}

/// Sends what is new at a snapshot to live subscriptions. A client that takes too long to read is disconnected.
pub(super) async fn notify(service: &Arc<Service>, client: &Client, at: &Arc<Snapshot>) {
    let (live, began) = (client.state().silent.live(), Instant::now());
    for job in live {
        let mut next = Some(job);
        while let Some(job) = next.take() {
            if !client.room(began).await {
                return;
            }
            next = notify_next(service, client, &job, at).await;
        }
    }
}

/// Scans what a live subscription lacks next, and sends what is new. Returns what is left of the scan. A client that
/// has used more than its limit waits, as with its requests.
async fn notify_next(service: &Arc<Service>, client: &Client, job: &Job, at: &Arc<Snapshot>) -> Option<Job> {
    if let Err(overdrawn) = client.meter.check(Instant::now()) {
        put_off(client, job, overdrawn.wait);
        return None;
    }
    match scan(service, client, job, at).await {
        Ok(Some(scanned)) => {
            let is_end = matches!(scanned, Scanned::Everything(_));
            take(service, client, job, scanned);
            if !is_end {
                return client.state().silent.live().into_iter().find(|next| next.id == job.id);
            }
        }
        Ok(None) => put_off(client, job, BEHIND),
        Err(_) => put_off(client, job, FAILED),
    }
    None
}

// === scans ===

/// Result of a part of a scan.
enum Scanned {
    Blocks(Progress),
    /// The mempool, after all blocks.
    Everything(CaughtUp),
}

/// Scans the next blocks of a job, or the mempool if all are scanned. Returns `None` if the subscription has ended or
/// the index does not cover the blocks.
async fn scan(
    service: &Arc<Service>,
    client: &Client,
    job: &Job,
    at: &Arc<Snapshot>,
) -> Result<Option<Scanned>, Failure> {
    let Some(tweaks) = Tweaks::among(service.index.derived()) else { return Ok(None) };
    let (len, least) = (at.tip().height.0 + 1, tweaks.start().0);
    let hash_at = |height: u32| at.block_hash(Height(height));
    let scanner = Scan { service, client, job, at, tweaks };
    let Some(heights) = job.blocks(len, least, hash_at) else {
        // Before the first wait, so that no update comes between the snapshot of a history and this.
        client.state().silent.ends(job.id);
        let Some(found) = scanner.mempool().await? else { return Ok(None) };
        let (cursor, mempool_from) = (Cursor::at(len, hash_at), at.mempool().next_arrival());
        return Ok(Some(Scanned::Everything(CaughtUp { cursor, found, mempool_from })));
    };
    let mut known = job.key.known.lock().await;
    let part = if let Some(part) = known.from(heights.start, heights.end, hash_at) {
        part
    } else {
        let Some(found) = scanner.blocks(heights.clone()).await? else { return Ok(None) };
        known.add(heights.clone(), &found, hash_at);
        Part { found, end: heights.end }
    };
    drop(known);
    let cursor = Cursor::at(part.end, hash_at);
    let rows = match job.shares(part.end, len, least) {
        None => Some(1.0),
        Some(Shares { done, all }) => scanner.share(done, all).await?,
    };
    let Some(rows) = rows else { return Ok(None) };
    Ok(Some(Scanned::Blocks(Progress { cursor, found: part.found, rows })))
}

/// A scan at a snapshot.
struct Scan<'a> {
    service: &'a Arc<Service>,
    client: &'a Client,
    job: &'a Job,
    at: &'a Arc<Snapshot>,
    tweaks: Tweaks,
}

/// Transactions of the mempool, and what was found among those that do not wait any more.
struct Unconfirmed {
    waiting: Vec<Arc<MempoolTransaction>>,
    found: Vec<Found>,
}

impl Unconfirmed {
    /// Lists the transactions that entered the mempool from this number on and may pay somebody.
    fn since(at: &Snapshot, since: u64) -> Self {
        let waiting = at.mempool().arrived_since(since).filter(|transaction| transaction.tweak().is_some());
        Self { waiting: waiting.cloned().collect(), found: Vec::new() }
    }
}

impl Scan<'_> {
    /// Returns what is in some blocks; `None` as [`scan`].
    async fn blocks(&self, heights: Range<u32>) -> Result<Option<Vec<Found>>, Failure> {
        let (service, key) = (Arc::clone(self.service), Arc::clone(&self.job.key));
        let (at, tweaks) = (Arc::clone(self.at), self.tweaks.clone());
        // A live subscription waits for no history: scripts wait for it.
        let _in_memory = if self.job.is_live() { None } else { Some(self.service.silent.piece().await) };
        self.in_turns(None::<Piece>, move |piece, is_over| {
            let piece = match piece {
                Some(piece) => Some(piece),
                None => Piece::read(&tweaks, &at, heights.clone())?,
            };
            let Some(mut piece) = piece else { return Ok(Work::Done(None)) };
            let scanner = key.scanner(service.silent.engine());
            let is_over_after = |rows| {
                service.counters.silent(Silent::Scanned, rows);
                is_over()
            };
            if !piece.advance(scanner, &service.silent.pace, is_over_after)? {
                return Ok(Work::Left(Some(piece)));
            }
            Ok(match piece.prove(&at, scanner, is_over)? {
                None => Work::Left(Some(piece)),
                found => Work::Done(found),
            })
        })
        .await
    }

    /// Returns what is in the part of the mempool that was not scanned; `None` as [`scan`].
    async fn mempool(&self) -> Result<Option<Vec<Found>>, Failure> {
        let next = self.at.mempool().next_arrival();
        // A mempool that was read anew counts from the beginning.
        let since = if self.job.mempool_from > next { 0 } else { self.job.mempool_from };
        let listed = (next - since <= LISTED_INLINE).then(|| Unconfirmed::since(self.at, since));
        if listed.as_ref().is_some_and(|part| part.waiting.is_empty()) {
            return Ok(Some(Vec::new()));
        }
        let (service, key) = (Arc::clone(self.service), Arc::clone(&self.job.key));
        let (at, tweaks) = (Arc::clone(self.at), self.tweaks.clone());
        self.in_turns(listed, move |part, is_over| {
            let mut part = part.unwrap_or_else(|| Unconfirmed::since(&at, since));
            let (scanner, before) = (key.scanner(service.silent.engine()), part.waiting.len());
            part.found.extend(find_unconfirmed(&tweaks, scanner, &mut part.waiting, is_over)?);
            service.counters.silent(Silent::Scanned, before - part.waiting.len());
            Ok(if part.waiting.is_empty() { Work::Done(Some(part.found)) } else { Work::Left(Some(part)) })
        })
        .await
    }

    /// Returns the part of 1 that some blocks have of the rows of others; `None` as [`scan`].
    async fn share(&self, some: Range<u32>, all: Range<u32>) -> Result<Option<f64>, Failure> {
        let (at, tweaks) = (Arc::clone(self.at), self.tweaks.clone());
        self.in_turns((), move |(), _| {
            let rows = |blocks: &Range<u32>| tweaks.rows(&at, Height(blocks.start)..Height(blocks.end));
            let (Some(some), Some(all)) = (rows(&some)?, rows(&all)?) else { return Ok(Work::Done(None)) };
            #[expect(clippy::cast_precision_loss, reason = "a bar has fewer pixels")]
            let share = some as f64 / all.max(1) as f64;
            Ok(Work::Done(Some(share)))
        })
        .await
    }

    /// Does work in turns of long reads; `None` if the subscription has ended.
    async fn in_turns<T: Send + 'static, R: Send + 'static>(
        &self,
        state: T,
        part: impl FnMut(T, IsOver<'_>) -> birdhouse_chain::Result<Work<T, Option<R>>> + Send + 'static,
    ) -> Result<Option<R>, Failure> {
        let job = self.job.clone();
        turns::in_turns(self.service, self.client, move || job.is_cancelled(), state, part).await
    }
}
