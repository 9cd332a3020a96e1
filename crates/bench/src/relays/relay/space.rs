//! Disk space of a store of events of which half are gone, beside one that only ever had the others.
//!
//! This process opens the events as the relay does. Both stores get their events in batches, with the compaction that
//! is due after each.

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use birdhouse_events::{
    Event, EventId, Events, EventsOptions, Keys, Kind, Seq, TABLES, Tag, Timestamp, UnsignedEvent, VerifiedEvent,
};
use birdhouse_regtest::rng::Rng;
use birdhouse_store::{SegmentOptions, SegmentStore, Store as _};

use crate::machine::args::at_least_one;
use crate::machine::folder;
use crate::machine::process::cpu_of_thread;
use crate::report::record::{Cell, Layout, Measured, Record, Table, Unit};

#[derive(Debug, clap::Args)]
pub(crate) struct Plan {
    /// New folder for the two stores.
    #[arg(long)]
    work: PathBuf,
    /// Number of events.
    #[arg(long, default_value_t = 1_000_000, value_parser = at_least_one::<u64>())]
    events: u64,
    /// Seed of the events.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Secret of the index, the same for every run: names of lists are hashed with it.
const SECRET: [u8; 16] = *b"birdhouse-bench!";
/// Number of events that are made durable together.
const BATCH: usize = 1000;
const AUTHORS: usize = 3000;
/// Time of the first event; the next ones follow a second apart.
const BEGIN: u64 = 1_700_000_000;
/// Seconds after which notes with an expiration expire.
const LIFETIME: u64 = 5000;
/// Own notes that a deletion request names.
const DELETED_TOGETHER: usize = 12;

/// Kinds of events that others replace.
const REPLACED: [u16; 4] = [0, 3, 10_002, 30_023];

/// A store that is filled, and its costs.
struct Filled {
    live: u64,
    unreclaimed: u64,
    /// Bytes by table and array.
    sizes: BTreeMap<String, u64>,
    /// Bytes of all files.
    bytes: u64,
    accept: Duration,
    compaction: Duration,
}

/// Source of the events.
struct Source {
    rng: Rng,
    authors: Vec<Keys>,
    /// Each author's notes that are not deleted.
    notes: Vec<Vec<EventId>>,
    number: u64,
}

pub(crate) fn run(plan: &Plan) -> Result<Record> {
    fs::create_dir(&plan.work).with_context(|| format!("failed to create {}", plan.work.display()))?;
    let mut record = Record::begin("Space of events that are gone", &plan.work);
    record.servers = vec![Measured::new("birdhouse", Some(env!("CARGO_PKG_VERSION")), "")];
    let (gone, never) = (plan.work.join("gone"), plan.work.join("never"));
    let mut source = Source::new(plan.seed);
    let mut left = usize::try_from(plan.events)?;
    let whole = fill(&gone, || {
        let count = BATCH.min(left);
        left -= count;
        source.batch(count)
    })?;
    let events = open(&gone)?.0;
    let mut next = 0;
    let others = fill(&never, || stored(&events, &mut next))?;
    ensure!(others.live == whole.live, "{} events of {} live ones were stored", others.live, whole.live);
    record.tables.push(sizes(plan, &whole, &others));
    record.tables.push(costs(plan, &whole, &others));
    Ok(record)
}

fn open(folder: &Path) -> Result<(Events, Arc<SegmentStore>)> {
    let options = SegmentOptions { cache_bytes: 1 << 20, ..SegmentOptions::default() };
    let store = Arc::new(SegmentStore::open(folder, TABLES, options)?);
    Ok((Events::open(Arc::clone(&store) as _, SECRET, EventsOptions::default())?, store))
}

/// Fills a store until a batch is empty, and waits for its compaction.
fn fill(folder: &Path, mut batch: impl FnMut() -> Result<Vec<VerifiedEvent>>) -> Result<Filled> {
    let (events, store) = open(folder)?;
    let (mut accept, mut compaction) = (Duration::ZERO, Duration::ZERO);
    loop {
        let some = batch()?;
        let Some(last) = some.last() else { break };
        let now = u32::try_from(last.created_at.0)?;
        let before = cpu_of_thread()?;
        events.accept(&some.iter().collect::<Vec<_>>())?;
        let accepted = cpu_of_thread()?;
        while events.expire(now)? {}
        while events.compact()? {}
        accept += accepted.saturating_sub(before);
        compaction += cpu_of_thread()?.saturating_sub(accepted);
    }
    let sizes = store.sizes()?.into_iter().collect();
    let (live, unreclaimed) = (events.live_events(), events.unreclaimed_events());
    drop((events, store));
    // Opening removes the log of writes that are in other files.
    drop(open(folder)?);
    Ok(Filled { live, unreclaimed, sizes, bytes: folder::disk_bytes(folder)?, accept, compaction })
}

/// Returns the next events that are not gone; an empty list at the end of the store.
fn stored(events: &Events, next: &mut u64) -> Result<Vec<VerifiedEvent>> {
    let mut found: Vec<Event> = Vec::new();
    while found.is_empty() && *next < events.end().0 {
        let seqs: Vec<Seq> = (*next..events.end().0.min(*next + BATCH as u64)).map(Seq).collect();
        events.visit(&seqs, &mut |_, packed| {
            found.extend(packed.to_event());
            ControlFlow::Continue(())
        })?;
        *next += BATCH as u64;
    }
    in_parallel(&found, |event| event.clone().verify().map_err(|rejection| anyhow!("{rejection:?}")))
}

fn in_parallel<T: Sync, U: Send>(all: &[T], make: impl Fn(&T) -> Result<U> + Sync) -> Result<Vec<U>> {
    let share = all.len().div_ceil(thread::available_parallelism().map_or(1, Into::into)).max(1);
    thread::scope(|scope| {
        let make = &make;
        let threads: Vec<_> = all
            .chunks(share)
            .map(|some| scope.spawn(move || some.iter().map(make).collect::<Result<Vec<_>>>()))
            .collect();
        let mut made = Vec::with_capacity(all.len());
        for thread in threads {
            made.extend(thread.join().map_err(|_| anyhow!("a thread panicked"))??);
        }
        Ok(made)
    })
}

// === events ===

impl Source {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let authors = (0..AUTHORS).filter_map(|_| Keys::from_secret(rng.bytes())).collect();
        Self { rng, authors, notes: vec![Vec::new(); AUTHORS], number: 0 }
    }

