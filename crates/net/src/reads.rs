//! Reads of index and events: the turns that they take, the threads that do them, and whether they wait for the disk.
//! One value serves all protocols of a process, so nobody has more by asking several of them.
//!
//! A short read is done on the thread that asks for it, in a turn of a processor, unless another one has waited for the
//! disk a short time ago. Others run on a thread that may wait. A read that takes its time holds a turn for long reads
//! beside one of a processor, or, while such reads wait for the disk, one of the disk.
//!
//! Turns of the disk are many. When long reads always took one, the threads of one client kept all processors busy
//! while everything was in memory, and everybody else waited for milliseconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_clients::{BegunRead, ClientId, DiskStall, Payer, Queueing, Waiting};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use crate::meter::{Meter, Turn, Turns};
use crate::offload::offload;

/// Percent of the processors that do long reads for one client at a time, rounded down, at least one processor.
pub const CLIENT_PROCESSORS_PERCENT: usize = 50;
/// Threads that wait for the disk, and concurrent calls of the node, where no setting says otherwise.
const DISK_TURNS: u16 = 32;
const NODE_CALLS: u16 = 8;
/// Blocks that are fetched at a time. A peer sends one in milliseconds, over Tor in seconds.
const OLD_BLOCKS: u16 = 16;
/// A page that took longer keeps its thread from others: those of the next second are offloaded.
const LONG_PAGE: Duration = Duration::from_millis(10);

/// The turns of all reads and node calls of a process.
#[derive(Debug)]
pub struct Reads {
    /// Turns of a processor, for messages and for reads of what is in memory.
    pub processors: Arc<Turns>,
    /// Turns of threads that wait for the disk.
    pub disk: Arc<Turns>,
    /// Turns to call the node.
    pub node_calls: Arc<Turns>,
    /// Turns to fetch a block that the node has removed, from one of its peers.
    old_blocks: Arc<Turns>,
    /// Turns of long reads, beside one of a processor. They are fewer than those, so that short reads find a turn
    /// before long reads are known to wait for the disk.
    long: Arc<birdhouse_clients::Turns<Unpaid>>,
    /// Reads that waited on threads that should not: the next ones are done elsewhere.
    short_stall: DiskStall,
    /// Long reads that waited: the next ones take turns of the disk.
    long_stall: DiskStall,
    /// Pages that took long for any reason.
    long_pages: DiskStall,
}

/// Bounds of what is fetched for one answer.
#[derive(Debug, Clone, Copy)]
pub struct FetchBounds {
    /// Parts at most; none is fetched of more.
    pub parts: usize,
    /// Time in which all come.
    pub patience: Duration,
}

/// The turns that a read holds.
#[derive(Debug)]
pub struct ReadTurns {
    /// `None` if it has a turn of the disk, or is short.
    long: Option<LongTurn>,
    turn: Turn,
}

/// A turn of a long read.
type LongTurn = birdhouse_clients::Turn<Unpaid>;

/// A client whose time is charged by another turn.
#[derive(Debug)]
struct Unpaid(ClientId);

impl Payer for Unpaid {
    fn client_id(&self) -> ClientId {
        self.0
    }

    fn worked(&self, _: Duration, _: Instant) {}
}

impl Default for Reads {
    fn default() -> Self {
        Self::new(std::thread::available_parallelism().map_or(1, usize::from), DISK_TURNS, NODE_CALLS)
    }
}

impl Reads {
    /// Returns two turns for each of this many processors, and this many of the disk and of the node. One client holds
    /// at most half of each, at least one, and alone one turn for each processor. Long reads have one turn for each
    /// processor, of which one client holds [`CLIENT_PROCESSORS_PERCENT`].
    pub fn new(processors: usize, disk: u16, node_calls: u16) -> Self {
        let now = Instant::now();
        Self {
            processors: Turns::of_processors(processors),
            disk: Turns::shared(disk),
            node_calls: Turns::shared(node_calls),
            old_blocks: Turns::shared(OLD_BLOCKS),
            long: birdhouse_clients::Turns::new(processors, processors * CLIENT_PROCESSORS_PERCENT / 100),
            short_stall: DiskStall::new(now),
            long_stall: DiskStall::new(now),
            long_pages: DiskStall::new(now),
        }
    }

