//! The events of a Nostream, read out of its PostgreSQL while it runs, or not.
//!
//! Several connections see one moment of the database. Each takes spans of event ids, asks for the ids of a page, and for
//! the rows of those only that are not here: so what says how far an import has come is the relay itself. One that was cut off, or is
//! run again for what came meanwhile, costs the ids of what is here, and no more.
//!
//! Where Nostream has an event as deleted, it is left out. What deleted it is an event too, and comes over: it keeps out what it
//! names, whichever of both comes first. (See [`table`] for requests that were themselves deleted.)

mod connect;
mod row;
mod table;

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

/// Ids of one page, so rows that are asked for together.
const PAGE: usize = 2048;
/// Bytes of rows that are verified side by side; one row may go beyond.
const BATCH_BYTES: usize = 8 << 20;
/// Pages that were read and wait to be verified.
const BATCHES_WAITING: usize = 2;
/// Ids are hashes: so many spans, by their first byte, are of about one size.
const SPANS: usize = 256;
/// Longer than any id.
const LAST_ID: [u8; 64] = [0xff; 64];

/// A Nostream's database, as it is at one moment.
pub(super) struct Database {
    clients: Vec<Client>,
    table: Table,
    rows: u64,
}

impl Database {
    /// Connects and finds the table of events.
    pub(super) fn open(url: &str) -> Result<Self> {
        let mut clients = connect::one_moment(url)?;
        let first = clients.first_mut().expect("without a connection there is an error");
        let table = Table::find(first)?;
        let counted = first.query_one(&table.count(), &[]).context("cannot count Nostream's events")?;
        let rows = u64::try_from(counted.try_get::<_, i64>(0)?).unwrap_or_default();
        Ok(Self { clients, table, rows })
    }

    /// Takes its events in.
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
                        // Nobody hears it when another error came before.
                        let _ = out.send(Err(error.context("reading from Nostream stopped; run it again to go on")));
                    }
                });
            }
            drop(out);
            // It takes the receiver with it: then readers end too.
            intake::take_in(
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

/// One connection, and what it reads for.
struct Reader<'a> {
    client: &'a mut Client,
    /// The ids of a page.
    ids: Statement,
    /// The rows of some ids.
    rows: Statement,
    events: &'a Events,
    now: Timestamp,
    out: &'a SyncSender<Result<Batch<Row>>>,
}

/// Nobody takes what is read: the import has ended.
struct Ended;

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

    /// Reads spans that nobody has read, until there are none.
    fn all(&mut self, next: &AtomicUsize) -> Result<()> {
        loop {
            let span = next.fetch_add(1, Ordering::Relaxed);
            if span >= SPANS || self.span(span)?.is_err() {
                return Ok(());
            }
        }
    }

    fn span(&mut self, span: usize) -> Result<Result<(), Ended>> {
        let first_byte = |span: usize| u8::try_from(span).map_or(LAST_ID.to_vec(), |byte| vec![byte]);
        let (mut from, end) = (first_byte(span), first_byte(span + 1));
        loop {
            let found = self.client.query(&self.ids, &[&from, &end])?;
            let ids = found.iter().map(|row| row.try_get(0)).collect::<Result<Vec<Vec<u8>>, _>>()?;
            let Some(last) = ids.last() else { return Ok(Ok(())) };
            // What comes next in the order of bytes.
            from = [last.as_slice(), &[0]].concat();
            if self.page(ids)?.is_err() {
                return Ok(Err(Ended));
            }
        }
    }

    /// Sends the rows of those ids that are not here.
    fn page(&mut self, ids: Vec<Vec<u8>>) -> Result<Result<(), Ended>> {
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
                        return Ok(Err(Ended));
                    }
                    bytes = 0;
                }
            }
        }
        Ok(self.out.send(Ok(Batch { candidates, steps, present })).map_err(|_| Ended))
    }

    fn missing(&self, ids: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let mut missing = Vec::with_capacity(ids.len());
        for id in ids {
            let is_here = match <[u8; 32]>::try_from(id.as_slice()) {
                Ok(bytes) => self.events.has(&EventId(bytes))?,
                Err(_) => false, // the row is counted as malformed
            };
            if !is_here {
                missing.push(id);
            }
        }
        Ok(missing)
    }
}

#[expect(clippy::disallowed_methods, reason = "the edge: one import sees one time")]
fn now() -> Timestamp {
    Timestamp(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
}
