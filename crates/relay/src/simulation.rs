//! Simulated schedules of subscriptions and the writer. Readers take steps wherever the writer reads or writes its
//! store, and between the events that it passes on; reads are short, and any write may fail. A seed decides everything,
//! so a failure is repeated by its seed.
//!
//! A reader takes the steps of a connection: it listens, takes its `since_seq`, reads stored events page by page, and
//! then live ones.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::task::{Context, Waker};

use birdhouse_events::{
    Accepted, Audience, Event, EventId, Events, EventsOptions, Filter, FilterLimits, Keys, Kind, Query, TagsBy,
    Timestamp, UnsignedEvent, VerifiedEvent,
};
use birdhouse_store::{Error, MemoryStore, Store};
use birdhouse_testkit::hooked_store::{Call, Hook, HookedStore, Outcome};
use birdhouse_testkit::rng::{Rng, number};
use parking_lot::Mutex;

use crate::fronts::Feed;
use crate::live::{Hub, LiveInbox, LiveQueue, SinceSeq};
use crate::stored::{Asked, Next, Stored};
use crate::writing::recovery;

/// Seeds of the usual test suite.
const SEEDS: u64 = 2000;
const READERS: usize = 4;
const AUTHORS: u8 = 3;
/// Events that may wait for a reader: some fall behind.
const LIVE_EVENTS: usize = 3;

#[test]
fn two_thousand_schedules_have_every_event_once() {
    let all = play(0, SEEDS);
    // A campaign that meets nothing would prove nothing.
    assert!(all.both > SEEDS, "few readers had stored and live events: {all:?}");
    assert!(all.failed > SEEDS / 4 && all.kept > SEEDS / 100, "few writes failed: {all:?}");
    assert!(all.behind > SEEDS / 20 && all.again > SEEDS / 100, "{all:?}");
}

#[test]
#[ignore = "takes as long as the number of seeds asks for: BIRDHOUSE_FROM, BIRDHOUSE_SEEDS"]
fn many_schedules_have_every_event_once() {
    let (first, seeds) = (number("BIRDHOUSE_FROM").unwrap_or(0), number("BIRDHOUSE_SEEDS").unwrap_or(100_000));
    println!("{seeds} seeds from {first} on: {:?}", play(first, seeds));
}

/// Counts of the rare cases that schedules have met.
#[derive(Debug, Default)]
struct Counts {
    /// Readers with stored and live events.
    both: u64,
    /// Failed batches.
    failed: u64,
    /// Failed batches that the store had all the same.
    kept: u64,
    /// Readers that fell behind.
    behind: u64,
    /// Events that came to a reader again after a failed write.
    again: u64,
}

fn play(first: u64, seeds: u64) -> Counts {
    let mut counts = Counts::default();
    for seed in first..first + seeds {
        let ran = catch_unwind(AssertUnwindSafe(|| run(seed, &mut counts)));
        assert!(ran.is_ok(), "seed {seed} failed");
    }
    counts
}

/// Plays one schedule.
fn run(seed: u64, counts: &mut Counts) {
    let world = Arc::new(World::new(seed));
    let store: Arc<dyn Store> = Arc::new(HookedStore::new(Arc::new(MemoryStore::new()), Arc::clone(&world)));
    let options = EventsOptions { memtable_events: 3 + world.below(6), ..EventsOptions::default() };
    let events = Arc::new(Events::open(store, [9; 16], options).unwrap());
    let feed = Feed::new(seed, events.end());
    world.events.set(Arc::downgrade(&events)).unwrap();
    // Their authors send events again until they are accepted.
    let mut waiting = pool(&world);
    // Events of failed writes: readers may get them twice.
    let mut unsure = HashSet::new();
    let mut rounds = 0;
    while !waiting.is_empty() {
        rounds += 1;
        world.has_faults.store(rounds < 40, Ordering::Relaxed);
        let batch: Vec<VerifiedEvent> = waiting.iter().take(1 + world.below(4)).cloned().collect();
        if accept(&world, &events, &batch).is_ok() {
            waiting.drain(..batch.len());
        } else {
            counts.failed += 1;
            unsure.extend(batch.iter().map(|event| event.id));
            world.let_readers_step();
            let before = events.end();
            reopen(&world, &events, &feed);
            counts.kept += u64::from(events.end() > before);
            // Others' events may come first, and get the numbers.
            let first = world.below(waiting.len());
            waiting.rotate_left(first);
        }
        if world.below(4) == 0 && events.compact().is_err() && events.failure().is_some() {
            reopen(&world, &events, &feed);
        }
        world.let_readers_step();
    }
    world.has_faults.store(false, Ordering::Relaxed);
    let kept = all(&events);
    for reader in &mut *world.readers.lock() {
        while reader.step(&world, &events) {}
        counts.behind += reader.behind;
        reader.check(&kept, &unsure, counts);
    }
}