    /// Returns figures on waiting by resource: processor, disk, node.
    pub fn waiting(&self) -> [(&'static str, Waiting); 3] {
        let Self { processors, disk, node_calls, .. } = self;
        [("processor", processors.waiting()), ("disk", disk.waiting()), ("node", node_calls.waiting())]
    }

    // === short reads ===

    /// Does a short read on this thread, in a turn that is held; `None` if others have waited for the disk lately, or
    /// if a longer read is needed.
    pub fn inline<T>(&self, read: impl FnOnce() -> Option<T>) -> Option<T> {
        if self.short_stall.is_recent(Instant::now()) { None } else { self.short_stall.watch(read) }
    }

    /// Waits for a turn of a processor, and does a short read as [`Self::inline`].
    pub async fn short<T>(&self, meter: &Arc<Meter>, read: impl FnOnce() -> Option<T>) -> Option<T> {
        if self.short_stall.is_recent(Instant::now()) {
            return None;
        }
        let _turn = self.processors.take(meter).await;
        self.short_stall.watch(read)
    }

    /// Does a short read in a turn that is held, where it disturbs nobody.
    pub fn in_turn<T>(&self, read: impl FnOnce() -> T) -> T {
        if self.short_stall.is_recent(Instant::now()) { offload(read) } else { self.short_stall.watch(read) }
    }

    /// Makes a turn of a processor one of the disk, if one is free and short reads have waited for the disk lately.
    pub fn expect_disk(&self, turn: &mut Turn) {
        if self.short_stall.is_recent(Instant::now()) {
            turn.move_to(&self.disk);
        }
    }

    // === blocks that the node has removed ===

    /// Fetches parts of blocks for a client, each on a thread that may wait, in a turn of its own. Returns true if all
    /// were fetched. What has begun goes on if this future is dropped.
    pub async fn fetch_all<T: Copy + Send + 'static>(
        &self,
        meter: &Arc<Meter>,
        parts: &[T],
        fetch: impl Fn(T) -> bool + Clone + Send + 'static,
    ) -> bool {
        let fetched = parts.iter().map(|part| {
            let (turns, meter) = (Arc::clone(&self.old_blocks), Arc::clone(meter));
            let (fetch, part) = (fetch.clone(), *part);
            async move {
                let turn = turns.take(&meter).await;
                let fetched = spawn_blocking(move || {
                    let is_fetched = fetch(part);
                    drop(turn);
                    is_fetched
                });
                fetched.await.unwrap_or(false)
            }
        });
        fetched.collect::<JoinSet<bool>>().join_all().await.into_iter().all(|is_fetched| is_fetched)
    }

    /// Fetches parts of blocks as [`Self::fetch_all`] does, within bounds. Returns true if all came in time.
    pub async fn fetch_within<T: Copy + Send + 'static>(
        &self,
        meter: &Arc<Meter>,
        parts: &[T],
        bounds: FetchBounds,
        fetch: impl Fn(T) -> bool + Clone + Send + 'static,
    ) -> bool {
        parts.len() <= bounds.parts
            && timeout(bounds.patience, self.fetch_all(meter, parts, fetch)).await.unwrap_or(false)
    }

    // === longer reads ===

    /// Does a read of some milliseconds at most, which ends when its turns are over. It is done on this thread, unless
    /// others have waited for the disk, or taken long, a short time ago.
    pub async fn page<T>(&self, meter: &Arc<Meter>, read: impl FnOnce(&ReadTurns) -> T) -> T {
        let now = Instant::now();
        if self.short_stall.is_recent(now) || self.long_pages.is_recent(now) {
            return self.offloaded(meter, read).await;
        }
        let turns = ReadTurns { long: None, turn: self.processors.take(meter).await };
        let began = Instant::now();
        let answer = self.short_stall.watch_page(|| read(&turns));
        let now = Instant::now();
        if now - began > LONG_PAGE {
            self.long_pages.record(now);
        }
        answer
    }

    /// Does a read of any length, while others take over the thread's other tasks.
    pub async fn offloaded<T>(&self, meter: &Arc<Meter>, read: impl FnOnce(&ReadTurns) -> T) -> T {
        let turns = self.long_turns(meter, Queueing::Last).await;
        offload(|| {
            let began = BegunRead::begin();
            let answer = read(&turns);
            self.end_long(&began);
            answer
        })
    }

    /// Ends a long read, or a part of one, that began on this thread.
    pub fn end_long(&self, began: &BegunRead) {
        self.long_stall.end_long(began);
    }

    /// Waits for both turns of a long read, or for one of the disk. Holds none while it waits for another: a client's
    /// next turn of a processor may come after all of its other requests.
    pub async fn long_turns(&self, meter: &Arc<Meter>, queueing: Queueing) -> ReadTurns {
        let (client, waits) = (Arc::new(Unpaid(meter.client_id())), || self.long_stall.is_recent(Instant::now()));
        while !waits() {
            let long = self.long.take_at(queueing, &client).await;
            if waits() {
                // Known since it was queued.
                break;
            }
            if let Some(turn) = self.processors.try_take(meter, Instant::now()) {
                return ReadTurns { long: Some(long), turn };
            }
            drop(long);
            let turn = self.processors.take_at(queueing, meter).await;
            if !waits()
                && let Some(long) = self.long.try_take(&client, Instant::now())
            {
                return ReadTurns { long: Some(long), turn };
            }
        }
        ReadTurns { long: None, turn: self.disk.take_at(queueing, meter).await }
    }
}

