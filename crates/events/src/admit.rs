//! Whether a relay takes an event, as far as the event itself, the time and the client's identity decide: pure, so the clock
//! and the settings are arguments.
//!
//! Everything here can be said before the signature is verified, which costs more than all of it: [`Admission::check`].

use std::ops::Deref;

use crate::event::{Event, Pubkey, Timestamp, VerifiedEvent};
use crate::kind::{Kind, KindClass};
use crate::rejection::Rejection;

/// What a relay asks of events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// How far `created_at` may lie in the future, seconds.
    pub ahead_seconds_max: u64,
    /// How far it may lie in the past, seconds.
    pub behind_seconds_max: Option<u64>,
    /// Tags of one event.
    pub tags_max: usize,
    /// Bytes of one event's content, in UTF-8.
    pub content_bytes_max: usize,
    /// Zero bits that an id must begin with, and that its author must have committed to (NIP-13).
    pub difficulty_min: u32,
}

/// A verified event that the relay takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted(VerifiedEvent);

impl Default for Admission {
    /// A quarter of an hour for clocks that are fast, any age, and room for the longest lists of follows in use.
    fn default() -> Self {
        Self {
            ahead_seconds_max: 900,
            behind_seconds_max: None,
            tags_max: 10_000,
            content_bytes_max: 128 * 1024,
            difficulty_min: 0,
        }
    }
}

// === impl Admission ===

impl Admission {
    /// Takes an event, of a client that has proved to be these authors (NIP-42).
    pub fn admit(&self, event: VerifiedEvent, now: Timestamp, authenticated: &[Pubkey]) -> Result<Admitted, Rejection> {
        self.check(&event, now, authenticated).map(|()| Admitted(event))
    }

    /// The same of an event that is not verified yet.
    pub fn check(&self, event: &Event, now: Timestamp, authenticated: &[Pubkey]) -> Result<(), Rejection> {
        check_kind(event)?;
        self.check_size(event)?;
        self.check_time(event, now)?;
        self.check_work(event)?;
        check_protection(event, authenticated)
    }

    fn check_size(&self, event: &Event) -> Result<(), Rejection> {
        if event.tags.len() > self.tags_max {
            return Err(Rejection::invalid(format!("more than {} tags", self.tags_max)));
        }
        if event.content.len() > self.content_bytes_max {
            return Err(Rejection::invalid(format!("content of more than {} bytes", self.content_bytes_max)));
        }
        Ok(())
    }

    fn check_time(&self, event: &Event, now: Timestamp) -> Result<(), Rejection> {
        let created_at = event.created_at.0;
        if created_at > now.0.saturating_add(self.ahead_seconds_max) {
            return Err(Rejection::invalid("created_at is too far in the future"));
        }
        if self.behind_seconds_max.is_some_and(|behind| created_at < now.0.saturating_sub(behind)) {
            return Err(Rejection::invalid("created_at is too far in the past"));
        }
        // NIP-40: ephemeral events are not kept, so there is nothing to forget.
        if event.kind.class() != KindClass::Ephemeral && event.is_expired(now) {
            return Err(Rejection::invalid("the event has expired"));
        }
        Ok(())
    }

    fn check_work(&self, event: &Event) -> Result<(), Rejection> {
        let needed = self.difficulty_min;
        if needed == 0 {
            return Ok(());
        }
        let difficulty = event.difficulty();
        if difficulty < needed {
            return Err(Rejection::Pow(format!("difficulty {difficulty} is less than {needed}").into()));
        }
        // Who sets out for less and is lucky has not done the work (NIP-13).
        match event.committed_difficulty() {
            Some(target) if target >= needed => Ok(()),
            Some(target) => Err(Rejection::Pow(format!("committed to {target}, less than {needed}").into())),
            None => Err(Rejection::Pow(format!("no commitment to difficulty {needed}").into())),
        }
    }
}

fn check_kind(event: &Event) -> Result<(), Rejection> {
    match event.kind {
        Kind::CLIENT_AUTH => Err(Rejection::invalid("kind 22242 belongs into AUTH")),
        Kind::VANISH if event.values("relay").next().is_none() => {
            Err(Rejection::invalid("a request to vanish names relays"))
        }
        _ => Ok(()),
    }
}

fn check_protection(event: &Event, authenticated: &[Pubkey]) -> Result<(), Rejection> {
    if event.is_protected() && !authenticated.contains(&event.pubkey) {
        let reason = "this event may only be published by its author".into();
        return Err(match authenticated {
            [] => Rejection::AuthRequired(reason),
            _ => Rejection::Restricted(reason),
        });
    }
    if event.reposts_protected() {
        return Err(Rejection::Blocked("it carries an event that may only be published by its author".into()));
    }
    Ok(())
}

// === impl Admitted ===

impl Admitted {
    /// The event, to own it.
    pub fn into_verified(self) -> VerifiedEvent {
        self.0
    }
}

impl Deref for Admitted {
    type Target = VerifiedEvent;

    fn deref(&self) -> &VerifiedEvent {
        &self.0
    }
}

#[cfg(test)]
#[path = "admit_tests.rs"]
mod tests;