/// Opens the events again, which may fail more than once.
fn reopen(world: &World, events: &Events, feed: &Feed) {
    while recovery::reopen(events, &world.hub, feed).is_err() {
        world.let_readers_step();
    }
}

/// Stores events and passes them on, as `ingest.rs` does.
fn accept(world: &World, events: &Events, batch: &[VerifiedEvent]) -> birdhouse_events::Result<()> {
    let tell = |outcomes: &[Accepted]| {
        for (event, outcome) in batch.iter().zip(outcomes) {
            world.let_readers_step();
            if let Accepted::Stored(seq) = outcome {
                world.hub.publish_live(event, Some(*seq));
            }
        }
    };
    events.accept_and_notify(&batch.iter().collect::<Vec<_>>(), tell).map(|_| ())
}

/// Returns some events in random order. They are signed once for all schedules.
fn pool(world: &World) -> Vec<VerifiedEvent> {
    static SIGNED: OnceLock<Vec<VerifiedEvent>> = OnceLock::new();
    let sign = |number: u8| {
        // Some are of one second.
        let (created_at, kind) = (Timestamp(1000 + u64::from(number) / 3), Kind(1));
        let event = UnsignedEvent { created_at, kind, tags: Vec::new(), content: number.to_string() };
        event.sign(&Keys::from_secret([1 + number % AUTHORS; 32]).unwrap())
    };
    let mut left = SIGNED.get_or_init(|| (0..40).map(sign).collect()).clone();
    (0..10 + world.below(25)).map(|_| left.swap_remove(world.below(left.len()))).collect()
}

fn all(events: &Events) -> Vec<Event> {
    let (mut found, filter) = (Vec::new(), Filter::default());
    let add = &mut |_, packed: birdhouse_events::Packed<'_>| {
        found.push(packed.to_event().unwrap());
        ControlFlow::Continue(())
    };
    events.page(Query::of(&filter), None, usize::MAX, add).unwrap();
    found
}

/// Everything beside the writer.
struct World {
    random: Mutex<Rng>,
    hub: Arc<Hub>,
    events: OnceLock<Weak<Events>>,
    readers: Mutex<Vec<Reader>>,
    /// Writes fail, and readers close subscriptions.
    has_faults: AtomicBool,
}

impl World {
    fn new(seed: u64) -> Self {
        let world = Self {
            random: Mutex::new(Rng::new(seed)),
            hub: Hub::new(usize::MAX),
            events: OnceLock::new(),
            readers: Mutex::default(),
            has_faults: AtomicBool::new(false),
        };
        let readers = (0..READERS).map(|_| Reader::new(&world)).collect();
        *world.readers.lock() = readers;
        world
    }

    /// Returns a random number below `bound`.
    fn below(&self, bound: usize) -> usize {
        self.random.lock().index(bound)
    }

    fn has_faults(&self) -> bool {
        self.has_faults.load(Ordering::Relaxed)
    }

    /// Some readers take some steps. Does nothing while a reader reads.
    fn let_readers_step(&self) {
        let Some(events) = self.events.get().and_then(Weak::upgrade) else { return };
        let Some(mut readers) = self.readers.try_lock() else { return };
        for _ in 0..self.below(4) {
            let index = self.below(READERS);
            readers[index].step(self, &events);
        }
    }

    fn fails(&self) -> bool {
        self.has_faults() && self.below(60) == 0
    }
}

/// A connection with one subscription.
struct Reader {
    inbox: LiveInbox,
    number: u64,
    filters: Arc<[Filter]>,
    phase: Phase,
    stored: Vec<EventId>,
    live: Vec<EventId>,
    behind: u64,
}

enum Phase {
    Silent,
    Listening(SinceSeq),
    Reading(SinceSeq, Stored),
    Following(SinceSeq),
}

impl Reader {
    fn new(world: &World) -> Self {
        let filter = match u8::try_from(world.below(usize::from(AUTHORS) + 1)).unwrap() {
            0 => r#"{"kinds":[1]}"#.to_owned(),
            author => format!("{{\"authors\":[\"{}\"]}}", Keys::from_secret([author; 32]).unwrap().pubkey()),
        };
        let filters = [Filter::from_json(&filter, &FilterLimits::default()).unwrap()].into();
        let inbox = world.hub.enter(LiveQueue::new(LIVE_EVENTS, usize::MAX));
        let (stored, live) = (Vec::new(), Vec::new());
        Self { inbox, number: 0, filters, phase: Phase::Silent, stored, live, behind: 0 }
    }

