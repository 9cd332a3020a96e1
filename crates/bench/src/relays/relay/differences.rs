//! Reasons for different answers of two relays with the same events.
//!
//! Events that only one relay returned are fetched by id. Reasons follow from the events, not from the relay's name.

use std::collections::BTreeMap;

use anyhow::{Context as _, Error, Result};
use serde_json::{Value, json};

use super::answers::{Answer, set, up_to_eose};
use super::event::Id;
use super::socket::{Socket, frame};

/// Most events fetched for one query and relay; the others count as not examined.
const FETCHED_MAX: usize = 500;
/// Kinds of private messages (NIP-04, NIP-59).
const PRIVATE_KINDS: [u64; 3] = [4, 1059, 21_059];

/// Reason why an event is in one answer only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// It has the time of the last event within the limit, where the other relay chose other events.
    Tie,
    /// It is beyond the other answer's limit, which other events fill.
    Beyond,
    /// The other relay returns it only to its author and recipients.
    Private,
    /// It has expired.
    Expired,
    /// Its author deleted it.
    Deleted,
    /// A newer version replaced it.
    Replaced,
    /// The other relay does not have it.
    Absent,
    /// The other relay has it and left it out for an unknown reason.
    LeftOut,
    /// It was not examined.
    Unseen,
}

/// One of two answers to a query.
#[derive(Clone, Copy)]
struct Side<'a> {
    name: &'a str,
    answer: &'a Answer,
}

/// Number of events in all answers by the text of a table.
pub(super) type Counts = BTreeMap<String, u64>;

/// Two relays with their connections.
pub(super) struct Pair<'a> {
    pub(super) names: [&'a str; 2],
    pub(super) sockets: [&'a mut Socket; 2],
    /// The present time in seconds since 1970.
    pub(super) now: u64,
}

impl Pair<'_> {
    /// Counts the reasons for differences of two answers to a filter.
    pub(super) fn compare(&mut self, filter: &Value, answers: [&Answer; 2], counts: &mut Counts) -> Result<()> {
        for one in [0, 1] {
            let [shows, lacks] = [one, 1 - one].map(|index| Side { name: self.names[index], answer: answers[index] });
            let there = set(lacks.answer);
            let only: Vec<&Id> = shows.answer.iter().filter(|id| !there.contains(*id)).collect();
            if only.is_empty() {
                continue;
            }
            let seen = fetch_ids(self.sockets[one], only.iter().take(FETCHED_MAX).copied())?;
            // The last event within the limit, fetched from the relay that returned it.
            let full = filter["limit"].as_u64().is_some_and(|limit| lacks.answer.len() as u64 >= limit);
            let last = match lacks.answer.last().filter(|_| full) {
                Some(last) => {
                    fetch_ids(self.sockets[1 - one], [last])?.first().and_then(|event| event["created_at"].as_u64())
                }
                None => None,
            };
            *counts.entry(description(Reason::Unseen, shows.name, lacks.name)).or_default() +=
                only.len().saturating_sub(seen.len()) as u64;
            for event in &seen {
                let reason = self.reason(event, last, 1 - one)?;
                *counts.entry(description(reason, shows.name, lacks.name)).or_default() += 1;
            }
        }
        counts.retain(|_, count| *count > 0);
        Ok(())
    }

    fn reason(&mut self, event: &Value, last: Option<u64>, lacking: usize) -> Result<Reason> {
        if let Some(reason) = by_itself(event, self.now).or_else(|| by_limit(event, last)) {
            return Ok(reason);
        }
        let socket = &mut *self.sockets[lacking];
        if !fetch(socket, &json!({"ids": [event["id"]]}))?.is_empty() {
            return Ok(Reason::LeftOut);
        }
        let (id, author, kind) = (&event["id"], &event["pubkey"], &event["kind"]);
        if !fetch(socket, &json!({"kinds": [5], "authors": [author], "#e": [id]}))?.is_empty() {
            return Ok(Reason::Deleted);
        }
        let replaceable = kind.as_u64().is_some_and(|kind| matches!(kind, 0 | 3 | 10_000..20_000 | 30_000..40_000));
        let newer = json!({"kinds": [kind], "authors": [author], "since": event["created_at"]});
        let is_replaced = replaceable && !fetch(socket, &newer)?.is_empty();
        Ok(if is_replaced { Reason::Replaced } else { Reason::Absent })
    }
}

