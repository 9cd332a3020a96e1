//! Turns: the right to keep a processor, a disk or the node busy for one client.
//!
//! [`Fair`] decides; this gives its decisions to tasks. A turn that nobody waits for costs one short lock at each
//! end. Whoever holds one for long asks [`Turn::is_over`] now and then, and lines up again when it is.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::fair::{ClientId, Fair};

/// How long a turn lasts when others wait. Longer than nearly every request; a wake-up is lost in it.
const QUANTUM: Duration = Duration::from_millis(2);

/// Who is charged for turns: a connection of a client.
pub trait Payer {
    /// Its client.
    fn client_id(&self) -> ClientId;

    /// A turn ended that took so long.
    fn worked(&self, work: Duration, now: Instant);
}

/// One kind of turns.
#[derive(Debug)]
pub struct Turns<P: Payer> {
    fair: Mutex<Fair<Ticket<P>>>,
    /// How many wait, to be looked at without the lock.
    waiting: AtomicUsize,
    waited: AtomicU64,
    waited_us: AtomicU64,
}

/// Who waits.
#[derive(Debug)]
struct Ticket<P: Payer> {
    payer: Arc<P>,
    grant: oneshot::Sender<Turn<P>>,
}

/// A turn. Dropped, it is charged to its client and goes to the next one.
#[derive(Debug)]
pub struct Turn<P: Payer> {
    turns: Arc<Turns<P>>,
    payer: Arc<P>,
    since: Instant,
}

/// How much was waited for turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Waiting {
    /// Waiting now.
    pub now: usize,
    /// Turns that had to be waited for.
    pub turns: u64,
    /// How long, in all.
    pub time: Duration,
}

// === impl Turns ===

impl<P: Payer> Turns<P> {
    /// `slots` turns at one time, of which one client holds `client_slots` at most.
    pub fn new(slots: usize, client_slots: usize) -> Arc<Self> {
        Arc::new(Self {
            fair: Mutex::new(Fair::new(slots, client_slots)),
            waiting: AtomicUsize::new(0),
            waited: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
        })
    }

    /// A turn, if it need not be waited for.
    pub fn try_take(self: &Arc<Self>, payer: &Arc<P>) -> Option<Turn<P>> {
        self.fair().try_take(payer.client_id()).then(|| self.turn(Arc::clone(payer), Instant::now()))
    }

    /// Waits for a turn. Dropping the future gives up the place in line.
    pub async fn take(self: &Arc<Self>, payer: &Arc<P>) -> Turn<P> {
        let granted = {
            let mut fair = self.fair();
            if fair.try_take(payer.client_id()) {
                drop(fair);
                return self.turn(Arc::clone(payer), Instant::now());
            }
            let (grant, granted) = oneshot::channel();
            fair.wait(payer.client_id(), Ticket { payer: Arc::clone(payer), grant });
            self.waiting.store(fair.waiting(), Ordering::Relaxed);
            granted
        };
        let since = Instant::now();
        let turn = granted.await.expect("a ticket is dropped only after it was granted");
        self.waited.fetch_add(1, Ordering::Relaxed);
        let waited_us = turn.since.saturating_duration_since(since).as_micros();
        self.waited_us.fetch_add(u64::try_from(waited_us).unwrap_or(u64::MAX), Ordering::Relaxed);
        turn
    }

    /// How much is, and was, waited for.
    pub fn waiting(&self) -> Waiting {
        Waiting {
            now: self.waiting.load(Ordering::Relaxed),
            turns: self.waited.load(Ordering::Relaxed),
            time: Duration::from_micros(self.waited_us.load(Ordering::Relaxed)),
        }
    }

    fn turn(self: &Arc<Self>, payer: Arc<P>, since: Instant) -> Turn<P> {
        Turn { turns: Arc::clone(self), payer, since }
    }

    fn end(self: &Arc<Self>, payer: &P, work: Duration, now: Instant) {
        let mut granted = Vec::new();
        {
            let mut fair = self.fair();
            fair.give_back(payer.client_id(), work);
            while let Some((client, ticket)) = fair.next() {
                if ticket.grant.is_closed() {
                    fair.give_back(client, Duration::ZERO);
                } else {
                    granted.push(ticket);
                }
            }
            self.waiting.store(fair.waiting(), Ordering::Relaxed);
        }
        for Ticket { payer, grant } in granted {
            // Who has given up in this very moment drops the turn, and it goes to the next.
            drop(grant.send(self.turn(payer, now)));
        }
    }

    fn fair(&self) -> MutexGuard<'_, Fair<Ticket<P>>> {
        self.fair.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Turn ===

impl<P: Payer> Turn<P> {
    /// Whether it is time to let others have it.
    pub fn is_over(&self) -> bool {
        self.turns.waiting.load(Ordering::Relaxed) > 0 && self.since.elapsed() > QUANTUM
    }

    /// Becomes a turn of another kind, if one is free.
    pub fn move_to(&mut self, turns: &Arc<Turns<P>>) {
        if !Arc::ptr_eq(&self.turns, turns)
            && let Some(turn) = turns.try_take(&self.payer)
        {
            *self = turn;
        }
    }
}

impl<P: Payer> Drop for Turn<P> {
    fn drop(&mut self) {
        let now = Instant::now();
        let work = now.saturating_duration_since(self.since);
        self.payer.worked(work, now);
        self.turns.end(&self.payer, work, now);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

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
        Arc::new(Client { id: ClientId(number), work_us: AtomicU64::new(0) })
    }

    #[tokio::test]
    async fn a_turn_goes_to_who_waits_and_not_to_who_has_given_up() {
        let clients: Vec<_> = (0..3).map(client).collect();
        let turns = Turns::new(1, 1);
        let held = turns.try_take(&clients[0]).unwrap();
        assert!(turns.try_take(&clients[1]).is_none());
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
        assert_eq!(turn.payer.id, ClientId(2));
        assert_eq!(turns.waiting().turns, 1);
        drop(turn);
        assert!(turns.try_take(&clients[0]).is_some());
    }

    #[tokio::test]
    async fn a_turn_is_over_only_when_others_wait() {
        let turns = Turns::new(1, 1);
        let turn = turns.take(&client(1)).await;
        std::thread::sleep(QUANTUM * 2);
        assert!(!turn.is_over());
        let waiting = tokio::spawn({
            let (turns, client) = (Arc::clone(&turns), client(2));
            async move { turns.take(&client).await }
        });
        while turns.waiting().now == 0 {
            tokio::task::yield_now().await;
        }
        assert!(turn.is_over());
        drop(turn);
        drop(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn what_a_turn_took_is_charged_to_its_client() {
        let client = client(1);
        let turn = Turns::new(1, 1).take(&client).await;
        std::thread::sleep(Duration::from_millis(5));
        drop(turn);
        assert!(client.work_us.load(Ordering::Relaxed) >= 5000);
    }
}
