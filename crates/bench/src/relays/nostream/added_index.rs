//! Addition of posting lists to an index of Birdhouse that was made without them, during queries.
//!
//! This process opens the events as the server does: first with the lists that deletions need, then with all. A thread
//! queries meanwhile by tags with lists and by tags without; every answer must be complete.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use birdhouse_events::{
    Event, Events, EventsOptions, Filter, FilterLimits, Letter, Letters, Query, UnknownKeys, VerifiedEvent,
};
use birdhouse_store::{SegmentOptions, SegmentStore};

use crate::machine::folder;
use crate::machine::process::cpu_of_thread;
use crate::relays::relay::by_shape;
use crate::report::durations::Durations;

/// Secret of the index, the same for every run: names of lists are hashed with it.
const SECRET: [u8; 16] = *b"birdhouse-bench!";
/// Tags with lists from the beginning, which deletions need.
const FEW: [&str; 3] = ["a", "e", "p"];
/// Number of events that are verified in parallel and made durable together.
const BATCH: usize = 4096;
/// Shapes of the queries: values of `e`, which has lists from the beginning, and of `t`, which gets them.
const SHAPES: [&str; 2] = ["e-76", "hashtag"];
const LIMITS: FilterLimits = FilterLimits {
    values_max: 20_000,
    tag_conditions_max: 32,
    tag_value_bytes_max: 1024,
    search_bytes_max: 256,
    unknown_keys: UnknownKeys::Unsupported,
};

/// Cost of adding the lists, and latencies of queries.
pub(super) struct AddedIndex {
    pub(super) events: usize,
    pub(super) wall: Duration,
    /// CPU time of the thread that adds the lists.
    pub(super) cpu: Duration,
    meanwhile: BTreeMap<&'static str, Durations>,
    afterwards: BTreeMap<&'static str, Durations>,
}

pub(super) fn measure(events: &Path, folder: &Path, queries: &Path) -> Result<AddedIndex> {
    folder::remove(folder)?;
    fs::create_dir_all(folder)?;
    let few = FEW.iter().filter_map(|name| Letter::parse(name)).collect();
    fill(&open(folder, few)?, events)?;
    let filters = filters(queries)?;
    let opened = open(folder, Letters::ALL)?;
    let unindexed = usize::try_from(opened.unindexed_events())?;
    ensure!(unindexed > 0, "no events without lists: the file has too few events for a segment");
    let is_done = AtomicBool::new(false);
    let (added, meanwhile) = thread::scope(|scope| {
        let reader = scope.spawn(|| ask_until(&opened, &filters, &is_done));
        let added = add(&opened);
        is_done.store(true, Ordering::Release);
        let asked = reader.join().map_err(|_| anyhow!("the querying thread panicked"))?;
        anyhow::Ok((added?, asked?))
    })?;
    ensure!(opened.unindexed_events() == 0, "lists are missing after compaction");
    let afterwards = ask(&opened, &filters)?;
    for (answer, whole) in meanwhile.answers.iter().zip(afterwards.answers.iter().cycle()) {
        ensure!(answer == whole, "an answer was incomplete while lists were added");
    }
    let (wall, cpu) = added;
    let added =
        AddedIndex { events: unindexed, wall, cpu, meanwhile: meanwhile.durations, afterwards: afterwards.durations };
    drop(opened);
    folder::remove(folder)?;
    Ok(added)
}

fn open(folder: &Path, letters: Letters) -> Result<Events> {
    let store = SegmentStore::open(
        folder,
        birdhouse_events::TABLES,
        SegmentOptions { cache_bytes: 1 << 20, ..SegmentOptions::default() },
    )?;
    Ok(Events::open(Arc::new(store), SECRET, EventsOptions { letters, ..EventsOptions::default() })?)
}

fn fill(events: &Events, file: &Path) -> Result<()> {
    let mut lines = BufReader::with_capacity(1 << 20, File::open(file)?).lines();
    loop {
        let batch = lines.by_ref().take(BATCH).collect::<Result<Vec<String>, _>>()?;
        if batch.is_empty() {
            return Ok(());
        }
        let verified = verify(&batch)?;
        events.accept(&verified.iter().collect::<Vec<_>>())?;
        while events.compact()? {}
    }
}

