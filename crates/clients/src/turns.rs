//! Turns: the right to keep a processor, a disk or the node busy for one client.
//!
//! [`FairQueue`] decides; this module hands its decisions to tasks. An uncontended turn costs one short lock at each
//! end. A task that holds a turn for long polls [`Turn::is_over`] and queues again when it is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::fair::{ClientId, FairQueue, RecentClients};

/// Length of a turn while others wait: longer than nearly every request, and long against a wake-up.
const QUANTUM: Duration = Duration::from_millis(2);

/// The party charged for turns: a connection of a client.
pub trait Payer {
    /// Returns the id of its client.
    fn client_id(&self) -> ClientId;

    /// Records the end of a turn that took `work`.
    fn worked(&self, work: Duration, now: Instant);
}

/// The turns of one resource.
#[doc(alias("fair queueing", "scheduler"))]
#[derive(Debug)]
pub struct Turns<P: Payer> {
    queue: Mutex<Queue<P>>,
    /// Number of waiting turns, readable without the lock.
    waiting: AtomicUsize,
    /// A client holds more turns than it may by now.
    has_excess: AtomicBool,
    waited: AtomicU64,
    waited_us: AtomicU64,
}

/// The queue for turns, and the number of them that one client may hold.
#[derive(Debug)]
struct Queue<P: Payer> {
    fair: FairQueue<Ticket<P>>,
    recent: RecentClients,
    /// Turns that one client may hold among others.
    among_others: usize,
    /// Turns that one client may hold alone.
    alone: usize,
}

/// A waiting turn.
#[derive(Debug)]
struct Ticket<P: Payer> {
    payer: Arc<P>,
    grant: oneshot::Sender<Turn<P>>,
}

/// A turn. Dropping it charges its client and grants the next turn.
#[derive(Debug)]
pub struct Turn<P: Payer> {
    turns: Arc<Turns<P>>,
    payer: Arc<P>,
    since: Instant,
    /// The end of the time that its client was charged for.
    charged: Instant,
}

/// The place of a waiting turn among those of its client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queueing {
    /// The last: for work that begins.
    Last,
    /// The first: for work that goes on.
    First,
}

/// Figures on waiting for turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Number of turns that wait now.
    pub now: usize,
    /// Number of granted turns that had to wait.
    pub turns: u64,
    /// The sum of their waiting times.
    pub time: Duration,
}

// === impl Turns ===

impl<P: Payer> Turns<P> {
    /// Returns a resource of `slots` turns at a time, of which one client holds `client_slots` at most.
    pub fn new(slots: usize, client_slots: usize) -> Arc<Self> {
        Self::with(slots, client_slots, client_slots)
    }

    fn with(slots: usize, among_others: usize, alone: usize) -> Arc<Self> {
        let (fair, recent) = (FairQueue::new(slots, alone), RecentClients::default());
        Arc::new(Self {
            queue: Mutex::new(Queue { fair, recent, among_others, alone }),
            waiting: AtomicUsize::new(0),
            has_excess: AtomicBool::new(false),
            waited: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
        })
    }

    /// Returns two turns for each of this many processors. One client holds at most one turn for each processor, or,
    /// while others ask, for half of the processors, rounded down, at least one.
    ///
    /// Free turns alone do not keep a processor free: with two threads of one client on two processors, the p99 of all
    /// others was five to nine times that of an idle server, and with one thread less than twice.
    pub fn of_processors(processors: usize) -> Arc<Self> {
        Self::with(processors * 2, processors / 2, processors)
    }

    /// Returns turns, at least one, of which one client holds at most half.
    pub fn shared(turns: u16) -> Arc<Self> {
        let turns = usize::from(turns).max(1);
        Self::new(turns, turns.div_ceil(2))
    }

    /// Takes a turn if it need not wait.
    pub fn try_take(self: &Arc<Self>, payer: &Arc<P>, now: Instant) -> Option<Turn<P>> {
        self.taken(&mut self.queue.lock(), payer, now).then(|| self.turn(Arc::clone(payer), now))
    }

