//! Limits on events: those that depend only on the event, the time and the client's identity. Pure: clock and settings
//! are arguments.
//!
//! [`EventLimits::check`] runs before the signature is verified, which costs more than all these checks.

use std::ops::Deref;

use crate::event::kind::{Kind, KindClass};
use crate::event::rejection::Rejection;
use crate::event::verified::VerifiedEvent;
use crate::event::{Event, Pubkey, Timestamp};

/// Times from here on that are meant to be past are milliseconds: of a moment in 1973, where seconds are of the
/// year 5138.
const MILLISECONDS_MIN: u64 = 100_000_000_000;

/// Limits on the events that a relay accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventLimits {
    /// Seconds that `created_at` may lie in the future.
    pub ahead_seconds_max: u64,
    /// Seconds that `created_at` may lie in the past.
    pub behind_seconds_max: Option<u64>,
    /// Tags of one event.
    pub tags_max: usize,
    /// Bytes of a value by which the event is found: the first of a tag with a name of one letter.
    pub tag_value_bytes_max: usize,
    /// Bytes of one event's content, in UTF-8.
    pub content_bytes_max: usize,
    /// Leading zero bits of an id, to which the author must have committed (NIP-13).
    pub difficulty_min: u32,
}

/// A verified event within the limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted(VerifiedEvent);

impl Default for EventLimits {
    /// A quarter of an hour for fast clocks, any age, and room for follow lists, of which the longest in use have five
    /// thousand tags. Each tag costs a posting, so the bound is not much higher. The longest message of NIP-17 that all
    /// versions of NIP-44 can encrypt, 65 535 bytes, is a gift wrap with a content of 153 012.
    fn default() -> Self {
        Self {
            ahead_seconds_max: 900,
            behind_seconds_max: None,
            tags_max: 6000,
            tag_value_bytes_max: 8192,
            content_bytes_max: 256 * 1024,
            difficulty_min: 0,
        }
    }
}

// === impl EventLimits ===

impl EventLimits {
    /// Accepts an event from a client that has authenticated as these authors (NIP-42).
    pub fn admit(&self, event: VerifiedEvent, now: Timestamp, authenticated: &[Pubkey]) -> Result<Admitted, Rejection> {
        self.check(&event, now, authenticated).map(|()| Admitted(event))
    }

    /// Checks an event that need not be verified yet.
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
        let max = self.tag_value_bytes_max;
        if let Some((letter, _)) = event.indexed_tags().find(|(_, value)| value.len() > max) {
            return Err(Rejection::invalid(format!("tag {letter} with a value of more than {max} bytes")));
        }
        if event.content.len() > self.content_bytes_max {
            return Err(Rejection::invalid(format!("content of more than {} bytes", self.content_bytes_max)));
        }
        Ok(())
    }

    fn check_time(&self, event: &Event, now: Timestamp) -> Result<(), Rejection> {
        let created_at = event.created_at.0;
        if created_at >= MILLISECONDS_MIN && created_at / 1000 <= now.0.saturating_add(self.ahead_seconds_max) {
            return Err(Rejection::invalid("created_at is in milliseconds; it counts seconds (NIP-01)"));
        }
        if created_at > now.0.saturating_add(self.ahead_seconds_max) {
            return Err(Rejection::invalid("created_at is too far in the future"));
        }
        if self.behind_seconds_max.is_some_and(|behind| created_at < now.0.saturating_sub(behind)) {
            return Err(Rejection::invalid("created_at is too far in the past"));
        }
        // NIP-40: ephemeral events are not stored, so they cannot expire.
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
        // NIP-13: an author who commits to less and is lucky has not done the work.
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
    /// Returns the event.
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
#[path = "event_limits_tests.rs"]
mod tests;
