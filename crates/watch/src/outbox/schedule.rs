//! When to try again. Pure: clock and randomness are arguments.

use std::time::Duration;

use crate::channel::Outcome;
use crate::limits::{DELIVERY_AGE_MAX, RETRY_FIRST, RETRY_MAX};
use crate::state::{ChannelRecord, Failure, Head, Pending};

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
    /// The oldest entry is to be sent.
    Send(Box<Head>),
    /// The oldest entry is given up.
    GiveUp {
        seq: u64,
        why: &'static str,
    },
}

/// The fate of an entry after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Keep,
    Remove,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { first: RETRY_FIRST, longest: RETRY_MAX, give_up: DELIVERY_AGE_MAX }
    }
}

impl Schedule {
    /// Decides the next step of a channel; `now` is the time since 1970.
    pub(super) fn step(&self, pending: Pending, now: Duration) -> Step {
        let Pending { delivery, head } = pending;
        let Some(head) = head else { return Step::Rest };
        let Some(notice) = &head.notice else {
            return Step::GiveUp { seq: head.seq, why: "the log of notices no longer has it" };
        };
        if now.saturating_sub(Duration::from_secs(notice.at)) > self.give_up {
            return Step::GiveUp { seq: head.seq, why: "every attempt of 30 days has failed" };
        }
        if delivery.disabled.is_some() {
            return Step::Rest;
        }
        let wait = Duration::from_millis(delivery.next_ms).saturating_sub(now);
        // A longer one was set by a clock that has gone back since.
        if wait.is_zero() || wait > self.longest { Step::Send(Box::new(head)) } else { Step::Wait(wait) }
    }

    /// Notes the end of an attempt.
    pub(super) fn note(&self, delivery: &mut ChannelRecord, outcome: &Outcome, now: Duration, random: u64) -> Fate {
        let failure = |why: &str| Some(Failure { at: now.as_secs(), why: why.to_owned() });
        match outcome {
            Outcome::Delivered => {
                let last_error = delivery.last_error.take();
                let (successes, given_up) = (delivery.successes + 1, delivery.given_up);
                let last_delivery = Some(now.as_secs());
                *delivery =
                    ChannelRecord { last_delivery, last_error, successes, given_up, ..ChannelRecord::default() };
                Fate::Remove
            }
            Outcome::Refused { why } => {
                give_up(delivery, failure(why));
                Fate::Remove
            }
            Outcome::Disable { why } => {
                delivery.last_error = failure(why);
                delivery.disabled = Some(why.clone());
                Fate::Keep
            }
            Outcome::Retry { why, after } => {
                delivery.last_error = failure(why);
                delivery.attempts = delivery.attempts.saturating_add(1);
                let wait = self.wait(delivery.attempts, random).max(after.unwrap_or_default()).min(self.longest);
                delivery.next_ms = u64::try_from((now + wait).as_millis()).unwrap_or(u64::MAX);
                Fate::Keep
            }
        }
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

/// Notes that the oldest entry is given up.
pub(super) fn give_up(delivery: &mut ChannelRecord, failure: Option<Failure>) {
    delivery.given_up += 1;
    delivery.last_error = failure;
    (delivery.attempts, delivery.next_ms) = (0, 0);
}

#[cfg(test)]
#[path = "schedule_tests.rs"]
mod tests;
