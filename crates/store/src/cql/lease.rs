//! The row of a place: its lease, and the state that readers see.
//!
//! The owner raises the row's *beat* again and again. Another process takes the lease over once it has seen no beat for
//! the time of a lease, by its own clock, so clocks need not agree. Safety does not depend on time: a take-over raises
//! the epoch, and every update is on condition of the epoch.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use scylla::errors::ExecutionError;
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use scylla::value::Row;

use super::cluster::{Link, failed, patiently};
use super::rows::rows_of;
use crate::error::{Error, Result};

/// Beats in the time of a lease.
const BEATS_PER_LEASE: u32 = 5;
/// The pause before the outcome of an update is read, where it is unknown.
const DOUBT_PAUSE: Duration = Duration::from_millis(100);
/// Times that an update of unknown outcome is repeated.
const DOUBTS_MAX: u32 = 30;

/// A lease that this process holds.
pub(super) struct Lease {
    pub(super) place: Arc<str>,
    pub(super) epoch: i64,
    /// The last beat that was sent.
    beat: AtomicI64,
    /// The number of the last publish that was tried. No number is used twice.
    tried: AtomicI64,
    /// The number of the last publish that was seen in the row.
    published: AtomicI64,
    /// Set once another process was seen to hold the lease, or once this one has given it up.
    is_over: AtomicBool,
}

/// The row of a place.
#[derive(Debug, Clone)]
pub(super) struct PlaceRow {
    pub(super) epoch: i64,
    pub(super) owner: String,
    beat: i64,
    /// The number of the last publish, which readers compare.
    pub(super) published: i64,
    /// `None` before the first publish.
    pub(super) state: Option<Vec<u8>>,
}

/// The outcome of a conditional update.
enum Outcome {
    Applied,
    Refused,
    /// The update may have happened, or may still happen.
    Unknown(Box<ExecutionError>),
}

/// Reads the row of a place as the last majority has it; `None` if nobody ever held its lease.
pub(super) async fn read(link: &Link, place: &str) -> Result<Option<PlaceRow>> {
    read_by(link, place, link.statements.manifest.clone(), Consistency::LocalQuorum).await
}

/// Reads the row of a place after every update that is under way has been decided.
async fn read_decided(link: &Link, place: &str) -> Result<Option<PlaceRow>> {
    let mut statement = link.statements.manifest.clone();
    // Two of these at once would hinder each other.
    statement.set_execution_profile_handle(None);
    read_by(link, place, statement, Consistency::LocalSerial).await
}

async fn read_by(
    link: &Link,
    place: &str,
    mut statement: PreparedStatement,
    consistency: Consistency,
) -> Result<Option<PlaceRow>> {
    statement.set_consistency(consistency);
    let found = link.send("read the manifest", &statement, (place,)).await?;
    let row = rows_of::<(i64, String, i64, i64, Option<Vec<u8>>)>(found)?.into_iter().next();
    Ok(row.map(|(epoch, owner, beat, published, state)| PlaceRow { epoch, owner, beat, published, state }))
}

/// Sends a conditional update once.
async fn update(link: &Link, statement: &PreparedStatement, values: impl SerializeRow) -> Result<Outcome> {
    match link.session.execute_unpaged(statement, values).await {
        Ok(answer) => is_applied(answer).map(|applied| if applied { Outcome::Applied } else { Outcome::Refused }),
        Err(cause) => Ok(Outcome::Unknown(Box::new(cause))),
    }
}

/// Reads the column `[applied]`. The other columns differ between servers and outcomes.
fn is_applied(answer: QueryResult) -> Result<bool> {
    let malformed = || Error::Engine("failed to read an answer of the cluster: it has no column [applied]".to_owned());
    let rows = answer.into_rows_result().map_err(|cause| failed("read an answer of the cluster", &cause))?;
    let (column, _) = rows.column_specs().get_by_name("[applied]").ok_or_else(malformed)?;
    let row: Row = rows.first_row().map_err(|cause| failed("read an answer of the cluster", &cause))?;
    row.columns.get(column).and_then(|value| value.as_ref()?.as_boolean()).ok_or_else(malformed)
}

/// A process that waits for the lease of a place.
pub(super) struct Candidate {
    place: Arc<str>,
    /// Differs from that of every other process.
    owner: String,
    seen: PlaceRow,
    /// The time at which the last sign of life was seen.
    since: tokio::time::Instant,
}

/// The outcome of one attempt to take a lease.
pub(super) enum Attempt {
    /// The lease, and the state that was published last.
    Acquired(Lease, Option<Vec<u8>>),
    /// The owner is alive, or may be.
    Wait(Candidate),
}

// === impl Candidate ===

impl Candidate {
    pub(super) async fn new(link: Arc<Link>, place: Arc<str>, owner: String) -> Result<Self> {
        let values = (&*place,);
        let create = || link.session.execute_unpaged(&link.statements.create_manifest, values);
        patiently("create the manifest", create).await?;
        let seen = known(&link, &place).await?;
        if !seen.owner.is_empty() {
            tracing::info!(place = &*place, owner = seen.owner, epoch = seen.epoch, "waiting for the lease");
        }
        Ok(Self { place, owner, seen, since: tokio::time::Instant::now() })
    }

