//! Start-time fair queueing over clients (Goyal, Vin and Cheng, SIGCOMM 1996), with costs that are known only
//! afterwards.
//!
//! Every client has a *tag*: the work it was granted, on a clock that all clients share. The waiting client with the
//! lowest tag is next, so a client that asks for much waits behind itself and not before others. A returning client
//! starts at the clock: it gets no credit for its absence, and no charge for what it used while nobody waited. The
//! clock advances by the granted work divided by the number of active clients, so that a stream of new clients starves
//! nobody.
//!
//! Invariants: no slot is free while a client that may have one waits; a client is granted at most its own part of the
//! slots, so that another finds one at once; turns of one client are granted in the order of its requests.
//!
//! How large that part is depends on who has asked lately: one client alone may keep every processor busy, one among
//! others may not.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant};

use crate::client_key::ClientKey;

/// The assumed cost of a turn until it ends, so that turns granted at the same moment go to different clients.
const EXPECTED: Duration = Duration::from_millis(1);
/// Number of clients above which idle ones with tags behind the clock are dropped.
const PRUNE_AT: usize = 64;
/// Time for which a client counts after it has asked for a turn.
pub(crate) const RECENT: Duration = Duration::from_secs(1);

/// A client in a fair queue: the same in every queue of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ClientId {
    /// A client with all of its connections.
    Client(ClientKey),
    /// One connection, by its number, of clients that cannot be told apart.
    Connection(u64),
}

/// Slots, the clients that hold them, and the clients that wait. `T` identifies a waiting turn.
#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    slots: usize,
    client_slots: usize,
    held: usize,
    waiting: usize,
    clock: Duration,
    /// Number of clients that hold a slot or wait for one.
    active: u32,
    shares: HashMap<ClientId, Share<T>>,
    prune_at: usize,
    /// A client that holds more slots than it may by now.
    excess: Option<ClientId>,
    /// The clients that wait and may have a slot, the next one first.
    queue: BTreeSet<QueueKey>,
    arrivals: u64,
}

/// Tag, arrival and client: equal tags are served by arrival.
type QueueKey = (Duration, u64, ClientId);

/// The state of one client.
#[derive(Debug)]
struct Share<T> {
    tag: Duration,
    held: usize,
    waiting: VecDeque<T>,
    queued: Option<QueueKey>,
}

/// The last requests of two different clients for turns.
#[derive(Debug, Default)]
pub(crate) struct RecentClients {
    last: Option<(ClientId, Instant)>,
    /// The last request of another client than that one.
    other: Option<Instant>,
}

impl ClientId {
    /// Returns the client of the connection of this number. A connection of the pool is a client of its own.
    pub fn of(key: ClientKey, connection: u64) -> Self {
        if key == ClientKey::Pool { Self::Connection(connection) } else { Self::Client(key) }
    }
}

impl<T> FairQueue<T> {
    /// Returns an empty queue for `slots` slots, of which one client holds `client_slots` at most.
    pub(crate) fn new(slots: usize, client_slots: usize) -> Self {
        Self {
            slots: slots.max(1),
            client_slots: client_slots.max(1),
            held: 0,
            waiting: 0,
            clock: Duration::ZERO,
            active: 0,
            shares: HashMap::new(),
            prune_at: PRUNE_AT,
            excess: None,
            queue: BTreeSet::new(),
            arrivals: 0,
        }
    }

    /// Changes the number of slots that one client holds at most. Clients that hold more keep them until their turns
    /// end. After it was raised the caller calls [`Self::next`] until `None`.
    pub(crate) fn set_client_slots(&mut self, client_slots: usize) {
        let before = std::mem::replace(&mut self.client_slots, client_slots.max(1));
        if self.client_slots != before {
            // One client at most held all that it may hold alone.
            let excess = self.shares.iter().find(|(_, share)| share.held > self.client_slots);
            self.excess = excess.map(|(client, _)| *client);
        }
        if self.client_slots > before && self.waiting > 0 {
            let waiting = self.shares.iter().filter(|(_, share)| !share.waiting.is_empty());
            let waiting: Vec<ClientId> = waiting.map(|(client, _)| *client).collect();
            for client in waiting {
                self.enqueue(client);
            }
        }
    }

    /// Takes a slot for a client, if one is free and no client that may have it waits. Returns `true` on success.
    pub(crate) fn try_take(&mut self, client: ClientId) -> bool {
        if self.held >= self.slots || !self.queue.is_empty() {
            return false;
        }
        let client_slots = self.client_slots;
        let share = self.activate(client);
        let may_have = share.held < client_slots;
        if may_have {
            // The queue is empty, so no waiting turn of this client has to move in it.
            let tag = share.grant();
            self.granted(tag);
        }
        may_have
    }

    /// Adds a waiting turn; [`Self::next`] returns `ticket` when it is granted.
    pub(crate) fn wait(&mut self, client: ClientId, ticket: T) {
        self.activate(client).waiting.push_back(ticket);
        self.waiting += 1;
        self.enqueue(client);
    }

