//! Lists of tags that an index of Birdhouse was made without are added, while queries go on.
//!
//! The events are opened here, in this process, as the server opens them: first with lists of the tags that deletions need, then
//! with all. A thread asks meanwhile, by tags that have lists and by tags that have none yet; each answer must be whole.

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
use birdhouse_store::{RocksOptions, RocksStore};

use crate::durations::Durations;
use crate::folder;
use crate::relay::by_shape;

/// The same for every run: names of lists are keyed by it.
const SECRET: [u8; 16] = *b"birdhouse-bench!";
/// Tags that have lists from the beginning: deletions need them.
const FEW: [&str; 3] = ["a", "e", "p"];
/// Events that are verified side by side and made durable together.
const BATCH: usize = 4096;
/// What is asked meanwhile: values of `e`, which has lists from the beginning, and of `t`, which gets them.
const SHAPES: [&str; 2] = ["e-76", "hashtag"];
const LIMITS: FilterLimits = FilterLimits {
    values_max: 20_000,
    tag_conditions_max: 32,
    tag_value_bytes_max: 1024,
    search_bytes_max: 256,
    unknown_keys: UnknownKeys::Unsupported,
};

/// What it cost to add the lists.
pub(super) struct AddedIndex {
    pub(super) events: usize,
    pub(super) wall: Duration,
    /// Of the thread that adds.
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
    ensure!(unindexed > 0, "all events were sealed with all lists: are there so few?");
    let is_done = AtomicBool::new(false);
    let (added, meanwhile) = thread::scope(|scope| {
        let asker = scope.spawn(|| ask_until(&opened, &filters, &is_done));
        let added = add(&opened);
        is_done.store(true, Ordering::Release);
        let asked = asker.join().map_err(|_| anyhow!("the asking thread panicked"))?;
        anyhow::Ok((added?, asked?))
    })?;
    ensure!(opened.unindexed_events() == 0, "lists are still lacking");
    let afterwards = ask(&opened, &filters)?;
    for (answer, whole) in meanwhile.answers.iter().zip(afterwards.answers.iter().cycle()) {
        ensure!(answer == whole, "an answer lacked something while lists were added");
    }
    let (wall, cpu) = added;
    let added =
        AddedIndex { events: unindexed, wall, cpu, meanwhile: meanwhile.durations, afterwards: afterwards.durations };
    drop(opened);
    folder::remove(folder)?;
    Ok(added)
}

fn open(folder: &Path, letters: Letters) -> Result<Events> {
    let store = RocksStore::open(folder, &[], RocksOptions { cache_bytes: 1 << 20, ..RocksOptions::default() })?;
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

/// Adds what lacks; wall time, and the CPU time of this thread.
fn add(events: &Events) -> Result<(Duration, Duration)> {
    let (started, before) = (Instant::now(), cpu_of_thread()?);
    while events.unindexed_events() > 0 {
        ensure!(events.compact()?, "lists lack, and there is nothing to do");
    }
    Ok((started.elapsed(), cpu_of_thread()?.saturating_sub(before)))
}

fn cpu_of_thread() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/thread-self/schedstat")?;
    let nanoseconds = stat.split_whitespace().next().context("a schedstat line")?.parse()?;
    Ok(Duration::from_nanos(nanoseconds))
}

// === asking ===

#[derive(Default)]
struct Asked {
    durations: BTreeMap<&'static str, Durations>,
    /// Names of events, answer by answer.
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

/// Asks all, again and again.
fn ask_until(events: &Events, filters: &[(&'static str, Filter)], is_done: &AtomicBool) -> Result<Asked> {
    let mut asked = Asked::default();
    'all: loop {
        for (shape, filter) in filters {
            if is_done.load(Ordering::Acquire) {
                break 'all Ok(asked);
            }
            asked.one(events, shape, filter)?;
        }
    }
}

fn ask(events: &Events, filters: &[(&'static str, Filter)]) -> Result<Asked> {
    let mut asked = Asked::default();
    for (shape, filter) in filters {
        asked.one(events, shape, filter)?;
    }
    Ok(asked)
}

impl Asked {
    fn one(&mut self, events: &Events, shape: &'static str, filter: &Filter) -> Result<()> {
        let started = Instant::now();
        let query = Query { end: events.end(), ..Query::of(filter) };
        let mut answer = Vec::new();
        let rows = filter.limit.context("a limit")?;
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
    /// What became of those who asked meanwhile.
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
            "While Birdhouse added the lists, in one thread, another one asked without a pause, and every answer was whole: {}.",
            shapes.collect::<Vec<_>>().join("; ")
        )
    }
}
