//! Why two relays that have the same events answer with different ones.
//!
//! What one shows and the other does not is fetched by its name and looked at. Reasons are found by what events say, not by who
//! the relay is.

use std::collections::BTreeMap;

use anyhow::{Context as _, Error, Result};
use serde_json::{Value, json};

use super::Id;
use super::questions::{Answer, set, up_to_eose};
use super::socket::{Socket, frame};

/// Events that are fetched for one query and relay; the others are counted as not looked at.
const LOOKED_AT_MAX: usize = 500;
/// NIP-04, NIP-59.
const PRIVATE_KINDS: [u64; 3] = [4, 1059, 21_059];

/// Why an event is in one answer and not in the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// Of the second of the last event that fits in the limit, others were chosen.
    Tie,
    /// The limit was reached before, by events that the other answer lacks.
    Beyond,
    /// One shows it to its author and recipients alone.
    Private,
    /// Its time is over.
    Expired,
    /// Its author asked for its deletion.
    Deleted,
    /// There is a newer version of it.
    Replaced,
    /// It was not taken in.
    Absent,
    /// It is there, and fits, as far as this can see.
    LeftOut,
    /// It was not looked at.
    Unseen,
}

/// One of two answers to a query.
#[derive(Clone, Copy)]
struct Side<'a> {
    name: &'a str,
    answer: &'a Answer,
}

/// How many events of all answers, by what a table says of them.
pub(super) type Counts = BTreeMap<String, u64>;

/// Two relays that can be asked.
pub(super) struct Pair<'a> {
    pub(super) names: [&'a str; 2],
    pub(super) sockets: [&'a mut Socket; 2],
    /// Seconds since 1970.
    pub(super) now: u64,
}

impl Pair<'_> {
    /// Counts why these two answers to a filter differ.
    pub(super) fn compare(&mut self, filter: &Value, answers: [&Answer; 2], counts: &mut Counts) -> Result<()> {
        for one in [0, 1] {
            let [shows, lacks] = [one, 1 - one].map(|place| Side { name: self.names[place], answer: answers[place] });
            let there = set(lacks.answer);
            let only: Vec<&Id> = shows.answer.iter().filter(|id| !there.contains(*id)).collect();
            if only.is_empty() {
                continue;
            }
            let seen = fetch_ids(self.sockets[one], only.iter().take(LOOKED_AT_MAX).copied())?;
            // The last one that fitted: fetched from who shows it.
            let full = filter["limit"].as_u64().is_some_and(|limit| lacks.answer.len() as u64 >= limit);
            let last = match lacks.answer.last().filter(|_| full) {
                Some(last) => {
                    fetch_ids(self.sockets[1 - one], [last])?.first().and_then(|event| event["created_at"].as_u64())
                }
                None => None,
            };
            *counts.entry(said(Reason::Unseen, shows.name, lacks.name)).or_default() +=
                only.len().saturating_sub(seen.len()) as u64;
            for event in &seen {
                let reason = self.reason(event, last, 1 - one)?;
                *counts.entry(said(reason, shows.name, lacks.name)).or_default() += 1;
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

/// What the event alone says.
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

/// What its place beside the last event within the limit says.
fn by_limit(event: &Value, last: Option<u64>) -> Option<Reason> {
    let (created_at, last) = (event["created_at"].as_u64()?, last?);
    match created_at.cmp(&last) {
        std::cmp::Ordering::Less => Some(Reason::Beyond),
        std::cmp::Ordering::Equal => Some(Reason::Tie),
        std::cmp::Ordering::Greater => None,
    }
}

/// A reason in words.
fn said(reason: Reason, shows: &str, lacks: &str) -> String {
    match reason {
        Reason::Tie => "of one second, at the limit: others were chosen".to_owned(),
        Reason::Beyond => format!("in place of what only {lacks} shows"),
        Reason::Private => format!("private messages, that {lacks} shows to their people alone"),
        Reason::Expired => format!("expired, shown by {shows}"),
        Reason::Deleted => format!("deleted by their author, shown by {shows}"),
        Reason::Replaced => format!("replaced by newer versions, shown by {shows}"),
        Reason::Absent => format!("not taken in by {lacks}"),
        Reason::LeftOut => format!("left out by {lacks}, which has them"),
        Reason::Unseen => "not looked at".to_owned(),
    }
}

fn fetch_ids<'a>(socket: &mut Socket, ids: impl IntoIterator<Item = &'a Id>) -> Result<Vec<Value>> {
    let ids: Vec<_> = ids.into_iter().map(|id| String::from_utf8_lossy(id)).collect();
    fetch(socket, &json!({"ids": ids}))
}

/// Stored events of a filter.
fn fetch(socket: &mut Socket, filter: &Value) -> Result<Vec<Value>> {
    socket.send(&frame(&format!("[\"REQ\",\"why\",{filter}]")))?;
    let mut events = Vec::new();
    let answered = up_to_eose(socket, |message| {
        let mut message: Value = serde_json::from_slice(message).context("a message of the relay")?;
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
    fn an_event_that_is_private_or_over_says_so_itself() {
        let over = json!([["e", "1"], ["expiration", "100"]]);
        assert_eq!(by_itself(&event(4, 5, &over), 99), Some(Reason::Private));
        assert_eq!(by_itself(&event(1, 5, &over), 100), Some(Reason::Expired));
        assert_eq!(by_itself(&event(1, 5, &over), 99), None);
    }

    #[test]
    fn an_event_older_than_the_last_one_within_the_limit_had_no_room() {
        let at = |created_at| event(1, created_at, &json!([]));
        assert_eq!(by_limit(&at(5), Some(6)), Some(Reason::Beyond));
        assert_eq!(by_limit(&at(6), Some(6)), Some(Reason::Tie));
        assert_eq!((by_limit(&at(7), Some(6)), by_limit(&at(5), None)), (None, None));
    }
}
