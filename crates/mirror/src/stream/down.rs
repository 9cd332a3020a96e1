//! Events that come: the live subscription and its way into the store.

use std::time::Duration;

use serde_json::{Value, json};

use crate::intake::{Intake, Progress};
use crate::job::Job;
use crate::limits::{INVALID_MAX, SUBSCRIBE_ATTEMPTS_MAX, SUBSCRIBE_TIMEOUT};
use crate::words::wants_identity;

/// Name of the live subscription.
pub(super) const LIVE: &str = "live";

/// The direction in which events come.
pub(super) struct Down {
    pub(super) intake: Intake,
    subscription: Subscription,
    attempts: usize,
    /// Number of stored events that are asked for: none, or the fewest that the peer allows.
    limit: u64,
    /// Events that came.
    received: u64,
    /// True once nothing is missing.
    pub(super) is_complete: bool,
}

/// State of the subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subscription {
    /// It was asked for, at this time.
    Asked(Duration),
    /// The peer has refused it, at this time, until it knows who asks.
    Refused(Duration),
    Live,
}

/// Knowledge of the peer about who asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// There is no key.
    None,
    /// It is being proved, or will be.
    Unproved,
    /// The peer has accepted the proof.
    Proved,
}

/// The next step after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    AskAgain,
    Wait,
}

impl Down {
    pub(super) fn new(intake: Intake, now: Duration) -> Self {
        let subscription = Subscription::Asked(now);
        Self { intake, subscription, attempts: 0, limit: 0, received: 0, is_complete: false }
    }

    /// Returns the message that asks for events.
    pub(super) fn ask(&mut self, job: &Job, now: Duration) -> Value {
        self.attempts += 1;
        self.subscription = Subscription::Asked(now);
        let mut filter = job.wire();
        filter.insert("limit".into(), self.limit.into());
        json!(["REQ", LIVE, filter])
    }

    /// Takes an event of the subscription.
    pub(super) async fn take(&mut self, json: &str) {
        self.received += 1;
        self.intake.add(json.to_owned()).await;
    }

    /// Takes the confirmation of the subscription. Returns true if it is the first one.
    pub(super) fn confirmed(&mut self) -> bool {
        std::mem::replace(&mut self.subscription, Subscription::Live) != Subscription::Live
    }

    /// Takes a refusal, or the end, of the subscription.
    ///
    /// # Errors
    /// The reason, if another attempt is of no use.
    pub(super) fn closed(&mut self, reason: &str, identity: Identity, now: Duration) -> Result<Next, String> {
        let is_last = self.attempts >= SUBSCRIBE_ATTEMPTS_MAX;
        if wants_identity(reason) && identity != Identity::None && !is_last {
            self.subscription = Subscription::Refused(now);
            return Ok(if identity == Identity::Proved { Next::AskAgain } else { Next::Wait });
        }
        // Some relays take no limit of zero.
        if self.limit == 0 && reason.contains("limit") && !reason.starts_with("rate-limited:") && !is_last {
            self.limit = 1;
            return Ok(Next::AskAgain);
        }
        Err(format!("the subscription is closed: {reason}"))
    }

    /// True if the subscription was refused until the peer knows who asks.
    pub(super) fn waits_for_proof(&self) -> bool {
        matches!(self.subscription, Subscription::Refused(_))
    }

    /// Checks that the subscription is confirmed in time.
    ///
    /// # Errors
    /// It is not.
    pub(super) fn check_time(&self, now: Duration) -> Result<(), String> {
        match self.subscription {
            Subscription::Asked(since) | Subscription::Refused(since) if now > since + SUBSCRIBE_TIMEOUT => {
                Err(format!("the subscription is not confirmed in {} s", SUBSCRIBE_TIMEOUT.as_secs()))
            }
            _ => Ok(()),
        }
    }

    /// Checks what became of the events so far.
    ///
    /// # Errors
    /// This relay could not keep some of them, or most of them are no valid ones.
    pub(super) fn check(&self, progress: Progress) -> Result<(), String> {
        let Progress { failed, invalid, .. } = progress;
        if failed > 0 {
            return Err(format!("this relay could not keep {failed} of the events"));
        }
        if invalid > INVALID_MAX && invalid > self.received / 2 {
            return Err(format!("{invalid} of {} events are no valid ones", self.received));
        }
        Ok(())
    }
}