    /// Adds a waiting turn before the others of its client: it goes on with what it has begun before it begins more.
    pub(crate) fn wait_first(&mut self, client: ClientId, ticket: T) {
        self.activate(client).waiting.push_front(ticket);
        self.waiting += 1;
        self.enqueue(client);
    }

    /// Grants the next turn if a slot is free; the slot is held from now on. The caller calls it until `None`, whenever
    /// a slot became free or a turn was added.
    pub(crate) fn next(&mut self) -> Option<(ClientId, T)> {
        while self.held < self.slots {
            let (_, _, client) = self.queue.pop_first()?;
            let client_slots = self.client_slots;
            let share = self.share(client);
            share.queued = None;
            if share.held >= client_slots {
                // It may hold fewer slots than when it was queued, and is queued again when one of its turns ends.
                continue;
            }
            let ticket = share.waiting.pop_front().expect("a queued client has a waiting turn");
            let tag = share.grant();
            self.waiting -= 1;
            self.granted(tag);
            self.enqueue(client);
            return Some((client, ticket));
        }
        None
    }

    /// Ends a turn and charges its cost.
    pub(crate) fn end(&mut self, client: ClientId, cost: Duration) {
        self.clock += cost / self.active.max(1);
        self.held -= 1;
        let client_slots = self.client_slots;
        let share = self.share(client);
        share.held -= 1;
        let is_excess = share.held > client_slots;
        share.tag = (share.tag + cost).saturating_sub(EXPECTED);
        if share.held == 0 && share.waiting.is_empty() {
            self.active -= 1;
            self.prune();
        } else {
            self.enqueue(client);
        }
        if self.excess == Some(client) && !is_excess {
            self.excess = None;
        }
    }

    /// Returns `true` if a client holds more slots than it may by now.
    pub(crate) fn has_excess(&self) -> bool {
        self.excess.is_some()
    }

    /// Returns `true` if another client waits for a slot that it may have, or this one holds more than it may by now.
    pub(crate) fn wants_back(&self, client: ClientId) -> bool {
        self.excess == Some(client) || self.queue.iter().any(|(_, _, waiting)| *waiting != client)
    }

    /// Returns the number of clients that hold a slot or wait for one.
    pub(crate) fn active(&self) -> u32 {
        self.active
    }

    /// Returns the number of waiting turns, including those of clients that hold all slots they may have.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Counts a client as active if it was idle: it gets a turn or waits for one.
    fn activate(&mut self, client: ClientId) -> &mut Share<T> {
        let clock = self.clock;
        let share = self.shares.entry(client).or_insert_with(|| Share {
            tag: clock,
            held: 0,
            waiting: VecDeque::new(),
            queued: None,
        });
        if share.held == 0 && share.waiting.is_empty() {
            share.tag = share.tag.max(clock);
            self.active += 1;
        }
        share
    }

    /// Counts a granted turn, whose client had this tag.
    fn granted(&mut self, tag: Duration) {
        self.held += 1;
        self.clock = self.clock.max(tag);
    }

    /// Moves the client to the position of its tag in the queue.
    fn enqueue(&mut self, client: ClientId) {
        let client_slots = self.client_slots;
        self.arrivals += 1;
        let arrival = self.arrivals;
        let share = self.share(client);
        let may_have = !share.waiting.is_empty() && share.held < client_slots;
        let queued = may_have.then(|| match share.queued {
            // A waiting client keeps its position among equal tags.
            Some((tag, arrival, _)) if tag == share.tag => (tag, arrival, client),
            _ => (share.tag, arrival, client),
        });
        let before = std::mem::replace(&mut share.queued, queued);
        if before != queued {
            if let Some(before) = before {
                self.queue.remove(&before);
            }
            self.queue.extend(queued);
        }
    }

    fn share(&mut self, client: ClientId) -> &mut Share<T> {
        self.shares.get_mut(&client).expect("a client that holds or waits has a share")
    }

    /// Drops clients that would start at the clock anyway.
    fn prune(&mut self) {
        if self.shares.len() < self.prune_at {
            return;
        }
        let clock = self.clock;
        self.shares.retain(|_, share| share.held > 0 || !share.waiting.is_empty() || share.tag > clock);
        self.prune_at = (self.shares.len() * 2).max(PRUNE_AT);
    }
}

impl<T> Share<T> {
    /// Takes a slot and returns the tag before.
    fn grant(&mut self) -> Duration {
        self.held += 1;
        let tag = self.tag;
        self.tag += EXPECTED;
        tag
    }
}

impl RecentClients {
    /// Notes that a client asks for a turn.
    pub(crate) fn asked(&mut self, client: ClientId, now: Instant) {
        if let Some((last, at)) = self.last
            && last != client
        {
            self.other = Some(at);
        }
        self.last = Some((client, now));
    }

    /// Returns `true` if two clients or more have asked in the last second.
    pub(crate) fn are_several(&self, now: Instant) -> bool {
        let is_recent = |at| now.saturating_duration_since(at) < RECENT;
        self.other.is_some_and(is_recent)
    }
}

#[cfg(test)]
#[path = "fair_tests.rs"]
mod tests;
