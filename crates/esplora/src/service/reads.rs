//! Turns for reads of the index, and the threads that do them.
//!
//! A long read holds a turn for long reads, of which there is one for each processor, and a turn of a processor. While
//! such reads wait for the disk, it holds one of the disk instead. Turns of the disk are many: when long reads always
//! took one, the threads of one client kept all processors busy.

use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_clients::{BegunRead, ClientId, DiskStall, Payer, Queueing};
use birdhouse_net::{Meter, Turn, Turns};

use crate::limits::{CLIENT_PROCESSORS_PERCENT, PAUSED_ANSWERS};
use crate::service::paused::PausedAnswers;

/// Turns by what reads keep busy: a processor, or the disk while long reads wait for it.
///
/// Turns of the disk are many. When long reads always took one, the threads of one client kept all processors busy
/// while everything was in memory, and everybody else waited for milliseconds.
pub(crate) struct Reads {
    processors: Arc<Turns>,
    /// Turns of long reads, beside one of a processor. They are fewer than those, so that short reads find a turn
    /// before long reads are known to wait for the disk.
    long: Arc<birdhouse_clients::Turns<Unpaid>>,
    disk: Arc<Turns>,
    /// Short reads that waited: the next ones are not done inline.
    short_stall: DiskStall,
    /// Long reads that waited: the next ones take turns of the disk.
    long_stall: DiskStall,
    /// Long reads that gave their turns back.
    pub(crate) paused: PausedAnswers,
}

/// The turns that a long read holds.
pub(crate) struct HeldTurns {
    /// `None` if it has a turn of the disk.
    long: Option<LongTurn>,
    turn: Turn,
}

/// A turn of a long read.
type LongTurn = birdhouse_clients::Turn<Unpaid>;

/// A client whose time is charged by another turn.
struct Unpaid(ClientId);

impl Payer for Unpaid {
    fn client_id(&self) -> ClientId {
        self.0
    }

    fn worked(&self, _: Duration, _: Instant) {}
}

impl Reads {
    /// Returns turns for long reads, one for each processor, and `read_threads` turns for the disk. A long read holds
    /// one of these, and one of `processors` beside the first kind. One client holds at most
    /// [`CLIENT_PROCESSORS_PERCENT`] of the first kind and half of the second, at least one of each.
    pub(crate) fn new(processors: &Arc<Turns>, read_threads: u16) -> Self {
        let (now, count) = (Instant::now(), processors.client_max());
        Self {
            processors: Arc::clone(processors),
            long: birdhouse_clients::Turns::new(count, count * CLIENT_PROCESSORS_PERCENT / 100),
            disk: Turns::shared(read_threads),
            short_stall: DiskStall::new(now),
            long_stall: DiskStall::new(now),
            paused: PausedAnswers::new(PAUSED_ANSWERS),
        }
    }

    /// Waits for a turn of a processor, for what needs nothing but memory.
    pub(crate) async fn turn(&self, meter: &Arc<Meter>) -> Turn {
        self.processors.take(meter).await
    }

    /// Does a short read on this thread; `None` if a longer one is needed.
    pub(crate) async fn inline<T>(&self, meter: &Arc<Meter>, read: impl FnOnce() -> Option<T>) -> Option<T> {
        if self.short_stall.is_recent(Instant::now()) {
            return None;
        }
        let _turn = self.turn(meter).await;
        self.short_stall.watch(read)
    }

    /// Ends a long read, or a part of one, that began on this thread.
    pub(crate) fn end_long(&self, began: &BegunRead) {
        self.long_stall.end_long(began);
    }

    /// Waits for both turns of a long read, or for one of the disk. Holds none while it waits for another: a client's
    /// next turn of a processor may come after all of its other requests.
    pub(crate) async fn turns_of_long_read(&self, meter: &Arc<Meter>, queueing: Queueing) -> HeldTurns {
        let (client, waits) = (Arc::new(Unpaid(meter.client_id())), || self.long_stall.is_recent(Instant::now()));
        while !waits() {
            let long = self.long.take_at(queueing, &client).await;
            if waits() {
                // Known since it was queued.
                break;
            }
            if let Some(turn) = self.processors.try_take(meter) {
                return HeldTurns { long: Some(long), turn };
            }
            drop(long);
            let turn = self.processors.take_at(queueing, meter).await;
            if !waits()
                && let Some(long) = self.long.try_take(&client)
            {
                return HeldTurns { long: Some(long), turn };
            }
        }
        HeldTurns { long: None, turn: self.disk.take_at(queueing, meter).await }
    }
}