    /// Takes a step. Returns false if there is nothing to do until an event comes.
    fn step(&mut self, world: &World, events: &Events) -> bool {
        let has_overflowed =
            pin!(self.inbox.live.overflowed()).poll(&mut Context::from_waker(Waker::noop())).is_ready();
        // Some close their subscription and make a new one.
        let is_tired = matches!(self.phase, Phase::Following(_)) && world.has_faults() && world.below(50) == 0;
        if has_overflowed || is_tired {
            world.hub.unsubscribe((self.inbox.id, self.number));
            if has_overflowed {
                self.inbox = world.hub.enter(LiveQueue::new(LIVE_EVENTS, usize::MAX));
                self.behind += 1;
            }
            self.number += 1;
            self.phase = Phase::Silent;
            self.stored.clear();
            self.live.clear();
            return true;
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Silent);
        let (next, has_moved) = match phase {
            Phase::Silent => {
                let since = world.hub.subscribe((self.inbox.id, self.number), Arc::clone(&self.filters));
                (Phase::Listening(since), true)
            }
            Phase::Listening(since) => {
                since.lower_to(events.end());
                let stored = Stored::new(Arc::clone(&self.filters), TagsBy::Event, since.clone());
                (Phase::Reading(since, stored), true)
            }
            Phase::Reading(since, mut stored) => {
                let (rows, ids) = (1 + world.below(4), &mut self.stored);
                let asked = Asked { now: 0, audience: Audience::Operator, hidden: None, pace: None };
                let next = stored.page(events, asked, rows, &mut |packed| {
                    ids.push(packed.id());
                    ControlFlow::Continue(())
                });
                match next.unwrap() {
                    Next::Page => (Phase::Reading(since, stored), true),
                    Next::End(_) => (Phase::Following(since), true),
                    Next::Refused(why) => panic!("{why:?}"),
                }
            }
            Phase::Following(since) => {
                let event = self.inbox.live.try_next();
                let has_moved = event.is_some();
                if let Some(event) = event
                    && event.subscription == self.number
                    && since.is_live(event.seq)
                {
                    let json = event.payload.shared().plain().strip_suffix(b"]").unwrap();
                    self.live.push(Event::from_json(str::from_utf8(json).unwrap()).unwrap().id);
                }
                (Phase::Following(since), has_moved)
            }
        };
        self.phase = next;
        has_moved
    }

    /// Compares what came with the events that are kept.
    fn check(&self, kept: &[Event], unsure: &HashSet<EventId>, counts: &mut Counts) {
        let mut times: HashMap<EventId, usize> = HashMap::new();
        for id in self.stored.iter().chain(&self.live) {
            *times.entry(*id).or_default() += 1;
        }
        for event in kept.iter().filter(|event| self.filters[0].matches(event)) {
            let times = times.get(&event.id).copied().unwrap_or(0);
            let (stored, live) = (self.stored.len(), self.live.len());
            assert!(times > 0, "event {} was lost beside {stored} stored and {live} live ones", event.content);
            assert!(times == 1 || unsure.contains(&event.id), "event {} came {times} times", event.content);
            counts.again += u64::from(times > 1);
        }
        let kept: HashSet<EventId> = kept.iter().map(|event| event.id).collect();
        assert!(times.keys().all(|id| kept.contains(id)), "every author tried again until its event was kept");
        counts.both += u64::from(!self.stored.is_empty() && !self.live.is_empty());
    }
}

/// Readers step before and after each write, which fails before it is done or afterwards.
impl Hook for World {
    fn before(&self, call: Call) -> birdhouse_store::Result<()> {
        self.step_around(call)
    }

    fn after(&self, call: Call, outcome: Outcome) -> birdhouse_store::Result<()> {
        if outcome == Outcome::Done { self.step_around(call) } else { Ok(()) }
    }
}

impl World {
    fn step_around(&self, call: Call) -> birdhouse_store::Result<()> {
        if !call.is_change() {
            return Ok(());
        }
        self.let_readers_step();
        if self.fails() {
            let cause = std::io::Error::other("simulated");
            return Err(Error::Io { action: "write in memory".to_owned(), cause });
        }
        Ok(())
    }
}