    /// Waits for a turn. Dropping the future leaves the queue.
    pub async fn take(self: &Arc<Self>, payer: &Arc<P>) -> Turn<P> {
        self.take_at(Queueing::Last, payer).await
    }

    /// Waits for a turn at a place among those of its client. Dropping the future leaves the queue.
    pub async fn take_at(self: &Arc<Self>, queueing: Queueing, payer: &Arc<P>) -> Turn<P> {
        let since = Instant::now();
        let granted = {
            let mut queue = self.queue.lock();
            if self.taken(&mut queue, payer, since) {
                drop(queue);
                return self.turn(Arc::clone(payer), since);
            }
            let (grant, granted) = oneshot::channel();
            let ticket = Ticket { payer: Arc::clone(payer), grant };
            match queueing {
                Queueing::Last => queue.fair.wait(payer.client_id(), ticket),
                Queueing::First => queue.fair.wait_first(payer.client_id(), ticket),
            }
            self.waiting.store(queue.fair.waiting(), Ordering::Relaxed);
            granted
        };
        let turn = granted.await.expect("a ticket is dropped only after it was granted");
        self.waited.fetch_add(1, Ordering::Relaxed);
        let waited_us = turn.since.saturating_duration_since(since).as_micros();
        self.waited_us.fetch_add(u64::try_from(waited_us).unwrap_or(u64::MAX), Ordering::Relaxed);
        turn
    }

    /// Returns figures on waiting, now and so far.
    pub fn waiting(&self) -> Waiting {
        Waiting {
            now: self.waiting.load(Ordering::Relaxed),
            turns: self.waited.load(Ordering::Relaxed),
            time: Duration::from_micros(self.waited_us.load(Ordering::Relaxed)),
        }
    }

    fn taken(&self, queue: &mut Queue<P>, payer: &P, now: Instant) -> bool {
        let is_taken = queue.try_take(payer.client_id(), now);
        self.has_excess.store(queue.fair.has_excess(), Ordering::Relaxed);
        is_taken
    }

    fn turn(self: &Arc<Self>, payer: Arc<P>, since: Instant) -> Turn<P> {
        Turn { turns: Arc::clone(self), payer, since, charged: since }
    }

    fn end(self: &Arc<Self>, payer: &P, work: Duration, now: Instant) {
        let mut granted = Vec::new();
        {
            let mut queue = self.queue.lock();
            queue.fair.end(payer.client_id(), work);
            queue.set_client_slots(now);
            let fair = &mut queue.fair;
            while let Some((client, ticket)) = fair.next() {
                if ticket.grant.is_closed() {
                    fair.end(client, Duration::ZERO);
                } else {
                    granted.push(ticket);
                }
            }
            self.waiting.store(fair.waiting(), Ordering::Relaxed);
            self.has_excess.store(fair.has_excess(), Ordering::Relaxed);
        }
        for Ticket { payer, grant } in granted {
            // A waiter that has just given up drops the turn, which grants the next one.
            drop(grant.send(self.turn(payer, now)));
        }
    }
}

// === impl Queue ===

impl<P: Payer> Queue<P> {
    fn try_take(&mut self, client: ClientId, now: Instant) -> bool {
        self.recent.asked(client, now);
        // While turns wait, the number for one client is raised only at the end of a turn, which grants them.
        if self.fair.waiting() == 0 || self.is_shared(now) {
            self.set_client_slots(now);
        }
        self.fair.try_take(client)
    }

    fn set_client_slots(&mut self, now: Instant) {
        let client_slots = if self.is_shared(now) { self.among_others } else { self.alone };
        self.fair.set_client_slots(client_slots);
    }

    /// Returns `true` while more than one client has a turn, waits for one, or has asked for one lately.
    fn is_shared(&self, now: Instant) -> bool {
        self.fair.active() > 1 || self.recent.are_several(now)
    }
}

