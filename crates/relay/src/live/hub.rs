//! New events, sent to the subscriptions that match them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use birdhouse_events::{Event, Filter, Matcher, Pubkey, Seq};
use parking_lot::RwLock;

use crate::live::live_queue::{LiveEvent, LivePayload, LiveQueue};

/// Names a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ConnectionId(u64);

/// A subscription of a connection, by a number of its own: an event that comes late for one that was closed reaches no
/// other one of its name.
pub(super) type Key = (ConnectionId, u64);

/// The number of the first event that is live for a subscription; those before are stored. After a failed write it
/// becomes lower, because the numbers of events that were not kept are given to others.
#[derive(Debug, Clone)]
pub(crate) struct SinceSeq(Arc<AtomicU64>);

/// All subscriptions of all connections.
#[derive(Debug)]
pub(crate) struct Hub {
    subscriptions: RwLock<Subscriptions>,
    next: AtomicU64,
    /// Bytes of the events that wait in the queues, and their bound.
    bytes: Arc<AtomicUsize>,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct Subscriptions {
    matcher: Matcher<Key>,
    since: HashMap<Key, SinceSeq>,
    queues: HashMap<ConnectionId, Arc<LiveQueue>>,
}

/// The receiving end of a connection.
#[derive(Debug)]
pub(crate) struct LiveInbox {
    pub(crate) id: ConnectionId,
    pub(crate) live: Arc<LiveQueue>,
    hub: Arc<Hub>,
}

// === impl SinceSeq ===

impl SinceSeq {
    pub(crate) fn at(seq: Seq) -> Self {
        Self(Arc::new(AtomicU64::new(seq.0)))
    }

    pub(crate) fn get(&self) -> Seq {
        Seq(self.0.load(Ordering::Relaxed))
    }

    /// Returns true if a new event of this number is live; `None` is an ephemeral one.
    pub(crate) fn is_live(&self, seq: Option<Seq>) -> bool {
        seq.is_none_or(|seq| seq >= self.get())
    }

    /// Sets it to `seq`, unless it is lower.
    pub(crate) fn lower_to(&self, seq: Seq) {
        self.0.fetch_min(seq.0, Ordering::Relaxed);
    }
}

// === impl Hub ===

impl Hub {
    /// Returns a hub without subscriptions, for whose connections events of `bytes_max` bytes may wait.
    pub(crate) fn new(bytes_max: usize) -> Arc<Self> {
        let subscriptions = RwLock::<Subscriptions>::default();
        Arc::new(Self { subscriptions, next: AtomicU64::new(0), bytes: Arc::default(), bytes_max })
    }

    /// Adds a connection with this queue.
    pub(crate) fn enter(self: &Arc<Self>, queue: LiveQueue) -> LiveInbox {
        let id = ConnectionId(self.next.fetch_add(1, Ordering::Relaxed));
        let live = Arc::new(queue);
        self.subscriptions.write().queues.insert(id, Arc::clone(&live));
        LiveInbox { id, live, hub: Arc::clone(self) }
    }

    /// Adds a subscription, for which no event is live yet. The caller lowers what is returned to the end of the stored
    /// events, which it reads afterwards: what comes between is stored, and its live event is ignored.
    pub(crate) fn subscribe(&self, key: Key, filters: Arc<[Filter]>) -> SinceSeq {
        let (since, mut subscriptions) = (SinceSeq::at(Seq(u64::MAX)), self.subscriptions.write());
        subscriptions.matcher.insert(key, filters);
        subscriptions.since.insert(key, since.clone());
        since
    }

    pub(crate) fn unsubscribe(&self, key: Key) {
        let mut subscriptions = self.subscriptions.write();
        subscriptions.matcher.remove(key);
        subscriptions.since.remove(&key);
    }

    /// Makes events from `end` on live for all: a failed write has had their numbers.
    pub(crate) fn number_again_from(&self, end: Seq) {
        self.subscriptions.read().since.values().for_each(|since| since.lower_to(end));
    }

