//! SIGKILL at random moments while events of all kinds are written: what was acknowledged is there afterwards, and
//! nothing else, as a model of the NIPs says.
//!
//! The writer is this program in another process, with small memtables and units, so that a second of writing goes
//! through flushes, compactions, moves of the log and commits of words. Several kills hit the same store, one after the
//! other. A kill comes at a random moment, or where a writing call of some work is seen after it. It counts only if a
//! writing call was under way, by the marks that the writer leaves behind.

mod marks;
mod model;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use birdhouse_events::{EventId, Events, Filter, Kind, Letter, Pubkey, Query, Search};
use birdhouse_regtest::rng::Rng;

use self::marks::{Marks, Moment, WORK};
use self::model::{Fate, Model, Note};
use self::writer::{NOW, TOPICS, WORDS, matching, open};
pub(crate) use self::writer::{WriterPlan, run as run_writer};
use super::state::Progress;

/// Kills that hit one store.
const KILLS_A_STORE: u64 = 25;
/// Longest time from the opening of the store to a kill, milliseconds. Half of the kills come in a tenth of it.
const DELAY_MS: u64 = 500;
/// Longest time from the start of the process to a kill that may hit the opening, milliseconds.
const OPENING_MS: u64 = 40;
/// Works that kills aim at. The others come at a random moment.
const AIMS: [Option<&str>; 6] = [None, None, Some("accept"), Some("compact"), Some("expire"), Some("commit words")];
/// Longest wait for a writing call of the work that a kill aims at.
const AIM_MAX: Duration = Duration::from_millis(50);
/// Results of a search, more than a store has.
const SEARCHED: usize = 10_000;
const PATIENCE: Duration = Duration::from_mins(1);

/// Output of a writer.
#[derive(Debug, Default)]
struct Report {
    /// Batches that it acknowledged, with their fates.
    acknowledged: Vec<(Vec<Note>, Vec<Fate>)>,
    /// The batch under way.
    under_way: Vec<Note>,
}

/// Kills until this number counted, the first with this seed.
pub(crate) fn kill(first_seed: u64, kills: u64, work: &Path) -> Result<Progress> {
    let mut progress = Progress::default();
    let mut seed = first_seed;
    let mut store = Store::new(work, seed)?;
    while progress.done < kills && progress.failures.is_empty() {
        if store.kills == KILLS_A_STORE {
            std::mem::replace(&mut store, Store::new(work, seed)?).remove()?;
        }
        match store.kill(seed) {
            Ok(moment) => {
                let writes = moment.writes();
                progress.done += u64::from(!writes.is_empty());
                progress.add("kills between writing calls", u64::from(writes.is_empty()));
                for write in &writes {
                    progress.add(write, 1);
                }
            }
            Err(error) => progress.failures.push(format!("seed {seed}, {}: {error:#}", store.folder.display())),
        }
        seed += 1;
    }
    if progress.failures.is_empty() {
        store.remove()?;
    }
    progress.next_seed = seed;
    Ok(progress)
}

/// A store that is killed again and again.
struct Store {
    folder: PathBuf,
    marks: PathBuf,
    model: Model,
    kills: u64,
}

// === impl Store ===

