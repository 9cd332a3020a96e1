//! When to try again. Pure: clock and randomness are arguments.

use std::time::Duration;

use crate::channel::Outcome;
use crate::limits::{DELIVERY_AGE_MAX, REJECTIONS_MAX, RETRY_FIRST, RETRY_MAX};
use crate::notice::Notice;
use crate::state::{Attempts, ChannelRecord, Entry, Failure, Fate, Head, Pending, Queue};

/// Waits between attempts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
    /// Age of a notice at which its delivery is given up.
    pub(crate) give_up: Duration,
}

/// The next step of a channel.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing to do until a new entry comes.
    Rest,
    Wait(Duration),
    /// The oldest entry of a queue is to be sent.
    Send(Entry, Box<Notice>),
    /// The oldest entry of a queue is given up.
    GiveUp {
        entry: Entry,
        why: &'static str,
    },
}

impl Default for Schedule {
    fn default() -> Self {
        Self { first: RETRY_FIRST, longest: RETRY_MAX, give_up: DELIVERY_AGE_MAX }
    }
}

impl Schedule {
    /// Decides the next step of a channel; `now` is the time since 1970. Alarms come first, and wait for no other
    /// notice.
    pub(super) fn step(&self, pending: Pending, now: Duration) -> Step {
        let Pending { mut delivery, alarm, usual } = pending;
        let is_disabled = delivery.disabled.is_some();
        let mut of = |queue, head| self.step_of(queue, head, *delivery.attempts(queue), now);
        let steps = [of(Queue::Alarms, alarm), of(Queue::Usual, usual)];
        let mut next = Step::Rest;
        for step in steps {
            next = match (next, step) {
                (Step::Rest, Step::Send(..) | Step::Wait(_)) if is_disabled => Step::Rest,
                (Step::Wait(wait), Step::Wait(other)) => Step::Wait(wait.min(other)),
                (Step::Wait(_), step @ (Step::Send(..) | Step::GiveUp { .. })) | (Step::Rest, step) => step,
                (next, _) => next,
            };
        }
        next
    }

    /// Decides the next step of a queue.
    fn step_of(&self, queue: Queue, head: Option<Head>, attempts: Attempts, now: Duration) -> Step {
        let Some(Head { seq, notice }) = head else { return Step::Rest };
        let entry = Entry { queue, seq };
        let Some(notice) = notice else {
            return Step::GiveUp { entry, why: "the log of notices no longer has it" };
        };
        if now.saturating_sub(Duration::from_secs(notice.at)) > self.give_up {
            return Step::GiveUp { entry, why: "every attempt of 30 days has failed" };
        }
        let wait = Duration::from_millis(attempts.next_ms).saturating_sub(now);
        // A longer one was set by a clock that has gone back since.
        if wait.is_zero() || wait > self.longest { Step::Send(entry, Box::new(notice)) } else { Step::Wait(wait) }
    }

    /// Notes the end of an attempt for the oldest entry of a queue.
    pub(super) fn note(
        &self,
        delivery: &mut ChannelRecord,
        queue: Queue,
        outcome: &Outcome,
        now: Duration,
        random: u64,
    ) -> Fate {
        let failure = |why: &str| Some(Failure { at: now.as_secs(), why: why.to_owned() });
        match outcome {
            Outcome::Delivered => {
                *delivery.attempts(queue) = Attempts::default();
                // The receiver is there again: an alarm that failed before waits no longer, unless it was refused.
                let alarms = delivery.attempts(Queue::Alarms);
                if alarms.rejections == 0 {
                    alarms.next_ms = 0;
                }
                delivery.disabled = None;
                delivery.last_delivery = Some(now.as_secs());
                delivery.successes += 1;
                Fate::Remove
            }
            Outcome::Refused { why } => {
                give_up(delivery, queue, failure(why));
                Fate::Remove
            }
            Outcome::Rejected { why } => {
                let attempts = delivery.attempts(queue);
                attempts.rejections += 1;
                if attempts.rejections >= REJECTIONS_MAX {
                    give_up(delivery, queue, failure(why));
                    return Fate::Remove;
                }
                self.try_again(attempts, Duration::ZERO, now, random);
                delivery.last_error = failure(why);
                Fate::Keep
            }
            Outcome::Disable { why } => {
                delivery.last_error = failure(why);
                delivery.disabled = Some(why.clone());
                Fate::Keep
            }
            Outcome::Retry { why, after } => {
                self.try_again(delivery.attempts(queue), after.unwrap_or_default(), now, random);
                delivery.last_error = failure(why);
                Fate::Keep
            }
        }
    }

    fn try_again(&self, attempts: &mut Attempts, after: Duration, now: Duration, random: u64) {
        attempts.count = attempts.count.saturating_add(1);
        let wait = self.wait(attempts.count, random).max(after).min(self.longest);
        attempts.next_ms = u64::try_from((now + wait).as_millis()).unwrap_or(u64::MAX);
    }

    /// Returns the wait after a number of failures: it doubles, and loses up to a quarter by chance, so that channels
    /// that failed together do not come back together.
    fn wait(&self, attempts: u32, random: u64) -> Duration {
        let doubled = 2_u32.checked_pow(attempts.saturating_sub(1)).and_then(|times| self.first.checked_mul(times));
        let whole = doubled.unwrap_or(self.longest).min(self.longest);
        let quarter = u64::try_from((whole / 4).as_millis()).unwrap_or(u64::MAX);
        whole.saturating_sub(Duration::from_millis(random % quarter.max(1)))
    }
}

/// Notes that the oldest entry of a queue is given up.
pub(super) fn give_up(delivery: &mut ChannelRecord, queue: Queue, failure: Option<Failure>) {
    delivery.given_up += 1;
    delivery.last_given_up.clone_from(&failure);
    delivery.last_error = failure;
    *delivery.attempts(queue) = Attempts::default();
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
