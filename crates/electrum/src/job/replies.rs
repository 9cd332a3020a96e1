//! Replies to the requests of one job: each leaves as it is ready, or all leave as one batch.

use std::sync::Arc;
use std::time::Instant;

use birdhouse_net::Unfinished;
use parking_lot::Mutex;

use crate::client::{Client, Epoch, Settle};
use crate::error::RpcError;
use crate::job::call::{Form, Slot};
use crate::protocol::Answer;
use crate::request::Lane;
use crate::response::{error_reply, reply};
use crate::service::{Counters, Outcome};

/// Replies that one client waits for.
pub(super) struct Replies {
    pub(super) client: Arc<Client>,
    /// Epoch of the connection's state before the snapshot was taken.
    epoch: Epoch,
    /// Arrival of the requests, for their latency.
    pub(super) arrived: Instant,
    /// The requests, by their index in the job.
    slots: Vec<Slot>,
    /// `None` if each reply leaves as it is ready.
    batch: Option<Mutex<Batch>>,
}

/// The growing reply to a batch.
#[derive(Debug)]
struct Batch {
    unanswered: usize,
    /// An item had no room: the reads that are left are not worth doing.
    is_full: bool,
    /// Counts the bytes of `replies` as unsent.
    held: Unfinished,
    replies: Vec<Vec<u8>>,
    settles: Vec<Settle>,
}

impl Replies {
    /// Expects one answer for each slot. `epoch` is older than the snapshot of the answers.
    pub(super) fn new(client: Arc<Client>, epoch: Epoch, arrived: Instant, form: Form, slots: Vec<Slot>) -> Self {
        let batch = (form == Form::Batch).then(|| {
            Mutex::new(Batch {
                unanswered: slots.len(),
                is_full: false,
                held: client.outbox.unfinished(client.limits().reply_bytes),
                replies: vec![Vec::new(); slots.len()],
                settles: Vec::new(),
            })
        });
        Self { client, epoch, arrived, slots, batch }
    }

    /// Returns true if there is one request alone, and it wants a reply.
    pub(super) fn is_single(&self) -> bool {
        matches!(self.slots[..], [Slot { id: Some(_), .. }])
    }

    /// Returns true if the batch has no room for further items.
    pub(super) fn is_full(&self) -> bool {
        self.batch.as_ref().is_some_and(|batch| batch.lock().is_full)
    }

    /// Sends the reply to the request at `index`, or adds it to the batch, and counts the request.
    pub(super) fn answer(&self, counters: &Counters, index: usize, lane: Lane, result: &Result<Answer, RpcError>) {
        let Slot { id, kind, topic } = &self.slots[index];
        match kind {
            Some(kind) => counters.answered(kind, lane, Outcome::of(result), self.arrived.elapsed()),
            None => counters.invalid(),
        }
        let mut settle = topic.map(|topic| Settle::of(topic, result));
        let mut line = id.as_ref().map(|id| reply(id, result, self.client.limits().reply_bytes));
        if let Some(batch) = &self.batch {
            self.collect(batch, index, line, settle);
        } else {
            if let (Some(id), Some(made)) = (id, &mut line)
                && !self.client.outbox.takes(made.len())
            {
                *made = error_reply(id, &RpcError::excessive("replies that were not read use up their memory"));
                settle = settle.map(Settle::failed);
            }
            let reply = line.map(|line| self.client.outbox.frame([line]));
            self.client.deliver(reply, settle, self.epoch);
            self.client.in_flight.add_permits(1);
        }
    }

    fn collect(&self, batch: &Mutex<Batch>, index: usize, line: Option<Vec<u8>>, settle: Option<Settle>) {
        let mut batch = batch.lock();
        let mut line = line.unwrap_or_default();
        if batch.held.has_room(line.len()) {
            batch.settles.extend(settle);
        } else if let Some(id) = &self.slots[index].id {
            batch.is_full = true;
            line = error_reply(id, &too_large());
            batch.settles.extend(settle.map(Settle::failed));
        }
        batch.held.add(line.len());
        batch.replies[index] = line;
        batch.unanswered -= 1;
        if batch.unanswered == 0 {
            let replies = std::mem::take(&mut batch.replies);
            let settles = std::mem::take(&mut batch.settles);
            drop(batch);
            let reply = array(replies).map(|parts| self.client.outbox.frame(parts));
            self.client.deliver(reply, settles, self.epoch);
            self.client.in_flight.add_permits(self.client.permits(self.slots.len()) as usize);
        }
    }
}

/// Returns the error of an item that has no room in its batch.
pub(super) fn too_large() -> RpcError {
    RpcError::excessive("the reply to the batch is too large")
}

/// Joins replies into the parts of one array; returns `None` if no request wants a reply.
fn array(replies: Vec<Vec<u8>>) -> Option<Vec<Vec<u8>>> {
    let mut parts = vec![b"[".to_vec()];
    parts.extend(replies.into_iter().filter(|reply| !reply.is_empty()));
    let [_, before_last @ .., last] = parts.as_mut_slice() else { return None };
    for reply in before_last {
        reply.push(b',');
    }
    last.push(b']');
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_answered_in_one_array_in_order() {
        let replies = vec![b"1".to_vec(), Vec::new(), b"2".to_vec()];
        assert_eq!(array(replies).map(|parts| parts.concat()).as_deref(), Some(&b"[1,2]"[..]));
    }

    #[test]
    fn a_batch_of_notifications_gets_no_line() {
        assert_eq!(array(vec![Vec::new(), Vec::new()]), None);
    }
}