impl HeldTurns {
    /// Charges the client for the time since the turns began, or since the last call.
    pub(crate) fn charge(&mut self, now: Instant) {
        self.turn.charge(now);
    }

    /// Returns `true` when others wait for one of the turns, and it has lasted long enough.
    pub(crate) fn are_wanted(&self) -> bool {
        self.turn.is_wanted() || self.long.as_ref().is_some_and(LongTurn::is_wanted)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use birdhouse_clients::{ClientKeying, Origin};
    use birdhouse_net::{ClientBounds, ConnectionGuard, ConnectionIds, Registry};
    use futures_util::future::join_all;

    use super::*;

    const BOUNDS: ClientBounds = ClientBounds { connections: None, work: None, work_percent: 50, unsent_bytes: None };
    /// Long reads of one client.
    const FLOOD: usize = 8;

    fn client(registry: &Arc<Registry>, last: u8) -> ConnectionGuard {
        let origin = Origin::of([192, 0, 2, last].into());
        registry.enter(u64::from(last), "tcp", origin, &BOUNDS, Instant::now()).unwrap()
    }

    /// Reads that a client does at the same time at most, of [`FLOOD`] that begin together.
    async fn together(reads: &Arc<Reads>, meter: &Arc<Meter>, read: fn()) -> usize {
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let flood = (0..FLOOD).map(|_| {
            let (reads, meter, now, most) = (Arc::clone(reads), Arc::clone(meter), Arc::clone(&now), Arc::clone(&most));
            tokio::spawn(async move {
                let counted = || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    read();
                    now.fetch_sub(1, Ordering::SeqCst);
                };
                reads.offloaded(&meter, counted).await;
            })
        });
        join_all(flood).await.into_iter().for_each(|ended| ended.unwrap());
        most.load(Ordering::SeqCst)
    }

    fn compute() {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(1) {}
    }

    fn wait() {
        std::thread::sleep(Duration::from_millis(100));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn long_reads_of_one_client_leave_processors_to_others_and_share_the_disk() {
        let registry = Registry::new(ClientKeying::default(), ConnectionIds::default());
        let flooding = client(&registry, 1);
        let reads = Arc::new(Reads::new(&Turns::of_processors(4), 32));
        assert!(together(&reads, &flooding.meter, compute).await <= 2);
        reads.long_stall.record(Instant::now());
        assert!(together(&reads, &flooding.meter, wait).await > 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn long_reads_that_queue_share_the_disk_once_the_first_ones_have_waited() {
        let registry = Registry::new(ClientKeying::default(), ConnectionIds::default());
        let flooding = client(&registry, 1);
        let reads = Arc::new(Reads::new(&Turns::of_processors(4), 32));
        assert!(together(&reads, &flooding.meter, wait).await > 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn short_reads_go_on_while_long_ones_wait() {
        let registry = Registry::new(ClientKeying::default(), ConnectionIds::default());
        let reads = Arc::new(Reads::new(&Turns::of_processors(1), 1));
        let (has_begun, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let waiting: Vec<_> = (1..=2)
            .map(|last| {
                let (reads, client) = (Arc::clone(&reads), client(&registry, last));
                let (has_begun, ends) = (Arc::clone(&has_begun), Arc::clone(&ends));
                tokio::spawn(async move {
                    let read = || {
                        has_begun.store(true, Ordering::SeqCst);
                        while !ends.load(Ordering::SeqCst) {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    };
                    reads.offloaded(&client.meter, read).await;
                })
            })
            .collect();
        while !has_begun.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        let other = client(&registry, 3);
        assert_eq!(reads.inline(&other.meter, || Some("short")).await, Some("short"));
        drop(reads.turn(&other.meter).await);
        ends.store(true, Ordering::SeqCst);
        join_all(waiting).await.into_iter().for_each(|ended| ended.unwrap());
    }
}
