//! What every import does with what it reads: it proves signatures on all processors, has events accepted, and counts what became
//! of them.
//!
//! While one batch is verified, the one before is made durable; that is as much as is in memory.

use std::fmt;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use anyhow::Result;
use birdhouse_events::{Accepted, Event, Events, KindClass, VerifiedEvent};
use tracing::warn;

/// Candidates that are no events, of which the log says why; the others are only counted.
const EXPLAINED: u64 = 10;
/// Batches that are verified and wait to be accepted.
const BATCHES_WAITING: usize = 1;

/// Something that may be an event.
pub(crate) trait Candidate: Send + Sync {
    /// What the log calls it: never anything that its author wrote.
    fn name(&self) -> String;

    /// What it says, unproved.
    fn event(&self) -> Result<Event, LeftOut>;
}

/// Candidates that are made durable together.
pub(crate) struct Batch<C> {
    pub(crate) candidates: Vec<C>,
    /// How far the source is read then, in units of the progress bar.
    pub(crate) steps: u64,
    /// Events that are not among the candidates, for they were here already.
    pub(crate) present: u64,
}

/// Why something is not taken in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LeftOut {
    /// It is no event: how so.
    Malformed(String),
    /// Its id or its signature is wrong: which.
    Forged(String),
    /// Events of its kind are told and not kept.
    Ephemeral,
    /// Its time was over (NIP-40).
    Expired,
    /// It was deleted where it comes from.
    Deleted,
}

/// What became of the candidates.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) stored: u64,
    pub(crate) duplicates: u64,
    pub(crate) superseded: u64,
    pub(crate) deleted: u64,
    pub(crate) expired: u64,
    pub(crate) malformed: u64,
    pub(crate) forged: u64,
    pub(crate) ephemeral: u64,
}

/// A candidate that was proved, or its name and why it is left out.
type Proved = Result<VerifiedEvent, (String, LeftOut)>;

/// A batch whose signatures were checked.
struct ProvedBatch {
    events: Vec<Proved>,
    steps: u64,
    present: u64,
}

/// Takes in all batches that `next` has. `taken` hears of each when it is durable: its steps, and the counts so far.
pub(crate) fn take_in<C: Candidate>(
    events: &Events,
    mut next: impl FnMut() -> Result<Option<Batch<C>>>,
    taken: impl FnMut(u64, &Counts) + Send,
) -> Result<Counts> {
    thread::scope(|scope| {
        let (proved, waiting) = sync_channel(BATCHES_WAITING);
        let writer = scope.spawn(move || accept(events, &waiting, taken));
        let read = loop {
            match next() {
                Ok(Some(Batch { candidates, steps, present })) => {
                    let batch = ProvedBatch { events: prove(&candidates), steps, present };
                    if proved.send(batch).is_err() {
                        break Ok(()); // the writer says why
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        drop(proved);
        let counts = writer.join().expect("accepting never panics")?;
        read.map(|()| counts)
    })
}

fn accept(events: &Events, batches: &Receiver<ProvedBatch>, mut taken: impl FnMut(u64, &Counts)) -> Result<Counts> {
    let mut counts = Counts::default();
    for batch in batches {
        counts.duplicates += batch.present;
        let mut kept = Vec::with_capacity(batch.events.len());
        for proved in &batch.events {
            match proved {
                Ok(event) => kept.push(event),
                Err((name, why)) => counts.leave_out(name, why),
            }
        }
        for outcome in events.accept(&kept)? {
            counts.count(outcome);
        }
        while events.compact()? {}
        taken(batch.steps, &counts);
    }
    Ok(counts)
}

/// Signatures cost most: every processor checks its part.
fn prove<C: Candidate>(candidates: &[C]) -> Vec<Proved> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let parts = candidates.chunks(candidates.len().div_ceil(processors).max(1));
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| part.iter().map(one).collect())).collect();
        let proved = threads.into_iter().map(|thread| thread.join().expect("verifying never panics"));
        proved.collect::<Vec<Vec<_>>>().into_iter().flatten().collect()
    })
}

fn one<C: Candidate>(candidate: &C) -> Proved {
    let proved = candidate.event().and_then(|event| {
        if event.kind.class() == KindClass::Ephemeral {
            return Err(LeftOut::Ephemeral);
        }
        event.verify().map_err(|rejection| LeftOut::Forged(rejection.to_string()))
    });
    proved.map_err(|why| (candidate.name(), why))
}

// === impl Counts ===

impl Counts {
    /// Candidates that should have been events of a relay and are none.
    pub(crate) fn refused(&self) -> u64 {
        self.malformed + self.forged + self.ephemeral
    }

    fn count(&mut self, outcome: Accepted) {
        *match outcome {
            Accepted::Stored(_) => &mut self.stored,
            Accepted::Duplicate => &mut self.duplicates,
            Accepted::Superseded => &mut self.superseded,
            Accepted::Deleted => &mut self.deleted,
        } += 1;
    }

    fn leave_out(&mut self, name: &str, why: &LeftOut) {
        *match why {
            LeftOut::Malformed(_) => &mut self.malformed,
            LeftOut::Forged(_) => &mut self.forged,
            LeftOut::Ephemeral => &mut self.ephemeral,
            LeftOut::Expired => &mut self.expired,
            LeftOut::Deleted => &mut self.deleted,
        } += 1;
        if let LeftOut::Malformed(_) | LeftOut::Forged(_) | LeftOut::Ephemeral = why
            && self.refused() <= EXPLAINED
        {
            warn!(name, reason = %why, "no valid event");
        }
    }
}

/// The report at the end of an import.
impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stored, duplicates, superseded, deleted, expired, malformed, forged, ephemeral } = self;
        write!(
            out,
            "{stored} events stored; {duplicates} were there, {superseded} have newer versions, {deleted} are deleted, \
             {expired} have expired, {} are no valid events ({malformed} malformed, {forged} forged, {ephemeral} ephemeral)",
            self.refused()
        )
    }
}

// === impl LeftOut ===

impl fmt::Display for LeftOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why) | Self::Forged(why) => out.write_str(why),
            Self::Ephemeral => out.write_str("ephemeral events are not kept"),
            Self::Expired => out.write_str("the event has expired"),
            Self::Deleted => out.write_str("the event was deleted"),
        }
    }
}
