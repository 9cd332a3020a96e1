//! Turns: the right to keep a processor, a disk or the node busy for one client.
//!
//! [`Fair`] decides; this gives its decisions to tasks. A turn that nobody waits for costs one short lock at each
//! end. Whoever holds one for long asks [`Turn::is_over`] now and then, and lines up again when it is.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use crate::fair::Fair;
use crate::meter::Meter;

/// How long a turn lasts when others wait. Longer than nearly every request; a wake-up is lost in it.
const QUANTUM: Duration = Duration::from_millis(2);

/// One kind of turns.
#[derive(Debug)]
pub(crate) struct Turns {
    fair: Mutex<Fair<Ticket>>,
    /// How many wait, to be looked at without the lock.
    waiting: AtomicUsize,
    waited: AtomicU64,
    waited_us: AtomicU64,
}

/// Who waits.
#[derive(Debug)]
struct Ticket {
    meter: Arc<Meter>,
    grant: oneshot::Sender<Turn>,
}

/// A turn. Dropped, it is charged to its client and goes to the next one.
#[derive(Debug)]
pub(crate) struct Turn {
    turns: Arc<Turns>,
    meter: Arc<Meter>,
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

impl Turns {
    /// `slots` turns at one time, of which one client holds `client_slots` at most.
    pub(crate) fn new(slots: usize, client_slots: usize) -> Arc<Self> {
        Arc::new(Self {
            fair: Mutex::new(Fair::new(slots, client_slots)),
            waiting: AtomicUsize::new(0),
            waited: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
        })
    }

    /// A turn, if it need not be waited for.
    pub(crate) fn try_take(self: &Arc<Self>, meter: &Arc<Meter>) -> Option<Turn> {
        self.fair().try_take(meter.account.id).then(|| self.turn(Arc::clone(meter), Instant::now()))
    }

    /// Waits for a turn. Dropping the future gives up the place in line.
    pub(crate) async fn take(self: &Arc<Self>, meter: &Arc<Meter>) -> Turn {
        let granted = {
            let mut fair = self.fair();
            if fair.try_take(meter.account.id) {
                drop(fair);
                return self.turn(Arc::clone(meter), Instant::now());
            }
            let (grant, granted) = oneshot::channel();
            fair.wait(meter.account.id, Ticket { meter: Arc::clone(meter), grant });
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

    pub(crate) fn seen(&self) -> Waiting {
        Waiting {
            now: self.waiting.load(Ordering::Relaxed),
            turns: self.waited.load(Ordering::Relaxed),
            time: Duration::from_micros(self.waited_us.load(Ordering::Relaxed)),
        }
    }

    fn turn(self: &Arc<Self>, meter: Arc<Meter>, since: Instant) -> Turn {
        Turn { turns: Arc::clone(self), meter, since }
    }

    fn end(self: &Arc<Self>, meter: &Meter, work: Duration, now: Instant) {
        let mut granted = Vec::new();
        {
            let mut fair = self.fair();
            fair.give_back(meter.account.id, work);
            while let Some((client, ticket)) = fair.next() {
                if ticket.grant.is_closed() {
                    fair.give_back(client, Duration::ZERO);
                } else {
                    granted.push(ticket);
                }
            }
            self.waiting.store(fair.waiting(), Ordering::Relaxed);
        }
        for Ticket { meter, grant } in granted {
            // Who has given up in this very moment drops the turn, and it goes to the next.
            drop(grant.send(self.turn(meter, now)));
        }
    }

    fn fair(&self) -> MutexGuard<'_, Fair<Ticket>> {
        self.fair.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Turn ===

impl Turn {
    /// Whether it is time to let others have it.
    pub(crate) fn is_over(&self) -> bool {
        self.turns.waiting.load(Ordering::Relaxed) > 0 && self.since.elapsed() > QUANTUM
    }

    /// Becomes a turn of another kind, if one is free.
    pub(crate) fn move_to(&mut self, turns: &Arc<Turns>) {
        if !Arc::ptr_eq(&self.turns, turns)
            && let Some(turn) = turns.try_take(&self.meter)
        {
            *self = turn;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let now = Instant::now();
        let work = now.saturating_duration_since(self.since);
        self.meter.worked(work, now);
        self.turns.end(&self.meter, work, now);
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use crate::group::Group;
    use crate::ledger::Ledger;
    use crate::{Limits, Listener, Proxy, Transport};

    fn meter(ledger: &Ledger, client: u64) -> Arc<Meter> {
        let account = ledger.enter(Group::Circuit(client), 10, Instant::now()).unwrap();
        let limits = Limits { client_work_percent: 0, ..Limits::default() };
        let (transport, proxy) = (Transport::Tcp, Proxy::Off);
        let listener = Arc::new(Listener { name: "test".into(), transport, proxy, limits });
        Arc::new(Meter::new(client, listener, account, Arc::default(), Instant::now()))
    }

    #[tokio::test]
    async fn a_turn_goes_to_who_waits_and_not_to_who_has_given_up() {
        let ledger = Ledger::default();
        let meters: Vec<_> = (0..3).map(|client| meter(&ledger, client)).collect();
        let turns = Turns::new(1, 1);
        let held = turns.try_take(&meters[0]).unwrap();
        assert!(turns.try_take(&meters[1]).is_none());
        let waits = |meter: &Arc<Meter>| {
            let (turns, meter) = (Arc::clone(&turns), Arc::clone(meter));
            tokio::spawn(async move { turns.take(&meter).await })
        };
        let impatient = waits(&meters[1]);
        while turns.seen().now < 1 {
            tokio::task::yield_now().await;
        }
        let patient = waits(&meters[2]);
        while turns.seen().now < 2 {
            tokio::task::yield_now().await;
        }
        impatient.abort();
        assert!(impatient.await.is_err());
        drop(held);
        let turn = patient.await.unwrap();
        assert_eq!(turn.meter.account.group, Group::Circuit(2));
        assert_eq!(turns.seen().turns, 1);
        drop(turn);
        assert!(turns.try_take(&meters[0]).is_some());
    }

    #[tokio::test]
    async fn a_turn_is_over_only_when_others_wait() {
        let ledger = Ledger::default();
        let turns = Turns::new(1, 1);
        let turn = turns.take(&meter(&ledger, 1)).await;
        std::thread::sleep(QUANTUM * 2);
        assert!(!turn.is_over());
        let waiting = tokio::spawn({
            let (turns, meter) = (Arc::clone(&turns), meter(&ledger, 2));
            async move { turns.take(&meter).await }
        });
        while turns.seen().now == 0 {
            tokio::task::yield_now().await;
        }
        assert!(turn.is_over());
        drop(turn);
        drop(waiting.await.unwrap());
    }

    #[tokio::test]
    async fn what_a_turn_took_is_charged_to_its_client() {
        let ledger = Ledger::default();
        let meter = meter(&ledger, 1);
        let turn = Turns::new(1, 1).take(&meter).await;
        std::thread::sleep(Duration::from_millis(5));
        drop(turn);
        assert!(meter.info(Instant::now()).work >= Duration::from_millis(5));
        assert!(meter.account.level(meter.allowance, Instant::now()) >= Duration::from_millis(5));
    }
}