// === impl Turn ===

impl<P: Payer> Turn<P> {
    /// Returns `true` when others wait, or came while one client held most turns, and the turn has lasted long enough.
    pub fn is_over(&self) -> bool {
        self.is_over_at(Instant::now)
    }

    fn is_over_at(&self, now: impl FnOnce() -> Instant) -> bool {
        let turns = &self.turns;
        let may_be = turns.waiting.load(Ordering::Relaxed) > 0 || turns.has_excess.load(Ordering::Relaxed);
        may_be && now().saturating_duration_since(self.since) > QUANTUM
    }

    /// Returns `true` when another client waits, or its own holds too many turns by now, and the turn has lasted long
    /// enough. Unlike [`Self::is_over`] it stays `false` for further requests of its own client.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted_at(Instant::now)
    }

    fn is_wanted_at(&self, now: impl FnOnce() -> Instant) -> bool {
        self.is_over_at(now) && self.turns.queue.lock().fair.wants_back(self.payer.client_id())
    }

    /// Charges the client for the time since the turn began, or since the last call.
    pub fn charge(&mut self, now: Instant) {
        self.payer.worked(now.saturating_duration_since(self.charged), now);
        self.charged = self.charged.max(now);
    }

    /// Becomes a turn of another resource, if one is free.
    pub fn move_to(&mut self, turns: &Arc<Turns<P>>) {
        if !Arc::ptr_eq(&self.turns, turns)
            && let Some(turn) = turns.try_take(&self.payer, Instant::now())
        {
            *self = turn;
        }
    }
}

