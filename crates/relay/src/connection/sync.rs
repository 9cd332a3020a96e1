//! Negentropy sessions of one client (NIP-77): relay and client find out which events each of them lacks.
//!
//! A session holds the ids of its filters' events, each once, gathered once: later events are not part of it, nor are
//! events that have expired, were deleted or are for others. Its work is done piece by piece, as that of a subscription
//! is.
//!
//! All sessions together have a bound on ids, in which messages that wait count as well. A session that waits too long
//! for its client ends, and frees its ids.

use std::collections::HashMap;
use std::ops::ControlFlow;

use birdhouse_clients::{Held, Quota, UsedUp};
use birdhouse_events::{Events, Rejection};
use negentropy::{Id, Negentropy, NegentropyStorageVector};
use tokio::time::Instant;

use crate::connection::sync_form::is_whole;
use crate::limits::{COUNT_ROWS, Limits, SYNC_FRAME_BYTES, SYNC_ID_BYTES};
use crate::message::{SubscriptionId, sync_closed, sync_message, sync_refused, sync_too_large};
use crate::stored::{Asked, Next, Stored};

/// The sessions of a connection.
#[derive(Debug)]
pub(super) struct Sessions {
    by_name: HashMap<SubscriptionId, Session>,
    next_number: u64,
    /// Bounds on the ids of the client's sessions, and of all sessions. Messages that wait count, too.
    ids: [Quota; 2],
}

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    /// Distinguishes it from other sessions of the same name.
    number: u64,
    ids: Ids,
    /// The client's message that is not answered yet.
    message: Option<Message>,
    /// Its ids, counted.
    counted: Held,
    /// Time of the last answer.
    since: Instant,
}

/// A message of the client.
#[derive(Debug)]
struct Message {
    bytes: Vec<u8>,
    /// Its bytes, counted as ids.
    _counted: Held,
}

#[derive(Debug)]
enum Ids {
    /// Some are still to come.
    Gathering {
        stored: Stored,
        found: NegentropyStorageVector,
        count: usize,
    },
    All(Negentropy<'static, NegentropyStorageVector>),
}

/// Result of a piece of work.
#[derive(Debug)]
pub(super) enum Progress {
    /// There is more to do.
    More,
    /// Sends this answer, then waits for the client.
    Answer(String),
    /// The session is over.
    End(String),
}

// === impl Sessions ===

impl Sessions {
    pub(super) fn new(ids: [Quota; 2]) -> Self {
        Self { by_name: HashMap::new(), next_number: 0, ids }
    }

    /// Begins a session on these events, which replaces one of the same name, and returns its number.
    ///
    /// # Errors
    /// The message to the client if there are too many, or no room for its message.
    pub(super) fn open(
        &mut self,
        id: &SubscriptionId,
        stored: Stored,
        message: Vec<u8>,
        sessions_max: usize,
    ) -> Result<u64, String> {
        self.by_name.remove(id);
        if self.by_name.len() >= sessions_max {
            return Err(sync_refused(id, &Rejection::Blocked(format!("{sessions_max} sessions are open").into())));
        }
        let message = self.hold(id, message)?;
        let counted = Held::nothing(&self.ids);
        let number = self.next_number;
        self.next_number += 1;
        let ids = Ids::Gathering { stored, found: NegentropyStorageVector::new(), count: 0 };
        let session = Session { number, ids, message: Some(message), counted, since: Instant::now() };
        self.by_name.insert(id.clone(), session);
        Ok(number)
    }

    /// Takes the client's next message and returns the session's number.
    ///
    /// # Errors
    /// The message to the client if there is no such session, it is not the client's turn, or there is no room for its
    /// message. The session is over.
    pub(super) fn receive(&mut self, id: &SubscriptionId, message: Vec<u8>) -> Result<u64, String> {
        let mut session = self.by_name.remove(id).ok_or_else(|| sync_closed(id, "no such session"))?;
        if session.message.is_some() {
            return Err(sync_refused(id, &Rejection::Invalid("the message before is not answered yet".into())));
        }
        session.message = Some(self.hold(id, message)?);
        let number = session.number;
        self.put_back(id.clone(), session);
        Ok(number)
    }

    /// Counts a message for as long as it waits.
    fn hold(&self, id: &SubscriptionId, bytes: Vec<u8>) -> Result<Message, String> {
        let [client, all] = &self.ids;
        let counted = Held::of(client, all, bytes.len().div_ceil(SYNC_ID_BYTES));
        let counted = counted.map_err(|used_up| no_room(id, used_up))?;
        Ok(Message { bytes, _counted: counted })
    }

    pub(super) fn close(&mut self, id: &SubscriptionId) {
        self.by_name.remove(id);
    }

    /// Takes a session out, to work on it.
    pub(super) fn take(&mut self, id: &SubscriptionId, number: u64) -> Option<Session> {
        self.by_name.get(id).filter(|session| session.number == number)?;
        self.by_name.remove(id)
    }