/// Returns the reason that the event alone gives.
fn by_itself(event: &Value, now: u64) -> Option<Reason> {
    let is_private = event["kind"].as_u64().is_some_and(|kind| PRIVATE_KINDS.contains(&kind));
    let tags = event["tags"].as_array().map(Vec::as_slice).unwrap_or_default();
    let expiration =
        tags.iter().find(|tag| tag[0] == "expiration").and_then(|tag| tag[1].as_str()?.parse::<u64>().ok());
    if is_private {
        return Some(Reason::Private);
    }
    expiration.filter(|end| *end <= now).map(|_| Reason::Expired)
}

/// Returns the reason that its time beside the last event within the limit gives.
fn by_limit(event: &Value, last: Option<u64>) -> Option<Reason> {
    let (created_at, last) = (event["created_at"].as_u64()?, last?);
    match created_at.cmp(&last) {
        std::cmp::Ordering::Less => Some(Reason::Beyond),
        std::cmp::Ordering::Equal => Some(Reason::Tie),
        std::cmp::Ordering::Greater => None,
    }
}

/// Returns the text of a reason.
fn description(reason: Reason, shows: &str, lacks: &str) -> String {
    match reason {
        Reason::Tie => "of the last second within the limit, where others were chosen".to_owned(),
        Reason::Beyond => format!("in place of events that only {lacks} returns"),
        Reason::Private => format!("private messages, which {lacks} returns only to their authors and recipients"),
        Reason::Expired => format!("expired, returned by {shows}"),
        Reason::Deleted => format!("deleted by their author, returned by {shows}"),
        Reason::Replaced => format!("replaced by newer versions, returned by {shows}"),
        Reason::Absent => format!("not stored by {lacks}"),
        Reason::LeftOut => format!("left out by {lacks}, which has them"),
        Reason::Unseen => "not examined".to_owned(),
    }
}

fn fetch_ids<'a>(socket: &mut Socket, ids: impl IntoIterator<Item = &'a Id>) -> Result<Vec<Value>> {
    let ids: Vec<_> = ids.into_iter().map(|id| String::from_utf8_lossy(id)).collect();
    fetch(socket, &json!({"ids": ids}))
}

/// Fetches the stored events of a filter.
fn fetch(socket: &mut Socket, filter: &Value) -> Result<Vec<Value>> {
    socket.send(&frame(&format!("[\"REQ\",\"why\",{filter}]")))?;
    let mut events = Vec::new();
    let answered = up_to_eose(socket, |message| {
        let mut message: Value = serde_json::from_slice(message).context("failed to parse a message of the relay")?;
        events.push(message[2].take());
        Ok(())
    })?;
    answered.map_err(Error::msg)?;
    socket.send(&frame("[\"CLOSE\",\"why\"]"))?;
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(kind: u64, created_at: u64, tags: &Value) -> Value {
        json!({"kind": kind, "created_at": created_at, "tags": tags})
    }

    #[test]
    fn private_and_expired_events_give_their_reason() {
        let over = json!([["e", "1"], ["expiration", "100"]]);
        assert_eq!(by_itself(&event(4, 5, &over), 99), Some(Reason::Private));
        assert_eq!(by_itself(&event(1, 5, &over), 100), Some(Reason::Expired));
        assert_eq!(by_itself(&event(1, 5, &over), 99), None);
    }

    #[test]
    fn event_older_than_the_last_one_is_beyond_the_limit() {
        let at = |created_at| event(1, created_at, &json!([]));
        assert_eq!(by_limit(&at(5), Some(6)), Some(Reason::Beyond));
        assert_eq!(by_limit(&at(6), Some(6)), Some(Reason::Tie));
        assert_eq!((by_limit(&at(7), Some(6)), by_limit(&at(5), None)), (None, None));
    }
}
