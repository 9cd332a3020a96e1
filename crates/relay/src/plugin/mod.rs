//! An operator's own policy: a program that judges every event, by lines of JSON as strfry's plugins understand them.
//!
//! Many questions may be open at one time, and the answers may come in any order. A plugin that ends, sends nonsense or
//! nothing is restarted, after a pause that grows; meanwhile events are treated as the operator has decided. Invariant:
//! every event that the plugin is asked about is answered, within the plugin's timeout and the time of the writer.

mod pending;
mod process;
pub(crate) mod wire;

pub(crate) use self::wire::{Source, Verdict};

use std::sync::Weak;
use std::time::{Duration, Instant};

use birdhouse_clients::WorkQueue;
use birdhouse_events::{Pubkey, Rejection};
use tokio::sync::mpsc;
use tokio::time::{sleep, sleep_until};
use tracing::{info, warn};

use crate::limits::{PLUGIN_IN_FLIGHT, PLUGIN_UNWRITTEN_BYTES};
use crate::message::Outcome;
use crate::plugin::pending::Pending;
use crate::plugin::process::Process;
use crate::settings::{PluginSettings, WhenBroken};
use crate::writing::Submission;

/// Pause before a plugin is restarted; it doubles.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_mins(1);
/// Questions that wait for the task that asks the plugin.
const QUEUED: usize = 64;

/// A program that judges events: a handle on the task that asks it.
#[derive(Debug)]
pub struct Plugin(mpsc::Sender<Question>);

/// An event to be judged.
#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) submission: Submission,
    pub(crate) source: Source,
    pub(crate) authenticated: Option<Pubkey>,
    pub(crate) received_at: u32,
}

/// The destination of judged events.
#[derive(Debug)]
struct Court {
    broken: WhenBroken,
    /// Weak: the writer ends when the relay does, even while questions are open.
    writer: Weak<WorkQueue<Submission>>,
}

/// The reason for a restart.
type Broken = String;

/// End of a process.
enum Ended {
    /// The relay ends, and the process with it.
    WithRelay,
    /// It was broken before it answered anything.
    Dumb(Broken),
    /// It has answered, and was broken later.
    AfterAnswers(Broken),
}

// === impl Plugin ===

impl Plugin {
    /// Starts the task. It ends with the relay.
    pub(crate) fn start(settings: PluginSettings, patience: Duration, writer: Weak<WorkQueue<Submission>>) -> Self {
        let (sender, questions) = mpsc::channel(QUEUED);
        let court = Court { broken: settings.broken, writer };
        tokio::spawn(run(settings.command, patience, court, questions));
        Self(sender)
    }

    /// Has an event judged, once there is room; false if the task has ended.
    pub(crate) async fn ask(&self, question: Question) -> bool {
        self.0.send(question).await.is_ok()
    }
}

async fn run(command: String, patience: Duration, court: Court, mut questions: mpsc::Receiver<Question>) {
    let mut pause = PAUSE_MIN;
    loop {
        let ended = match Process::start(&command) {
            Ok(process) => converse(process, patience, &court, &mut questions).await,
            Err(error) => Ended::Dumb(format!("failed to start it: {error}")),
        };
        let reason = match ended {
            Ended::WithRelay => return,
            Ended::Dumb(reason) => reason,
            Ended::AfterAnswers(reason) => {
                pause = PAUSE_MIN;
                reason
            }
        };
        let treated = court.broken;
        warn!(reason, ?treated, again_in_ms = pause.as_millis(), "the plugin is broken");
        let mut rest = std::pin::pin!(sleep(pause));
        loop {
            tokio::select! {
                () = &mut rest => break,
                question = questions.recv() => match question {
                    Some(question) => court.unjudged(question.submission),
                    None => return,
                },
            }
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Asks until the relay ends, or the plugin is broken.
async fn converse(
    mut process: Process,
    patience: Duration,
    court: &Court,
    questions: &mut mpsc::Receiver<Question>,
) -> Ended {
    let (mut pending, mut has_answered) = (Pending::new(patience), false);
    let ended: Result<(), Broken> = loop {
        let has_room = pending.len() < PLUGIN_IN_FLIGHT && process.unwritten() < PLUGIN_UNWRITTEN_BYTES;
        let deadline = pending.deadline();
        tokio::select! {
            said = process.talk() => match said {
                Ok(Some(line)) => {
                    let Some((id, verdict)) = wire::answer(&line) else { break Err("it sent a line that is no answer".to_owned()) };
                    if !std::mem::replace(&mut has_answered, true) {
                        info!("the plugin answers");
                    }
                    if let Some(submission) = pending.answer(&id, Instant::now()) {
                        court.decide(submission, verdict);
                    }
                }
                Ok(None) => {}
                Err(reason) => break Err(reason),
            },
            question = questions.recv(), if has_room => {
                let Some(Question { submission, source, authenticated, received_at }) = question else { break Ok(()) };
                process.write(wire::question(&submission.event, &source, authenticated.as_ref(), received_at).as_bytes());
                pending.ask(submission.event.id, submission, Instant::now());
            }
            () = sleep_until(deadline.unwrap_or_else(Instant::now).into()), if deadline.is_some() => {
                let overdue = pending.overdue(Instant::now());
                let (events, is_silent) = (overdue.waited.len(), overdue.is_silent);
                for submission in overdue.waited {
                    court.unjudged(submission);
                }
                if is_silent {
                    break Err("it does not answer".to_owned());
                }
                warn!(events, "the plugin does not answer about some events");
            }
        }
    };
    for submission in pending.drain() {
        court.unjudged(submission);
    }
    match ended {
        Ok(()) => Ended::WithRelay,
        Err(reason) if has_answered => Ended::AfterAnswers(reason),
        Err(reason) => Ended::Dumb(reason),
    }
}

// === impl Court ===

impl Court {
    fn decide(&self, submission: Submission, verdict: Verdict) {
        match verdict {
            Verdict::Accept => self.accept(submission),
            Verdict::Reject(rejection) => submission.answer(Outcome::Refused(rejection)),
            Verdict::ShadowReject => submission.answer(Outcome::Shadowed),
        }
    }

    fn unjudged(&self, submission: Submission) {
        match self.broken {
            WhenBroken::Accept => self.accept(submission),
            WhenBroken::Refuse => {
                let why = "the relay cannot judge events now, try again later";
                submission.answer(Outcome::Refused(Rejection::Error(why.into())));
            }
        }
    }

    fn accept(&self, submission: Submission) {
        if let Some(writer) = self.writer.upgrade() {
            // It fails when the relay ends: nobody waits for the answer.
            let _ = submission.submit_to(&writer);
        }
    }
}