impl Store {
    fn new(work: &Path, seed: u64) -> Result<Self> {
        let folder = work.join(format!("relay-kills-{seed}"));
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder).with_context(|| format!("failed to create {}", folder.display()))?;
        Ok(Self { marks: folder.join("marks"), folder, model: Model::default(), kills: 0 })
    }

    fn remove(self) -> Result<()> {
        Ok(fs::remove_dir_all(self.folder)?)
    }

    /// Starts a writer, kills it, and proves the store. Returns the moment of the kill.
    fn kill(&mut self, seed: u64) -> Result<Moment> {
        let mut rng = Rng::new(seed);
        if self.marks.exists() {
            fs::remove_file(&self.marks)?;
        }
        let report = self.written_until_killed(&mut rng, seed)?;
        let moment = if self.marks.exists() { Moment::read(&self.marks)? } else { Moment::default() };
        let (before, after) = self.expected(&report)?;
        let check = self.folder.join("check-marks");
        Marks::enter(0);
        let events = open(&self.folder, &Marks::create(&check)?).context("failed to open the store after the kill")?;
        while events.expire(NOW)? {}
        let found = ids(matching(&events, &Filter::default())?);
        self.model = [before, after]
            .into_iter()
            .find(|model| model.find(|_| true) == found)
            .ok_or_else(|| anyhow!("the store has {} events: neither before nor after the last batch", found.len()))?;
        self.prove(&events)?;
        self.kills += 1;
        Ok(moment)
    }

    /// Runs a writer until it is killed.
    fn written_until_killed(&self, rng: &mut Rng, seed: u64) -> Result<Report> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("relay-writer").arg("--folder").arg(&self.folder).arg("--marks").arg(&self.marks);
        let mut writer = Killed(command.args(["--seed", &seed.to_string()]).stdout(Stdio::piped()).spawn()?);
        let output = writer.0.stdout.take().context("the output is piped")?;
        let lines = BufReader::new(output).lines();
        let (is_open, opened) = sync_channel(1);
        let reader = thread::spawn(move || Report::read(lines, &is_open));
        let aim = if rng.below(10) == 0 {
            thread::sleep(Duration::from_millis(rng.below(OPENING_MS)));
            Some("open")
        } else {
            opened.recv_timeout(PATIENCE).context("the writer does not open the store")?;
            let longest = if rng.below(2) == 0 { DELAY_MS } else { DELAY_MS / 10 };
            thread::sleep(Duration::from_millis(rng.below(longest)));
            *rng.pick(&AIMS)
        };
        if let Some(work) = aim {
            self.wait_for_write(work);
        }
        let ended = writer.0.try_wait()?;
        drop(writer);
        ensure!(ended.is_none(), "the writer ended by itself: {ended:?}");
        reader.join().map_err(|_| anyhow!("the reader panicked"))?
    }

    /// Waits until a writing call of this work is under way, unless it takes too long.
    fn wait_for_write(&self, work: &str) {
        let start = Instant::now();
        let is_writing = |now: &Moment| now.writes().iter().any(|write| write.starts_with(work));
        while start.elapsed() < AIM_MAX && !Moment::read(&self.marks).is_ok_and(|now| is_writing(&now)) {}
    }

    /// Applies a report to the model. Returns the live events without and with the batch under way.
    fn expected(&self, report: &Report) -> Result<(Model, Model)> {
        let mut model = self.model.clone();
        for (batch, fates) in &report.acknowledged {
            for (note, fate) in batch.iter().zip(fates) {
                let expected = model.accept(note);
                ensure!(expected == *fate, "event {} was {fate:?}, not {expected:?}", note.id);
            }
        }
        let mut after = model.clone();
        for note in &report.under_way {
            after.accept(note);
        }
        Ok((model.without_expired(NOW), after.without_expired(NOW)))
    }

    /// Proves answers by every kind of list, and by words, against the model.
    fn prove(&self, events: &Events) -> Result<()> {
        let model = &self.model;
        let equal = |what: &str, filter: Filter, expected: Vec<String>| {
            let found = ids(matching(events, &filter)?);
            ensure!(found == expected, "{what}: {} events, not {}", found.len(), expected.len());
            anyhow::Ok(())
        };
        for kind in [0, 1, 3, 5, 7, 62, 1059, 10_002, 30_023] {
            let filter = Filter { kinds: Some(vec![Kind(kind)]), ..Filter::default() };
            equal(&format!("kind {kind}"), filter, model.find(|note| note.kind == kind))?;
        }
        for topic in TOPICS {
            let t = Letter::parse("t").context("a letter")?;
            let filter = Filter { tags: vec![(t, vec![topic.to_owned()])], ..Filter::default() };
            equal(&format!("topic {topic}"), filter, model.tagged("t", topic))?;
        }
        let authors: BTreeSet<&String> = model.0.values().map(|note| &note.pubkey).collect();
        for author in authors.into_iter().take(12) {
            let key = Pubkey::parse(author).context("a key")?;
            let filter = Filter { authors: Some(vec![key]), ..Filter::default() };
            equal(&format!("author {author}"), filter, model.find(|note| note.pubkey == *author))?;
        }
        for id in model.0.keys() {
            ensure!(events.has(&EventId::parse(id).context("an id")?)?, "{id} is not found by its id");
        }
        self.prove_search(events)
    }

    fn prove_search(&self, events: &Events) -> Result<()> {
        let filter = Filter { search: Search::parse(WORDS[0]), kinds: Some(vec![Kind(1)]), ..Filter::default() };
        let (seqs, _) = events.search(Query::of(&filter), SEARCHED)?;
        let mut found = Vec::new();
        events.visit(&seqs, &mut |_, packed| {
            found.push(packed.id().to_string());
            ControlFlow::Continue(())
        })?;
        found.sort();
        let is_wanted = |note: &Note| note.kind == 1 && note.content.split(' ').any(|word| word == WORDS[0]);
        let mut expected = self.model.find(is_wanted);
        expected.sort();
        ensure!(found == expected, "the search finds {} events, not {}", found.len(), expected.len());
        Ok(())
    }
}

fn ids(events: Vec<birdhouse_events::Event>) -> Vec<String> {
    events.into_iter().map(|event| event.id.to_string()).collect()
}

/// A process that is killed when it is dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        // SIGKILL; both fail only if the process has ended and was reaped.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

// === impl Report ===

impl Report {
    /// Reads the lines of a writer to its end. A last line may be cut off.
    fn read(lines: impl Iterator<Item = std::io::Result<String>>, is_open: &SyncSender<()>) -> Result<Self> {
        let mut report = Self::default();
        for line in lines {
            let Ok(line) = line else { break };
            match line.split_once(' ') {
                None if line == "open" => {
                    let _ = is_open.try_send(());
                }
                Some((">", event)) => match serde_json::from_str(event) {
                    Ok(note) => report.under_way.push(note),
                    // The batch was not begun.
                    Err(_) => report.under_way.clear(),
                },
                Some(("<", fates)) => report.acknowledge(fates),
                _ => bail!("the writer said {line:?}"),
            }
        }
        Ok(report)
    }

    /// Takes the fates of the batch under way. A line that was cut off acknowledges nothing.
    fn acknowledge(&mut self, fates: &str) {
        let fates: Vec<Fate> = fates.chars().filter_map(Fate::of).collect();
        if fates.len() == self.under_way.len() {
            self.acknowledged.push((std::mem::take(&mut self.under_way), fates));
        }
    }
}

/// Returns the names of the works that no kill of a histogram hit.
pub(crate) fn never_hit(histogram: &BTreeMap<String, u64>) -> Vec<&'static str> {
    let hit = |work: &str| histogram.keys().any(|name| name == work || name.starts_with(&format!("{work}: ")));
    WORK.into_iter().filter(|work| !["rest", "index words"].contains(work) && !hit(work)).collect()
}