fn verify(lines: &[String]) -> Result<Vec<VerifiedEvent>> {
    let one = |line: &String| -> Result<VerifiedEvent> {
        let event = Event::from_json(line).map_err(|error| anyhow!("{error:?}"))?;
        event.verify().map_err(|rejection| anyhow!("{rejection:?}"))
    };
    let share = lines.len().div_ceil(thread::available_parallelism().map_or(1, Into::into));
    thread::scope(|scope| {
        let threads: Vec<_> = lines
            .chunks(share)
            .map(|some| scope.spawn(move || some.iter().map(one).collect::<Result<Vec<_>>>()))
            .collect();
        let mut all = Vec::with_capacity(lines.len());
        for thread in threads {
            all.extend(thread.join().map_err(|_| anyhow!("a verifying thread panicked"))??);
        }
        Ok(all)
    })
}

/// Adds the missing lists; returns wall time and the CPU time of this thread.
fn add(events: &Events) -> Result<(Duration, Duration)> {
    let (started, before) = (Instant::now(), cpu_of_thread()?);
    while events.unindexed_events() > 0 {
        ensure!(events.compact()?, "lists are missing, and there is nothing to compact");
    }
    Ok((started.elapsed(), cpu_of_thread()?.saturating_sub(before)))
}

// === queries ===

#[derive(Default)]
struct Answers {
    durations: BTreeMap<&'static str, Durations>,
    /// Ids of events by answer.
    answers: Vec<Vec<String>>,
}

fn filters(file: &Path) -> Result<Vec<(&'static str, Filter)>> {
    let mut all = Vec::new();
    for shape in SHAPES {
        for filter in by_shape(file, |name| name == shape)?.iter().flat_map(|(_, filters)| filters) {
            let filter = Filter::from_json(&filter.to_string(), &LIMITS).map_err(|error| anyhow!("{error:?}"))?;
            all.push((shape, filter));
        }
    }
    Ok(all)
}

/// Sends all queries in a loop until `is_done`.
fn ask_until(events: &Events, filters: &[(&'static str, Filter)], is_done: &AtomicBool) -> Result<Answers> {
    let mut answers = Answers::default();
    'all: loop {
        for (shape, filter) in filters {
            if is_done.load(Ordering::Acquire) {
                break 'all Ok(answers);
            }
            answers.ask(events, shape, filter)?;
        }
    }
}

fn ask(events: &Events, filters: &[(&'static str, Filter)]) -> Result<Answers> {
    let mut answers = Answers::default();
    for (shape, filter) in filters {
        answers.ask(events, shape, filter)?;
    }
    Ok(answers)
}

impl Answers {
    fn ask(&mut self, events: &Events, shape: &'static str, filter: &Filter) -> Result<()> {
        let started = Instant::now();
        let query = Query { end: events.end(), ..Query::of(filter) };
        let mut answer = Vec::new();
        let rows = filter.limit.context("a filter has no limit")?;
        events.page(query, None, rows, &mut |_, packed| {
            answer.push(packed.id().to_string());
            ControlFlow::Continue(())
        })?;
        self.durations.entry(shape).or_default().add(started.elapsed());
        self.answers.push(answer);
        Ok(())
    }
}

impl AddedIndex {
    /// Returns a note about the queries during the addition.
    pub(super) fn note(&self) -> String {
        let shapes = self.meanwhile.iter().map(|(shape, durations)| {
            let ms = |durations: Option<&Durations>, percent| {
                let taken = durations.and_then(|durations| durations.percentile(percent)).unwrap_or_default();
                format!("{:.2}", taken.as_secs_f64() * 1000.0)
            };
            let (now, later) = (Some(durations), self.afterwards.get(shape));
            format!(
                "{shape} {} answers, median {} ms, p99 {} ms (afterwards {} and {} ms)",
                durations.len(),
                ms(now, 50),
                ms(now, 99),
                ms(later, 50),
                ms(later, 99)
            )
        });
        format!(
            "While one thread added the lists, another one queried without a pause, and every answer was complete: {}.",
            shapes.collect::<Vec<_>>().join("; ")
        )
    }
}
