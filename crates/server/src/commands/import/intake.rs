//! The common part of all imports: verifies signatures on all processors, adds the events to the relay and counts the
//! outcomes.
//!
//! While one batch is verified, the previous one is made durable; no more than these are in memory.

use std::fmt;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;

use anyhow::Result;
use birdhouse_events::{Accepted, Event, Events, Kind, KindClass, Vanish, VerifiedEvent};
use tracing::warn;

/// Invalid candidates that are logged with their reason; further ones are only counted.
const LOGGED_MAX: u64 = 10;
/// Verified batches that wait to be accepted.
const BATCHES_WAITING: usize = 1;

/// Something that may be an event.
pub(super) trait Candidate: Send + Sync {
    /// Returns the candidate's name for the log, which never contains text of its author.
    fn name(&self) -> String;

    /// Returns the event, unverified.
    fn event(&self) -> Result<Event, Skipped>;
}

/// Candidates that one commit makes durable.
pub(super) struct Batch<C> {
    pub(super) candidates: Vec<C>,
    /// Progress that the batch stands for, in units of the progress bar.
    pub(super) steps: u64,
    /// Events of the source that are no candidates because the relay has them.
    pub(super) present: u64,
}

/// Reasons to skip a candidate.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "import-nostream"), expect(dead_code, reason = "only a Nostream marks events"))]
pub(super) enum Skipped {
    /// Not an event, with the cause.
    Malformed(String),
    /// A wrong id or signature, with the cause.
    Forged(String),
    /// Events of its kind are not stored.
    Ephemeral,
    /// Expired (NIP-40).
    Expired,
    /// Deleted in the source.
    Deleted,
    /// A request to vanish from other relays.
    Elsewhere,
}

/// Numbers of candidates by outcome.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) stored: u64,
    pub(super) duplicates: u64,
    pub(super) superseded: u64,
    pub(super) deleted: u64,
    pub(super) expired: u64,
    pub(super) malformed: u64,
    pub(super) forged: u64,
    pub(super) ephemeral: u64,
    pub(super) elsewhere: u64,
}

/// A verified event, or the name of a skipped candidate and the reason.
type Verified = Result<VerifiedEvent, (String, Skipped)>;

/// A batch with verified signatures.
struct VerifiedBatch {
    events: Vec<Verified>,
    steps: u64,
    present: u64,
}

/// Imports all batches that `next` returns. After each commit calls `progress` with the batch's steps and the counts so
/// far.
pub(super) fn import<C: Candidate>(
    events: &Events,
    mut next: impl FnMut() -> Result<Option<Batch<C>>>,
    progress: impl FnMut(u64, &Counts) + Send,
) -> Result<Counts> {
    thread::scope(|scope| {
        let (verified, waiting) = sync_channel(BATCHES_WAITING);
        let writer = scope.spawn(move || accept(events, &waiting, progress));
        let read = loop {
            match next() {
                Ok(Some(Batch { candidates, steps, present })) => {
                    let batch = VerifiedBatch { events: verify(&candidates), steps, present };
                    if verified.send(batch).is_err() {
                        break Ok(()); // the writer returns the error
                    }
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        drop(verified);
        let counts = writer.join().expect("accepting never panics")?;
        read.map(|()| counts)
    })
}

fn accept(
    events: &Events,
    batches: &Receiver<VerifiedBatch>,
    mut progress: impl FnMut(u64, &Counts),
) -> Result<Counts> {
    let mut counts = Counts::default();
    for batch in batches {
        counts.duplicates += batch.present;
        let mut kept = Vec::with_capacity(batch.events.len());
        for verified in &batch.events {
            match verified {
                Ok(event) if is_for_others(event, events) => {
                    counts.skip(&event.id.to_string(), &Skipped::Elsewhere);
                }
                Ok(event) => kept.push(event),
                Err((name, reason)) => counts.skip(name, reason),
            }
        }
        for outcome in events.accept(&kept)? {
            counts.count(outcome);
        }
        while events.compact()? {}
        progress(batch.steps, &counts);
    }
    Ok(counts)
}

/// True for a request to vanish (NIP-62) that names other relays alone. A URL of an IP address is another relay's: it
/// is the same for every relay that such a request was sent to.
fn is_for_others(event: &Event, events: &Events) -> bool {
    event.kind == Kind::VANISH && Vanish::names(event, |url| url.is_at_one_of(events.urls())).is_none()
}

/// Verifies candidates on all processors: signatures cost most of an import.
fn verify<C: Candidate>(candidates: &[C]) -> Vec<Verified> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let parts = candidates.chunks(candidates.len().div_ceil(processors).max(1));
        let threads: Vec<_> = parts.map(|part| scope.spawn(|| part.iter().map(verify_one).collect())).collect();
        let verified = threads.into_iter().map(|thread| thread.join().expect("verifying never panics"));
        verified.collect::<Vec<Vec<_>>>().into_iter().flatten().collect()
    })
}

fn verify_one<C: Candidate>(candidate: &C) -> Verified {
    let verified = candidate.event().and_then(|event| {
        if event.kind.class() == KindClass::Ephemeral {
            return Err(Skipped::Ephemeral);
        }
        event.verify().map_err(|rejection| Skipped::Forged(rejection.to_string()))
    });
    verified.map_err(|reason| (candidate.name(), reason))
}

// === impl Counts ===

impl Counts {
    /// Returns the number of candidates that are no valid events of a relay.
    pub(super) fn invalid(&self) -> u64 {
        self.malformed + self.forged + self.ephemeral + self.elsewhere
    }

    fn count(&mut self, outcome: Accepted) {
        *match outcome {
            Accepted::Stored(_) => &mut self.stored,
            Accepted::Duplicate => &mut self.duplicates,
            Accepted::Superseded => &mut self.superseded,
            Accepted::Deleted(_) => &mut self.deleted,
        } += 1;
    }

    fn skip(&mut self, name: &str, reason: &Skipped) {
        *match reason {
            Skipped::Malformed(_) => &mut self.malformed,
            Skipped::Forged(_) => &mut self.forged,
            Skipped::Ephemeral => &mut self.ephemeral,
            Skipped::Expired => &mut self.expired,
            Skipped::Deleted => &mut self.deleted,
            Skipped::Elsewhere => &mut self.elsewhere,
        } += 1;
        if let Skipped::Malformed(_) | Skipped::Forged(_) | Skipped::Ephemeral | Skipped::Elsewhere = reason
            && self.invalid() <= LOGGED_MAX
        {
            warn!(name, %reason, "skipped an invalid event");
        }
    }
}

/// The summary after an import.
impl fmt::Display for Counts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { stored, duplicates, superseded, deleted, expired, malformed, forged, ephemeral, elsewhere } = self;
        write!(
            out,
            "{stored} events stored; skipped {duplicates} duplicates, {superseded} superseded, {deleted} deleted, {expired} \
             expired and {} invalid ({malformed} malformed, {forged} forged, {ephemeral} ephemeral)",
            self.invalid()
        )?;
        if *elsewhere > 0 {
            write!(out, "; {elsewhere} of the invalid ask to vanish from other relays")?;
        }
        Ok(())
    }
}

// === impl Skipped ===

impl fmt::Display for Skipped {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(cause) | Self::Forged(cause) => out.write_str(cause),
            Self::Ephemeral => out.write_str("ephemeral events are not stored"),
            Self::Expired => out.write_str("the event has expired"),
            Self::Deleted => out.write_str("the event was deleted"),
            Self::Elsewhere => out.write_str("the request to vanish names other relays; see relay-url"),
        }
    }
}