    /// Takes the lease if nobody holds it, or if its owner has been silent for `silence`.
    pub(super) async fn attempt(mut self, link: Arc<Link>, silence: Duration) -> Result<Attempt> {
        let before = self.seen.clone();
        self.seen = known(&link, &self.place).await?;
        let sign = |row: &PlaceRow| (row.epoch, row.beat, row.published);
        if sign(&self.seen) != sign(&before) {
            self.since = tokio::time::Instant::now();
        }
        if !self.seen.owner.is_empty() && self.since.elapsed() < silence {
            return Ok(Attempt::Wait(self));
        }
        let (epoch, beat) = (self.seen.epoch + 1, self.seen.beat + 1);
        let values = (epoch, self.owner.as_str(), beat, &*self.place, self.seen.epoch, self.seen.beat);
        let outcome = update(&link, &link.statements.take_lease, values).await?;
        self.seen = known(&link, &self.place).await?;
        let is_ours = (self.seen.epoch, &self.seen.owner) == (epoch, &self.owner);
        if is_ours && !matches!(outcome, Outcome::Refused) {
            tracing::info!(place = &*self.place, epoch, "took the lease");
            let state = self.seen.state.take();
            return Ok(Attempt::Acquired(Lease::new(self.place, epoch, &self.seen), state));
        }
        self.since = tokio::time::Instant::now();
        Ok(Attempt::Wait(self))
    }
}

/// Reads the row of a place that exists.
async fn known(link: &Link, place: &str) -> Result<PlaceRow> {
    let missing = || Error::Corrupt { table: "manifest".to_owned(), reason: format!("the row of {place} is missing") };
    read_decided(link, place).await?.ok_or_else(missing)
}

// === impl Lease ===

impl Lease {
    fn new(place: Arc<str>, epoch: i64, row: &PlaceRow) -> Self {
        let [beat, tried, published] = [row.beat, row.published, row.published].map(AtomicI64::new);
        Self { place, epoch, beat, tried, published, is_over: AtomicBool::new(false) }
    }

    /// Raises the beat until the lease is over.
    pub(super) async fn keep(self: Arc<Self>, link: Arc<Link>, silence: Duration) {
        loop {
            tokio::time::sleep(silence / BEATS_PER_LEASE).await;
            if self.is_over.load(Ordering::Relaxed) {
                return;
            }
            let values = (self.next_beat(), &*self.place, self.epoch);
            match update(&link, &link.statements.renew_lease, values).await {
                Ok(Outcome::Applied) => {}
                Ok(Outcome::Refused) => {
                    self.is_over.store(true, Ordering::Relaxed);
                    tracing::error!(place = &*self.place, epoch = self.epoch, "another process took over the lease");
                }
                Ok(Outcome::Unknown(cause)) => tracing::warn!(%cause, "failed to renew the lease, trying again"),
                Err(error) => tracing::warn!(%error, "failed to renew the lease, trying again"),
            }
        }
    }

    /// Makes `state` current.
    ///
    /// A node may hold an update back for minutes, until long after this process has repeated it and published more. So
    /// each publish is on condition of the one before it, too.
    ///
    /// # Errors
    /// [`Error::Fenced`] if another process has taken over the lease; [`Error::Cluster`] if the outcome is unknown.
    pub(super) async fn publish(self: Arc<Self>, link: Arc<Link>, state: Vec<u8>) -> Result<()> {
        let number = self.tried.fetch_add(1, Ordering::Relaxed) + 1;
        for _ in 0..DOUBTS_MAX {
            self.check()?;
            let before = self.published.load(Ordering::Relaxed);
            let values = (&state, number, self.next_beat(), &*self.place, self.epoch, before);
            match update(&link, &link.statements.publish, values).await? {
                Outcome::Applied => {
                    self.published.store(number, Ordering::Relaxed);
                    return Ok(());
                }
                Outcome::Refused => {}
                Outcome::Unknown(cause) => {
                    tracing::debug!(%cause, "failed to publish, looking at the outcome");
                    tokio::time::sleep(DOUBT_PAUSE).await;
                }
            }
            match read_decided(&link, &self.place).await? {
                Some(row) if row.epoch == self.epoch => {
                    self.published.store(row.published, Ordering::Relaxed);
                    if row.published == number {
                        return Ok(());
                    }
                }
                _ => self.is_over.store(true, Ordering::Relaxed),
            }
        }
        let action = "publish the manifest".to_owned();
        Err(Error::Cluster { action, cause: "the cluster did not decide about it".to_owned() })
    }

    /// Gives the lease up, so that another process need not wait.
    pub(super) async fn release(self: Arc<Self>, link: Arc<Link>) -> Result<()> {
        if self.is_over.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        update(&link, &link.statements.release_lease, (&*self.place, self.epoch)).await.map(drop)
    }

    /// # Errors
    /// [`Error::Fenced`] once the lease is known to be lost.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(Error::Fenced { place: self.place.to_string() });
        }
        Ok(())
    }

    fn next_beat(&self) -> i64 {
        self.beat.fetch_add(1, Ordering::Relaxed) + 1
    }
}
