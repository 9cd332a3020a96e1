//! The process that is killed: it stores random events of all kinds, compacts and indexes words, and reports each batch
//! before and after it is stored.
//!
//! ```text
//! open                       the store is open
//! > {event}                  an event of the next batch
//! < SSXV                     the batch is stored: the fate of each event
//! ```

use std::collections::VecDeque;
use std::io::{Write as _, stdout};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use birdhouse_events::{
    Accepted, Event, Events, EventsOptions, Filter, Keys, Kind, Query, SearchStorage, TABLES, Tag, Timestamp,
    UnsignedEvent, VerifiedEvent,
};
use birdhouse_regtest::rng::Rng;
use birdhouse_store::{SegmentOptions, SegmentStore};
use birdhouse_testkit::hooked_store::HookedStore;

use super::marks::Marks;

#[derive(Debug, clap::Args)]
pub(crate) struct WriterPlan {
    #[arg(long)]
    folder: PathBuf,
    #[arg(long)]
    marks: PathBuf,
    #[arg(long)]
    seed: u64,
}

/// Secret of the index, the same for every run: names of lists are hashed with it.
const SECRET: [u8; 16] = *b"birdhouse-bench!";
const AUTHORS: u8 = 6;
/// Events in a batch, at most.
const BATCH_MAX: u64 = 12;
/// Earlier events that are named by requests, or sent again.
const REMEMBERED: usize = 200;
/// Time of the events: few seconds, so that many have the same.
const BEGIN: u64 = 1_700_000_000;
const SECONDS: u64 = 4000;
/// The time that expirations are compared with.
pub(crate) const NOW: u32 = 1_800_000_000;
/// Words of contents; one in a hundred events has the first.
pub(crate) const WORDS: [&str; 5] = ["kingfisher", "relay", "notes", "birds", "houses"];
pub(crate) const TOPICS: [&str; 3] = ["rust", "bitcoin", "birds"];

/// Opens events with small parts, so that a few hundred of them go through every file.
pub(crate) fn open(folder: &Path, marks: &Marks) -> Result<Events> {
    let options = SegmentOptions { cache_bytes: 1 << 20, ..SegmentOptions::default() };
    let store = Arc::new(SegmentStore::open(&folder.join("store"), TABLES, options)?);
    let search = SearchStorage::Folder(folder.join("search"));
    let options = EventsOptions { memtable_events: 64, unit_bits: 6, search, ..EventsOptions::default() };
    Ok(Events::open(Arc::new(HookedStore::new(store, Arc::new(marks.clone()))), SECRET, options)?)
}

/// Returns all events, newest first.
pub(crate) fn matching(events: &Events, filter: &Filter) -> Result<Vec<Event>> {
    let (mut found, mut from) = (Vec::new(), None);
    loop {
        from = events.page(Query::of(filter), from, 500, &mut |_, packed| {
            found.extend(packed.to_event());
            ControlFlow::Continue(())
        })?;
        if from.is_none() {
            return Ok(found);
        }
    }
}

/// Writes until it is killed.
pub(crate) fn run(plan: &WriterPlan) -> Result<()> {
    let marks = Marks::create(&plan.marks)?;
    Marks::enter(0);
    let events = {
        let _mark = marks.work("open");
        open(&plan.folder, &marks)?
    };
    println!("open");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| end_if_failed(upkeep(&events, &marks, &is_over)));
        scope.spawn(|| end_if_failed(index_words(&events, &marks, &is_over)));
        let written = write(&events, &marks, plan.seed);
        // Only a failure comes here.
        is_over.store(true, Ordering::Relaxed);
        written
    })
}

/// Ends the process after a failure: whoever kills it takes that for a failure.
fn end_if_failed(done: Result<()>) {
    if let Err(error) = done {
        eprintln!("the writer failed: {error:#}");
        std::process::exit(1);
    }
}

fn write(events: &Events, marks: &Marks, seed: u64) -> Result<()> {
    let mut source = Source::new(seed, events)?;
    loop {
        let batch = source.batch();
        let mut out = stdout().lock();
        for event in &batch {
            writeln!(out, "> {}", event.to_json())?;
        }
        out.flush()?;
        let fates = {
            let _mark = marks.work("accept");
            let fates = events.accept(&batch.iter().collect::<Vec<_>>())?;
            while events.vanish()? {}
            fates
        };
        let letters: String = fates.iter().map(letter).collect();
        writeln!(out, "< {letters}")?;
        out.flush()?;
    }
}

fn letter(fate: &Accepted) -> char {
    match fate {
        Accepted::Stored(_) => 'S',
        Accepted::Duplicate => 'D',
        Accepted::Superseded => 'V',
        Accepted::Deleted(_) => 'X',
    }
}