    /// Sends the event to every matching subscription; returns their number.
    pub(crate) fn publish_live(&self, event: &Event, seq: Option<Seq>) -> usize {
        let subscriptions = self.subscriptions.read();
        let keys = subscriptions.matcher.matches(event);
        if !keys.is_empty() {
            let mut message = Vec::new();
            event.write_json(&mut message);
            message.push(b']');
            let payload = Arc::new(LivePayload::new(message, &self.bytes));
            let readers: Option<Arc<[Pubkey]>> = event.readers().map(Into::into);
            for (id, subscription) in &keys {
                let Some(queue) = subscriptions.queues.get(id) else { continue };
                let (readers, payload) = (readers.clone(), Arc::clone(&payload));
                queue.put(LiveEvent { subscription: *subscription, seq, readers, payload });
            }
            drop(payload);
            subscriptions.shorten(&self.bytes, self.bytes_max);
        }
        keys.len()
    }
}

// === impl Subscriptions ===

impl Subscriptions {
    /// Ends the longest queues until no more than `bytes_max` bytes wait in all of them.
    fn shorten(&self, bytes: &AtomicUsize, bytes_max: usize) {
        while bytes.load(Ordering::Relaxed) > bytes_max {
            let longest = self.queues.values().max_by_key(|queue| queue.bytes());
            // Events that connections are writing at this moment count, too.
            let Some(longest) = longest.filter(|queue| queue.bytes() > 0) else { return };
            longest.overflow();
        }
    }
}

impl Drop for LiveInbox {
    fn drop(&mut self) {
        self.hub.subscriptions.write().queues.remove(&self.id);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_events::{FilterLimits, Keys, Kind, Timestamp, UnsignedEvent};

    use super::*;

    fn publish(hub: &Hub, kind: u16, bytes: usize) {
        let (created_at, content) = (Timestamp(1), "x".repeat(bytes));
        let event = UnsignedEvent { created_at, kind: Kind(kind), tags: Vec::new(), content };
        hub.publish_live(event.sign(&Keys::from_secret([1; 32]).unwrap()).event(), None);
    }

    fn reader(hub: &Arc<Hub>, kind: u16) -> LiveInbox {
        let inbox = hub.enter(LiveQueue::new(100, 80_000));
        let filter = Filter::from_json(&format!("{{\"kinds\":[{kind}]}}"), &FilterLimits::default()).unwrap();
        hub.subscribe((inbox.id, 0), [filter].into());
        inbox
    }

    /// Bytes that wait, without those around the contents.
    fn waiting(inbox: &LiveInbox) -> usize {
        inbox.live.bytes() / 10_000
    }

    #[test]
    fn a_queue_without_room_is_emptied_and_takes_no_more() {
        let hub = Hub::new(1_000_000);
        let (stalled, other) = (reader(&hub, 20_000), reader(&hub, 20_000));
        publish(&hub, 20_000, 40_000);
        assert!(other.live.try_next().is_some());
        publish(&hub, 20_000, 40_000);
        assert_eq!((waiting(&stalled), waiting(&other)), (0, 4), "two events with their other members have no room");
        publish(&hub, 20_000, 10_000);
        assert_eq!((waiting(&stalled), waiting(&other)), (0, 5));
        drop(other);
        assert_eq!(hub.bytes.load(Ordering::Relaxed), 0);
        let alone = reader(&hub, 20_001);
        publish(&hub, 20_001, 200_000);
        assert_eq!(waiting(&alone), 20, "an event that waits alone has room");
    }

    #[test]
    fn an_event_for_several_subscriptions_of_a_connection_counts_once() {
        let (hub, filter) = (Hub::new(1_000_000), Filter::default());
        let inbox = hub.enter(LiveQueue::new(100, 80_000));
        for number in 0..3 {
            hub.subscribe((inbox.id, number), [filter.clone()].into());
        }
        publish(&hub, 20_000, 50_000);
        publish(&hub, 20_000, 20_000);
        assert_eq!(waiting(&inbox), 7);
        for left in [7, 7, 2, 2, 2, 0] {
            assert!(inbox.live.try_next().is_some());
            assert_eq!(waiting(&inbox), left);
        }
        assert_eq!(inbox.live.bytes(), 0);
        publish(&hub, 20_000, 90_000);
        assert_eq!(waiting(&inbox), 9, "it waits alone");
    }

    #[test]
    fn the_longest_queue_ends_when_too_much_waits_for_all_and_a_shared_event_counts_once() {
        let hub = Hub::new(100_000);
        let many: Vec<LiveInbox> = (0..30).map(|_| reader(&hub, 20_000)).collect();
        let (shorter, longer) = (reader(&hub, 20_001), reader(&hub, 20_002));
        publish(&hub, 20_000, 20_000);
        publish(&hub, 20_001, 30_000);
        publish(&hub, 20_002, 40_000);
        assert_eq!((waiting(&shorter), waiting(&longer)), (3, 4));
        publish(&hub, 20_001, 20_000);
        assert_eq!((waiting(&shorter), waiting(&longer)), (0, 4));
        assert!(many.iter().all(|inbox| waiting(inbox) == 2));
        assert!(hub.bytes.load(Ordering::Relaxed) <= 100_000);
    }
}