impl ReadTurns {
    /// Charges the client for the time since the turns began, or since the last call.
    pub fn charge(&mut self, now: Instant) {
        self.turn.charge(now);
    }

    /// Returns `true` when other clients wait for one of the turns, and it has lasted long enough.
    pub fn are_wanted(&self) -> bool {
        self.turn.is_wanted() || self.long.as_ref().is_some_and(LongTurn::is_wanted)
    }

    /// Returns `true` when others, of this client too, wait for one of the turns, and it has lasted long enough.
    pub fn are_over(&self) -> bool {
        self.turn.is_over() || self.long.as_ref().is_some_and(LongTurn::is_over)
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;
    use crate::meter::ClientBounds;
    use crate::registry::{ConnectionGuard, Connections, Registry};
    use birdhouse_clients::{ClientKeying, Origin};
    use birdhouse_testkit::slow_disk::read_slow_disk;

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
        let flood: JoinSet<()> = (0..FLOOD)
            .map(|_| {
                let (reads, meter, now, most) =
                    (Arc::clone(reads), Arc::clone(meter), Arc::clone(&now), Arc::clone(&most));
                async move {
                    let counted = |_: &ReadTurns| {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        read();
                        now.fetch_sub(1, Ordering::SeqCst);
                    };
                    reads.offloaded(&meter, counted).await;
                }
            })
            .collect();
        flood.join_all().await;
        most.load(Ordering::SeqCst)
    }

    fn compute() {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(1) {}
    }

    fn wait() {
        read_slow_disk(Duration::from_millis(100));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn long_reads_of_one_client_leave_processors_to_others_and_share_the_disk() {
        let registry = Registry::new(ClientKeying::default(), Connections::default());
        let flooding = client(&registry, 1);
        let reads = Arc::new(Reads::new(4, 32, 1));
        assert!(together(&reads, &flooding.meter, compute).await <= 2);
        reads.long_stall.record(Instant::now());
        assert!(together(&reads, &flooding.meter, wait).await > 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn long_reads_that_queue_share_the_disk_once_the_first_ones_have_waited() {
        let registry = Registry::new(ClientKeying::default(), Connections::default());
        let flooding = client(&registry, 1);
        let reads = Arc::new(Reads::new(4, 32, 1));
        assert!(together(&reads, &flooding.meter, wait).await > 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn short_reads_go_on_while_long_ones_wait() {
        let registry = Registry::new(ClientKeying::default(), Connections::default());
        let reads = Arc::new(Reads::new(1, 1, 1));
        let (has_begun, ends) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let waiting: JoinSet<()> = (1..=2)
            .map(|last| {
                let (reads, client) = (Arc::clone(&reads), client(&registry, last));
                let (has_begun, ends) = (Arc::clone(&has_begun), Arc::clone(&ends));
                async move {
                    let read = |_: &ReadTurns| {
                        has_begun.store(true, Ordering::SeqCst);
                        while !ends.load(Ordering::SeqCst) {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                    };
                    reads.offloaded(&client.meter, read).await;
                }
            })
            .collect();
        while !has_begun.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
        let other = client(&registry, 3);
        assert_eq!(reads.short(&other.meter, || Some("short")).await, Some("short"));
        drop(reads.processors.take(&other.meter).await);
        ends.store(true, Ordering::SeqCst);
        waiting.join_all().await;
    }
}
