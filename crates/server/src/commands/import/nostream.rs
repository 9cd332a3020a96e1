//! Import of a Nostream's events from its PostgreSQL database, while Nostream runs or not.
//!
//! Several connections share one snapshot of the database. Each takes spans of event ids, which are hashes and so
//! spread evenly, reads a page of ids, and then the rows of those ids only that the relay lacks. The relay itself is
//! the record of an import's progress: an import that is repeated, or resumed after an interruption, reads only the ids
//! of events that the relay has.
//!
//! Events that Nostream marks as deleted are skipped. Their deletion requests are events too and are imported; they
//! keep out the events that they name, in either order of arrival. ([`table`] describes deletion requests that were
//! themselves deleted.)

mod connect;
mod row;
mod table;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use birdhouse_events::{EventId, Events, Timestamp};
use indicatif::{ProgressBar, ProgressStyle};
use postgres::fallible_iterator::FallibleIterator as _;
use postgres::{Client, Statement};

use self::row::Row;
use self::table::Table;
use super::intake::{self, Batch, Counts};

/// Ids of one page, and so the most rows of one query.
const PAGE: usize = 2048;
/// Bytes of one batch of rows; its last row may go beyond.
const BATCH_BYTES: usize = 8 << 20;
/// Batches that were read and wait for verification.
const BATCHES_WAITING: usize = 2;
/// Spans of ids, by their first byte. Ids are hashes, so spans have about the same size.
const SPANS: usize = 256;
/// Greater than any id, in the order of bytes.
const LAST_ID: [u8; 64] = [0xff; 64];

/// A snapshot of a Nostream's database.
pub(super) struct Database {
    clients: Vec<Client>,
    table: Table,
    rows: u64,
}

impl Database {
    /// Connects, and finds the table of events.
    pub(super) fn open(url: &str) -> Result<Self> {
        let mut clients = connect::one_snapshot(url)?;
        let first = clients.first_mut().expect("there is at least one connection");
        let table = Table::find(first)?;
        let counted = first.query_one(&table.count(), &[]).context("failed to count Nostream's events")?;
        let rows = u64::try_from(counted.try_get::<_, i64>(0)?).unwrap_or_default();
        Ok(Self { clients, table, rows })
    }

    /// Imports its events.
    pub(super) fn import(self, events: &Events) -> Result<Counts> {
        let Self { clients, table, rows } = self;
        tracing::info!(rows, connections = clients.len(), "importing from Nostream");
        let style = "{bar:40} {pos}/{len} rows {per_sec} {eta} {msg}";
        let bar = ProgressBar::new(rows).with_style(ProgressStyle::with_template(style)?);
        let (span, now) = (AtomicUsize::new(0), now());
        let counts = thread::scope(|scope| {
            let (out, read) = sync_channel(BATCHES_WAITING);
            for mut client in clients {
                let (out, table, span) = (out.clone(), &table, &span);
                scope.spawn(move || {
                    if let Err(error) =
                        Reader::new(&mut client, table, events, now, &out).and_then(|mut it| it.all(span))
                    {
                        // The receiver is gone if another connection failed before.
                        let _ = out
                            .send(Err(error.context("failed to read from Nostream; run the import again to resume")));
                    }
                });
            }
            drop(out);
            // The receiver moves into the closure and is dropped with it, which ends the readers too.
            intake::import(
                events,
                move || read.recv().ok().transpose(),
                |steps, counts| {
                    bar.inc(steps);
                    bar.set_message(format!("{} events stored", counts.stored));
                },
            )
        })?;
        bar.finish_and_clear();
        Ok(counts)
    }
}

/// The reader of one connection.
struct Reader<'a> {
    client: &'a mut Client,
    /// Selects the ids of a page.
    ids: Statement,
    /// Selects the rows of ids.
    rows: Statement,
    events: &'a Events,
    now: Timestamp,
    out: &'a SyncSender<Result<Batch<Row>>>,
}

impl<'a> Reader<'a> {
    fn new(
        client: &'a mut Client,
        table: &Table,
        events: &'a Events,
        now: Timestamp,
        out: &'a SyncSender<Result<Batch<Row>>>,
    ) -> Result<Self> {
        let ids = client.prepare(&table.ids(PAGE))?;
        let rows = client.prepare(&table.rows())?;
        Ok(Self { client, ids, rows, events, now, out })
    }

    /// Reads spans until every span was read by a connection.
    fn all(&mut self, next: &AtomicUsize) -> Result<()> {
        loop {
            let span = next.fetch_add(1, Ordering::Relaxed);
            if span >= SPANS || self.span(span)?.is_break() {
                return Ok(());
            }
        }
    }

    /// Reads a span. Breaks when the import has ended: no receiver is left.
    fn span(&mut self, span: usize) -> Result<ControlFlow<()>> {
        let first_byte = |span: usize| u8::try_from(span).map_or(LAST_ID.to_vec(), |byte| vec![byte]);
        let (mut from, end) = (first_byte(span), first_byte(span + 1));
        loop {
            let found = self.client.query(&self.ids, &[&from, &end])?;
            let ids = found.iter().map(|row| row.try_get(0)).collect::<Result<Vec<Vec<u8>>, _>>()?;
            let Some(last) = ids.last() else { return Ok(ControlFlow::Continue(())) };
            // The successor of the last id in the order of bytes.
            from = [last.as_slice(), &[0]].concat();
            if self.page(ids)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    /// Sends the rows of those ids that the relay lacks.
    fn page(&mut self, ids: Vec<Vec<u8>>) -> Result<ControlFlow<()>> {
        let steps = ids.len() as u64;
        let missing = self.missing(ids)?;
        let present = steps - missing.len() as u64;
        let mut candidates = Vec::with_capacity(missing.len());
        if !missing.is_empty() {
            let mut bytes = 0;
            let mut rows = self.client.query_raw(&self.rows, [&missing])?;
            while let Some(row) = rows.next()? {
                let row = Row::read(&row, self.now);
                bytes += row.bytes();
                candidates.push(row);
                if bytes > BATCH_BYTES {
                    let batch = Batch { candidates: std::mem::take(&mut candidates), steps: 0, present: 0 };
                    if self.out.send(Ok(batch)).is_err() {
                        return Ok(ControlFlow::Break(()));
                    }
                    bytes = 0;
                }
            }
        }
        let sent = self.out.send(Ok(Batch { candidates, steps, present }));
        Ok(if sent.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    }

    fn missing(&self, ids: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let mut missing = Vec::with_capacity(ids.len());
        for id in ids {
            let is_present = match <[u8; 32]>::try_from(id.as_slice()) {
                Ok(bytes) => self.events.has(&EventId(bytes))?,
                Err(_) => false, // its row is counted as malformed
            };
            if !is_present {
                missing.push(id);
            }
        }
        Ok(missing)
    }
}

#[expect(clippy::disallowed_methods, reason = "the edge: one time for the whole import")]
fn now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}