impl<P: Payer> Drop for Turn<P> {
    fn drop(&mut self) {
        let now = Instant::now();
        self.charge(now);
        let work = now.saturating_duration_since(self.since);
        self.turns.end(&self.payer, work, now);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::fair::RECENT;

    #[derive(Debug)]
    struct Client {
        id: ClientId,
        work_us: AtomicU64,
    }

    impl Payer for Client {
        fn client_id(&self) -> ClientId {
            self.id
        }

        fn worked(&self, work: Duration, _: Instant) {
            self.work_us.fetch_add(work.as_micros().try_into().unwrap(), Ordering::Relaxed);
        }
    }

    fn client(number: u64) -> Arc<Client> {
        Arc::new(Client { id: ClientId::Connection(number), work_us: AtomicU64::new(0) })
    }

    #[tokio::test]
    async fn turn_goes_to_a_waiter_that_has_not_given_up() {
        let clients: Vec<_> = (0..3).map(client).collect();
        let turns = Turns::new(1, 1);
        let held = turns.try_take(&clients[0], Instant::now()).unwrap();
        assert!(turns.try_take(&clients[1], Instant::now()).is_none());
        let waits = |client: &Arc<Client>| {
            let (turns, client) = (Arc::clone(&turns), Arc::clone(client));
            tokio::spawn(async move { turns.take(&client).await })
        };
        let impatient = waits(&clients[1]);
        while turns.waiting().now < 1 {
            tokio::task::yield_now().await;
        }
        let patient = waits(&clients[2]);
        while turns.waiting().now < 2 {
            tokio::task::yield_now().await;
        }
        impatient.abort();
        assert!(impatient.await.is_err());
        drop(held);
        let turn = patient.await.unwrap();
        assert_eq!(turn.payer.id, ClientId::Connection(2));
        assert_eq!(turns.waiting().turns, 1);
        drop(turn);
        assert!(turns.try_take(&clients[0], Instant::now()).is_some());
    }

    #[tokio::test]
    async fn a_turn_is_over_only_when_others_wait() {
        let turns = Turns::new(1, 1);
        let turn = turns.take(&client(1)).await;
        let later = turn.since + QUANTUM * 2;
        assert!(!turn.is_over_at(|| later));
        let waiting = tokio::spawn({
            let (turns, client) = (Arc::clone(&turns), client(2));
            async move { turns.take(&client).await }
        });
        while turns.waiting().now == 0 {
            tokio::task::yield_now().await;
        }
        assert!(turn.is_over_at(|| later) && !turn.is_over_at(|| turn.since));
        drop(turn);
        drop(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn a_client_has_every_processor_alone_and_half_among_others() {
        let turns = Turns::of_processors(4);
        let [busy, other] = [1, 2].map(client);
        let start = Instant::now();
        let taken = |now| std::iter::from_fn(|| turns.try_take(&busy, now)).collect::<Vec<_>>();
        let held = taken(start);
        assert_eq!(held.len(), 4);
        let asked = turns.try_take(&other, start).unwrap();
        let later = start + QUANTUM * 2;
        assert!(held[0].is_over_at(|| later), "nobody waits, and it has more than half");
        drop(held);
        assert!(!asked.is_over_at(|| later));
        assert_eq!(taken(later).len(), 2);
        drop(asked);
        assert_eq!(taken(later).len(), 2, "it has just asked");
        let later = later + RECENT;
        assert_eq!(taken(later).len(), 4);
        drop(turns.try_take(&other, later));
        let held = taken(later);
        assert_eq!(held.len(), 2);
        let waiting = tokio::spawn({
            let (turns, busy) = (Arc::clone(&turns), Arc::clone(&busy));
            async move { turns.take(&busy).await }
        });
        while turns.waiting().now == 0 {
            tokio::task::yield_now().await;
        }
        drop(held);
        drop(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn time_of_a_turn_is_charged_to_its_client() {
        let client = client(1);
        let turn = Turns::new(1, 1).take(&client).await;
        std::thread::sleep(Duration::from_millis(5));
        drop(turn);
        assert!(client.work_us.load(Ordering::Relaxed) >= 5000);
    }

    #[tokio::test]
    async fn a_running_turn_charges_its_time_once() {
        let client = client(1);
        let mut turn = Turns::new(1, 1).take(&client).await;
        let (charged, begun) = (turn.since + Duration::from_mins(1), turn.since);
        turn.charge(charged);
        assert_eq!(client.work_us.load(Ordering::Relaxed), 60_000_000);
        turn.charge(begun);
        drop(turn);
        assert_eq!(client.work_us.load(Ordering::Relaxed), 60_000_000);
    }

    #[tokio::test]
    async fn a_turn_is_wanted_by_other_clients_and_goes_on_before_what_its_own_has_not_begun() {
        let turns = Turns::new(1, 1);
        let [own, other] = [1, 2].map(client);
        let turn = turns.take(&own).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let waits = |queueing, client: &Arc<Client>, name: &'static str| {
            let (turns, client, order) = (Arc::clone(&turns), Arc::clone(client), Arc::clone(&order));
            tokio::spawn(async move {
                let _turn = turns.take_at(queueing, &client).await;
                order.lock().push(name);
            })
        };
        let further = waits(Queueing::Last, &own, "further");
        while turns.waiting().now < 1 {
            tokio::task::yield_now().await;
        }
        let later = turn.since + QUANTUM * 2;
        assert!(turn.is_over_at(|| later) && !turn.is_wanted_at(|| later));
        let others = waits(Queueing::Last, &other, "other");
        while turns.waiting().now < 2 {
            tokio::task::yield_now().await;
        }
        assert!(turn.is_wanted_at(|| later));
        let resumed = waits(Queueing::First, &own, "resumed");
        while turns.waiting().now < 3 {
            tokio::task::yield_now().await;
        }
        drop(turn);
        for waiting in [further, others, resumed] {
            waiting.await.unwrap();
        }
        let order = order.lock();
        let at = |name| order.iter().position(|granted| *granted == name).unwrap();
        assert!(at("resumed") < at("further"), "{order:?}");
    }
}