    fn batch(&mut self, count: usize) -> Result<Vec<VerifiedEvent>> {
        let drafts: Vec<(usize, UnsignedEvent)> = (0..count).map(|_| self.draft()).collect();
        let authors = &self.authors;
        let signed = in_parallel(&drafts, |(author, draft)| {
            let UnsignedEvent { created_at, kind, tags, content } = draft;
            let (tags, content) = (tags.clone(), content.clone());
            Ok(UnsignedEvent { created_at: *created_at, kind: *kind, tags, content }.sign(&authors[*author]))
        })?;
        for ((author, _), event) in drafts.iter().zip(&signed) {
            if event.kind == Kind(1) && event.expiration().is_none() {
                self.notes[*author].push(event.id);
            }
        }
        Ok(signed)
    }

    /// Returns the next event, and its author.
    fn draft(&mut self) -> (usize, UnsignedEvent) {
        let created_at = Timestamp(BEGIN + self.number);
        self.number += 1;
        let author = self.rng.index(self.authors.len());
        let (kind, tags) = match self.rng.below(100) {
            0..3 if !self.notes[author].is_empty() => (5, self.deleted(author)),
            0..13 => {
                let kind = *self.rng.pick(&REPLACED);
                let follows = if kind == 3 { 30 + self.rng.index(60) } else { 0 };
                let mut tags: Vec<Tag> = (0..follows).map(|_| self.person()).collect();
                tags.push(tag("d", "post"));
                (kind, tags)
            }
            13..27 => (1, vec![tag("expiration", (created_at.0 + LIFETIME).to_string()), self.person()]),
            27..50 => (7, vec![self.note(), self.person()]),
            _ => (1, vec![self.note(), self.person(), tag("t", format!("topic{}", self.rng.below(500)))]),
        };
        let words = if kind == 7 { 0 } else { 5 + self.rng.index(60) };
        let content = (0..words).map(|_| WORDS[self.rng.index(WORDS.len())]).collect::<Vec<_>>().join(" ");
        (author, UnsignedEvent { created_at, kind: Kind(kind), tags, content })
    }

    fn deleted(&mut self, author: usize) -> Vec<Tag> {
        let notes = &mut self.notes[author];
        let count = DELETED_TOGETHER.min(notes.len());
        (0..count).map(|_| tag("e", notes.swap_remove(self.rng.index(notes.len())).to_string())).collect()
    }

    fn person(&mut self) -> Tag {
        tag("p", self.rng.pick(&self.authors).pubkey().to_string())
    }

    /// Returns a tag for a note of anybody, if that one has any.
    fn note(&mut self) -> Tag {
        let author = self.rng.index(self.authors.len());
        let notes = &self.notes[author];
        let id = notes.last().copied().unwrap_or(EventId([7; 32]));
        tag("e", id.to_string())
    }
}

const WORDS: [&str; 12] =
    ["the", "relay", "keeps", "notes", "of", "people", "who", "talk", "about", "birds", "and", "houses"];

fn tag(name: &str, value: impl Into<String>) -> Tag {
    Tag(vec![name.to_owned(), value.into()])
}

// === tables ===

fn sizes(plan: &Plan, whole: &Filled, others: &Filled) -> Table {
    let meaning = format!(
        "Bytes on disk after compaction: {} events, of which {} are left; and a store that only had these.",
        plan.events, whole.live
    );
    let columns = [("had them", Unit::Bytes), ("never had them", Unit::Bytes), ("ratio", Unit::Times)];
    let mut table = Table::new("Space", meaning, Layout::OneServer, columns);
    let mut push = |title: &str, one: u64, other: u64| {
        #[expect(clippy::cast_precision_loss, reason = "a ratio for people")]
        let ratio = one as f64 / other as f64;
        table.push(title, [Cell::count(one), Cell::count(other), Cell::number(ratio)]);
    };
    push("all files", whole.bytes, others.bytes);
    for (name, bytes) in &whole.sizes {
        push(name, *bytes, others.sizes.get(name).copied().unwrap_or(0));
    }
    table
}

fn costs(plan: &Plan, whole: &Filled, others: &Filled) -> Table {
    let meaning = "CPU time of one thread, without signing and verifying.";
    let columns = [
        ("events", Unit::Count),
        ("left", Unit::Count),
        ("gone, not given back", Unit::Count),
        ("accept", Unit::Seconds),
        ("compaction", Unit::Seconds),
    ];
    let mut table = Table::new("Cost", meaning, Layout::OneServer, columns);
    for (title, events, filled) in [("had them", plan.events, whole), ("never had them", others.live, others)] {
        let seconds = [filled.accept, filled.compaction].map(|time| Cell::number(time.as_secs_f64()));
        let counts = [events, filled.live, filled.unreclaimed].map(Cell::count);
        table.push(title, counts.into_iter().chain(seconds));
    }
    table
}
