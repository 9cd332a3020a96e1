//! The task of one channel: it sends the oldest entry until the other side has it, then the next one. So the order of
//! notices is the order of deliveries. Alarms are a queue of their own, which comes first.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::sync::Notify;
use tracing::{error, info, warn};

use super::schedule::{Step, give_up};
use super::tools::{Render, Tools};
use crate::channel::{Channel, Message, Outcome};
use crate::error::{Error, Result};
use crate::file::ChannelName;
use crate::state::{Entry, Failure, Fate, State};

/// Longest sleep: a clock that was set is noticed after it.
const SLEEP_MAX: Duration = Duration::from_mins(1);
/// Pause after a failure of the file of notices.
const FAILURE_PAUSE: Duration = Duration::from_secs(5);

/// A channel, and everything that its task uses.
#[derive(Clone)]
pub(super) struct Lane {
    pub(super) name: ChannelName,
    pub(super) channel: Arc<dyn Channel>,
    pub(super) state: State,
    pub(super) render: Render,
    pub(super) tools: Tools,
    /// Announced of new entries.
    pub(super) wake: Arc<Notify>,
}

impl Lane {
    /// Delivers until the task is dropped. At any moment it may be: an attempt whose end is not noted is repeated, with
    /// the same id.
    pub(super) async fn run(self) {
        loop {
            if let Err(failure) = self.step().await {
                error!(channel = %self.name, error = %failure, "failed to use the outbox; trying again");
                tokio::time::sleep(FAILURE_PAUSE).await;
            }
        }
    }

    async fn step(&self) -> Result<()> {
        let lane = self.clone();
        let pending = blocking(move || lane.state.pending(&lane.name)).await?;
        match self.tools.schedule.step(pending, self.tools.clock.now()) {
            Step::Rest => self.wake.notified().await,
            Step::Wait(wait) => {
                let _ = tokio::time::timeout(wait.min(SLEEP_MAX), self.wake.notified()).await;
            }
            Step::GiveUp { entry, why } => self.give_up(entry, why).await?,
            Step::Send(entry, notice) => {
                let outcome = caught(async { self.channel.send(&(self.render)(&notice)).await }).await;
                self.report(&outcome);
                self.note(entry, outcome).await?;
            }
        }
        Ok(())
    }

    /// Sends a message now, beside the order of the outbox. Success makes the channel usable again.
    pub(super) async fn test(&self, message: &Message) -> Result<Outcome> {
        let outcome = caught(self.channel.send(message)).await;
        let (lane, noted, now) = (self.clone(), outcome.clone(), self.tools.clock.now().as_secs());
        blocking(move || {
            lane.state.change_delivery(&lane.name, |delivery| match noted {
                Outcome::Delivered => {
                    delivery.begin_anew();
                    delivery.last_delivery = Some(now);
                    delivery.successes += 1;
                }
                Outcome::Retry { why, .. }
                | Outcome::Rejected { why }
                | Outcome::Disable { why }
                | Outcome::Refused { why } => {
                    delivery.last_error = Some(Failure { at: now, why });
                }
            })
        })
        .await?;
        self.wake.notify_one();
        Ok(outcome)
    }

    async fn note(&self, entry: Entry, outcome: Outcome) -> Result<()> {
        let (lane, now, random) = (self.clone(), self.tools.clock.now(), (self.tools.random)());
        blocking(move || {
            let schedule = &lane.tools.schedule;
            let note = |delivery: &mut _| schedule.note(delivery, entry.queue, &outcome, now, random);
            lane.state.note_attempt(&lane.name, entry, note)
        })
        .await
    }

    async fn give_up(&self, entry: Entry, why: &'static str) -> Result<()> {
        warn!(channel = %self.name, seq = entry.seq, why, "gave up a delivery");
        let (lane, now) = (self.clone(), self.tools.clock.now().as_secs());
        blocking(move || {
            let failure = Failure { at: now, why: why.to_owned() };
            lane.state.note_attempt(&lane.name, entry, |delivery| {
                give_up(delivery, entry.queue, Some(failure));
                Fate::Remove
            })
        })
        .await
    }

    fn report(&self, outcome: &Outcome) {
        let channel = &self.name;
        match outcome {
            Outcome::Delivered => {}
            Outcome::Retry { why, .. } => info!(%channel, why, "failed to deliver a notice; trying again later"),
            Outcome::Rejected { why } => info!(%channel, why, "failed to deliver a notice; trying again some times"),
            Outcome::Disable { why } => {
                warn!(%channel, why, "disabled a channel; reload the watch file to use it again");
            }
            Outcome::Refused { why } => warn!(%channel, why, "gave up a notice that the channel refuses"),
        }
    }
}

/// Takes a panic of an attempt as its failure: the task of the channel goes on.
async fn caught(attempt: impl Future<Output = Outcome>) -> Outcome {
    let why = "the attempt panicked; report its message in the log";
    AssertUnwindSafe(attempt).catch_unwind().await.unwrap_or_else(|_| Outcome::retry(why))
}

/// Runs work on the disk on a thread that may wait.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Panicked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_beside_the_file_of_notices_is_a_failure() {
        let failure = blocking(|| -> Result<()> { panic!("a fault of the test") }).await;
        assert!(failure.is_err_and(|failure| failure.to_string().contains("panicked")));
    }
}