    pub(super) fn put_back(&mut self, id: SubscriptionId, session: Session) {
        self.by_name.insert(id, session);
    }

    /// Returns the start of the longest wait for the client.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        self.waiting().map(|(_, since)| since).min()
    }

    /// Ends the sessions that have waited since `since` or longer; returns the messages to the client.
    pub(super) fn close_idle(&mut self, since: Instant) -> Vec<String> {
        let silent = self.waiting().filter(|(_, waiting)| *waiting <= since).map(|(id, _)| id.clone());
        let silent: Vec<SubscriptionId> = silent.collect();
        for id in &silent {
            self.close(id);
        }
        silent.iter().map(|id| sync_closed(id, "you took too long to answer")).collect()
    }

    fn waiting(&self) -> impl Iterator<Item = (&SubscriptionId, Instant)> {
        let waiting = self.by_name.iter().filter(|(_, session)| session.message.is_none());
        waiting.map(|(id, session)| (id, session.since))
    }
}

// === impl Session ===

impl Session {
    /// Does a piece of the work.
    pub(super) fn advance(
        &mut self,
        id: &SubscriptionId,
        events: &Events,
        asked: Asked<'_>,
        limits: &Limits,
    ) -> birdhouse_events::Result<Progress> {
        if let Ids::Gathering { stored, found, count } = &mut self.ids {
            let before = *count;
            let next = stored.page(events, asked, COUNT_ROWS, &mut |packed| {
                let id = Id::from_byte_array(packed.id().0);
                found.insert(packed.created_at().into(), id).expect("it is not sealed");
                *count += 1;
                ControlFlow::Continue(())
            })?;
            if *count > limits.sync_ids {
                return Ok(Progress::End(sync_too_large(id, limits.sync_ids)));
            }
            if let Err(used_up) = self.counted.grow(*count - before) {
                return Ok(Progress::End(no_room(id, used_up)));
            }
            if next == Next::Page {
                return Ok(Progress::More);
            }
            let mut found = std::mem::take(found);
            found.seal().expect("it is not sealed");
            self.ids = Ids::All(Negentropy::owned(found, SYNC_FRAME_BYTES).expect("the bound is large enough"));
        }
        Ok(self.answer(id))
    }

    fn answer(&mut self, id: &SubscriptionId) -> Progress {
        let (Ids::All(negentropy), Some(message)) = (&mut self.ids, self.message.take()) else {
            return Progress::More;
        };
        self.since = Instant::now();
        // The library takes what is left of a number for a number.
        let answer = if is_whole(&message.bytes) { negentropy.reconcile(&message.bytes).ok() } else { None };
        match answer {
            Some(answer) => Progress::Answer(sync_message(id, &answer)),
            None => Progress::End(sync_refused(id, &Rejection::Invalid("not a message of negentropy".into()))),
        }
    }
}

/// Returns the message to a client for whose ids or message there is no room.
fn no_room(id: &SubscriptionId, used_up: UsedUp) -> String {
    let why = match used_up {
        UsedUp::OfClient => "your sessions compare too many events: close some",
        UsedUp::OfAll => "too much is compared at the moment: ask again later",
    };
    sync_refused(id, &Rejection::Blocked(why.into()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Arc;

    use birdhouse_events::{Filter, Seq, TagsBy};

    use super::*;
    use crate::live::SinceSeq;
    use crate::message::{ClientMessage, SyncMessage};
    use crate::settings::Settings;

    fn name(number: usize) -> SubscriptionId {
        let close = format!("[\"NEG-CLOSE\",\"{number}\"]");
        match ClientMessage::parse(&close, &Settings::default()).unwrap() {
            ClientMessage::Sync(SyncMessage::Close(id)) => id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn messages_that_wait_have_room_by_bytes() {
        const MESSAGE_BYTES: usize = 500_000;
        let limits = Limits::default();
        let ids = [Quota::new(limits.client_sync_ids.unwrap()), Quota::new(limits.sync_ids_all)];
        let mut connections: Vec<Sessions> = (0..50).map(|_| Sessions::new(ids.clone())).collect();
        let mut waiting = 0;
        for sessions in &mut connections {
            for number in 0..limits.sync_sessions {
                let held = Arc::new(Held::nothing(&ids));
                let stored = Stored::new([Filter::default()].into(), TagsBy::Event, SinceSeq::at(Seq(0))).holding(held);
                let opened = sessions.open(&name(number), stored, vec![0; MESSAGE_BYTES], limits.sync_sessions);
                waiting += if opened.is_ok() { MESSAGE_BYTES } else { 0 };
            }
        }
        println!("messages of one client that wait: {waiting} bytes");
        assert!(waiting <= 40_000_000, "{waiting} bytes");
        drop(connections);
        assert_eq!(ids[0].held(), 0);
    }
}
