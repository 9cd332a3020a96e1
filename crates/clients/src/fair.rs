//! Who is next when more want to work than may: start-time fair queueing over client clients (Goyal, Vin and
//! Cheng, SIGCOMM 1996), with costs that are known only afterwards.
//!
//! Every client has a *tag*: the work it has been given, on a clock that all clients share. The waiting client with
//! the lowest tag is next, so a client that asks for much waits behind itself and not before others. A client that
//! was away starts at the clock: it is owed nothing for the past, and what it used while nobody waited costs it
//! nothing now. The clock moves on with the work that is given, a share of it for each active client, so that a
//! stream of clients never seen before holds nobody up for ever.
//!
//! Invariants: no slot is free while a client that may have one waits; a client holds at most its own part of the
//! slots, so that another finds one at once; turns of one client are given in the order in which they were asked for.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// What a turn is taken to cost until it ends, so that turns given at the same moment go to different clients.
const EXPECTED: Duration = Duration::from_millis(1);
/// Clients that are kept only for their tag, before those that the clock has overtaken are dropped.
const PRUNE_AT: usize = 64;

/// Names a client; whoever calls knows what it stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub(crate) u64);

/// The slots, who holds them, and who waits. `T` is what a waiting turn is called by.
#[derive(Debug)]
pub(crate) struct Fair<T> {
    slots: usize,
    client_slots: usize,
    held: usize,
    waiting: usize,
    clock: Duration,
    /// Clients that hold or wait.
    active: u32,
    shares: HashMap<ClientId, Share<T>>,
    prune_at: usize,
    /// The clients that wait and may have a slot, first the one that is next.
    line: BTreeSet<Place>,
    arrivals: u64,
}

/// Equal tags go by arrival.
type Place = (Duration, u64, ClientId);

#[derive(Debug)]
struct Share<T> {
    tag: Duration,
    held: usize,
    waiting: VecDeque<T>,
    place: Option<Place>,
}

impl<T> Fair<T> {
    /// Of `slots`, one client holds `client_slots` at most.
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
            line: BTreeSet::new(),
            arrivals: 0,
        }
    }

    /// A slot for this client, if one is free and nobody waits who may have it.
    pub(crate) fn try_take(&mut self, client: ClientId) -> bool {
        let is_free = self.held < self.slots && self.line.is_empty();
        let may_have = self.shares.get(&client).is_none_or(|share| share.held < self.client_slots);
        if is_free && may_have {
            self.activate(client);
            self.give(client);
        }
        is_free && may_have
    }

    /// Waits in line: [`Self::next`] gives `ticket` back when it is its turn.
    pub(crate) fn wait(&mut self, client: ClientId, ticket: T) {
        self.activate(client);
        self.waiting += 1;
        self.share(client).waiting.push_back(ticket);
        self.line_up(client);
    }

    /// The next turn, if a slot is free for it: it is held from now on. To be called until there is none,
    /// whenever a slot has become free or somebody waits.
    pub(crate) fn next(&mut self) -> Option<(ClientId, T)> {
        if self.held >= self.slots {
            return None;
        }
        let (_, _, client) = self.line.pop_first()?;
        let share = self.share(client);
        share.place = None;
        let ticket = share.waiting.pop_front().expect("clients in line wait");
        self.waiting -= 1;
        self.give(client);
        Some((client, ticket))
    }

    /// Ends a turn that cost this much.
    pub(crate) fn give_back(&mut self, client: ClientId, cost: Duration) {
        self.clock += cost / self.active.max(1);
        self.held -= 1;
        let share = self.share(client);
        share.held -= 1;
        share.tag = (share.tag + cost).saturating_sub(EXPECTED);
        if share.held == 0 && share.waiting.is_empty() {
            self.active -= 1;
            self.prune();
        } else {
            self.line_up(client);
        }
    }

    /// Turns that wait, those of clients that hold all they may have among them.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    fn activate(&mut self, client: ClientId) {
        let clock = self.clock;
        let share = self.shares.entry(client).or_insert_with(|| Share {
            tag: clock,
            held: 0,
            waiting: VecDeque::new(),
            place: None,
        });
        if share.held == 0 && share.waiting.is_empty() {
            share.tag = share.tag.max(clock);
            self.active += 1;
        }
    }

    fn give(&mut self, client: ClientId) {
        let share = self.share(client);
        let tag = share.tag;
        share.tag += EXPECTED;
        share.held += 1;
        self.held += 1;
        self.clock = self.clock.max(tag);
        self.line_up(client);
    }

    /// Puts the client where its tag belongs.
    fn line_up(&mut self, client: ClientId) {
        let client_slots = self.client_slots;
        self.arrivals += 1;
        let arrival = self.arrivals;
        let share = self.share(client);
        let may_have = !share.waiting.is_empty() && share.held < client_slots;
        let place = may_have.then(|| match share.place {
            // Whoever waits already keeps its place among equals.
            Some((tag, arrival, _)) if tag == share.tag => (tag, arrival, client),
            _ => (share.tag, arrival, client),
        });
        let before = std::mem::replace(&mut share.place, place);
        if before != place {
            if let Some(before) = before {
                self.line.remove(&before);
            }
            self.line.extend(place);
        }
    }

    fn share(&mut self, client: ClientId) -> &mut Share<T> {
        self.shares.get_mut(&client).expect("a client that holds or waits has a share")
    }

    /// Forgets clients that would start at the clock anyway.
    fn prune(&mut self) {
        if self.shares.len() < self.prune_at {
            return;
        }
        let clock = self.clock;
        self.shares.retain(|_, share| share.held > 0 || !share.waiting.is_empty() || share.tag > clock);
        self.prune_at = (self.shares.len() * 2).max(PRUNE_AT);
    }
}

#[cfg(test)]
#[path = "fair_tests.rs"]
mod tests;