/// Deletes what has expired, and compacts, until a failure.
fn upkeep(events: &Events, marks: &Marks, is_over: &AtomicBool) -> Result<()> {
    Marks::enter(1);
    while !is_over.load(Ordering::Relaxed) {
        let has_expired = {
            let _mark = marks.work("expire");
            events.expire(NOW)?
        };
        let has_compacted = {
            let _mark = marks.work("compact");
            events.compact()?
        };
        if !has_expired && !has_compacted {
            thread::sleep(Duration::from_millis(1));
        }
    }
    Ok(())
}

/// Indexes words, with a commit after a few, until a failure.
fn index_words(events: &Events, marks: &Marks, is_over: &AtomicBool) -> Result<()> {
    Marks::enter(2);
    while !is_over.load(Ordering::Relaxed) {
        let left = {
            let _mark = marks.work("index words");
            events.index_words(50)?
        };
        if left < 50 {
            let _mark = marks.work("commit words");
            events.commit_words()?;
        }
        thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Source of the events.
struct Source {
    rng: Rng,
    authors: Vec<Keys>,
    /// Earlier events, live and gone.
    earlier: VecDeque<VerifiedEvent>,
}

// === impl Source ===

impl Source {
    fn new(seed: u64, events: &Events) -> Result<Self> {
        let authors = (1..=AUTHORS).filter_map(|author| Keys::from_secret([author; 32])).collect();
        let live = matching(events, &Filter::default())?;
        let earlier = live.into_iter().take(REMEMBERED).filter_map(|event| event.verify().ok()).collect();
        Ok(Self { rng: Rng::new(seed), authors, earlier })
    }

    fn batch(&mut self) -> Vec<VerifiedEvent> {
        let batch: Vec<VerifiedEvent> = (0..=self.rng.below(BATCH_MAX)).map(|_| self.event()).collect();
        self.earlier.extend(batch.iter().cloned());
        let too_many = self.earlier.len().saturating_sub(REMEMBERED);
        self.earlier.drain(..too_many);
        batch
    }

    fn event(&mut self) -> VerifiedEvent {
        let (choice, author) = (self.rng.below(1000), self.rng.index(self.authors.len()));
        // Whether an event that expires is still there depends on the moment.
        if choice < 30
            && let Some(again) = self.earlier.iter().rev().nth(self.rng.index(REMEMBERED))
            && again.expiration().is_none()
        {
            return again.clone();
        }
        let person = tag("p", self.authors[self.rng.index(self.authors.len())].pubkey().to_string());
        let (kind, tags) = match choice {
            30..33 => (62, vec![tag("relay", "ALL_RELAYS")]),
            33..130 => (5, (0..=self.rng.below(4)).filter_map(|_| self.target()).collect()),
            130..230 => (*self.rng.pick(&[0, 3, 10_002]), vec![person]),
            230..330 => (30_023, vec![tag("d", self.rng.below(4).to_string()), self.topic()]),
            330..430 => (1059, vec![person]),
            430..480 => (1, vec![tag("expiration", self.expiration()), person]),
            _ => (*self.rng.pick(&[1, 1, 7]), vec![self.topic(), person]),
        };
        // A gift wrap has a throwaway key.
        let keys = if kind == 1059 { Keys::from_secret(self.rng.bytes()) } else { None };
        let created_at = Timestamp(BEGIN + self.rng.below(SECONDS));
        let draft = UnsignedEvent { created_at, kind: Kind(kind), tags, content: self.content() };
        draft.sign(keys.as_ref().unwrap_or(&self.authors[author]))
    }

    /// Returns a tag that names an earlier event, by its id or by its address.
    fn target(&mut self) -> Option<Tag> {
        let last = self.earlier.len().checked_sub(1)?;
        let event = &self.earlier[self.rng.index(last + 1)];
        match event.address() {
            Some(address) if self.rng.below(2) == 0 => Some(tag("a", address.to_string())),
            _ => Some(tag("e", event.id.to_string())),
        }
    }

    fn topic(&mut self) -> Tag {
        tag("t", *self.rng.pick(&TOPICS))
    }

    /// Before now for half of the events that have one.
    fn expiration(&mut self) -> String {
        (u64::from(NOW) + self.rng.below(1000) - 500).to_string()
    }

    fn content(&mut self) -> String {
        let rare = usize::from(self.rng.below(100) > 0);
        let words = 1 + self.rng.below(40);
        (0..words).map(|_| WORDS[rare + self.rng.index(WORDS.len() - rare)]).collect::<Vec<_>>().join(" ")
    }
}

fn tag(name: &str, value: impl Into<String>) -> Tag {
    Tag(vec![name.to_owned(), value.into()])
}
