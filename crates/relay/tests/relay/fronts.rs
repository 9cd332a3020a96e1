//! Front ends: relays that read the published events of another one, and pass events on to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use birdhouse_events::{Events, EventsOptions};
use birdhouse_net::{Proxy, Transport};
use birdhouse_relay::{FeedOffset, Relay, RelayWriter, RuleBook, Settings};
use birdhouse_store::{MemoryReplica, MemoryStore};
use serde_json::json;
use tokio::runtime::Builder;

use crate::app::{App, event};
use crate::exactly_once::everybody_gets_each_event_once;

/// Time that the feed waits: short, so that front ends end soon.
const FEED_WAIT: Duration = Duration::from_millis(300);

/// The relay that stores the events, called without a network.
struct Writer {
    relay: Arc<Relay>,
    is_cut_off: AtomicBool,
}

impl Writer {
    fn check(&self) -> Result<(), String> {
        if self.is_cut_off.load(Ordering::Relaxed) { Err("no way there".to_owned()) } else { Ok(()) }
    }
}

impl RelayWriter for Writer {
    fn store(&self, events: &[u8]) -> Result<Vec<u8>, String> {
        self.check()?;
        self.relay.store_forwarded(events)
    }

    fn feed(&self, after: FeedOffset) -> Result<Option<Vec<u8>>, String> {
        self.check()?;
        // The runtime of the test may end before the thread that waits here.
        let runtime = Builder::new_current_thread().enable_time().build().unwrap();
        let waited = async { tokio::time::timeout(FEED_WAIT, self.relay.feed(after)).await };
        runtime.block_on(waited).map_or(Ok(None), |page| page.map(Some))
    }
}

/// A relay that stores events, and front ends of it.
struct Service {
    main: App,
    writer: Arc<Writer>,
    fronts: Vec<App>,
}

impl Service {
    async fn start(fronts: usize) -> Self {
        let (store, options) = (MemoryStore::new(), EventsOptions { memtable_events: 40, ..EventsOptions::default() });
        let events = Arc::new(Events::open(Arc::new(store.clone()), [1; 16], options.clone()).unwrap());
        let relay = Relay::new(Arc::clone(&events), Settings::default());
        let writer = Arc::new(Writer { relay: Arc::clone(&relay), is_cut_off: AtomicBool::new(false) });
        let main = App::of(relay, events, tempfile::tempdir().unwrap(), Transport::Ws, Proxy::Off).await;
        let mut service = Self { main, writer, fronts: Vec::new() };
        for _ in 0..fronts {
            let events = Events::open_published(Arc::new(MemoryReplica::new(&store)), options.clone());
            let events = Arc::new(events.unwrap().unwrap());
            let (rules, writer) = (Arc::new(RuleBook::in_memory()), Arc::clone(&service.writer));
            let relay = Relay::front(Arc::clone(&events), Settings::default(), rules, writer);
            let folder = tempfile::tempdir().unwrap();
            service.fronts.push(App::of(relay, events, folder, Transport::Ws, Proxy::Off).await);
        }
        service
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn events_of_all_front_ends_reach_subscribers_of_each_exactly_once() {
    let service = Service::start(3).await;
    let fronts: Vec<&App> = service.fronts.iter().collect();
    everybody_gets_each_event_once(&service.main, &fronts, 150, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_deleted_at_one_front_end_is_gone_at_all_and_refused_with_the_same_words() {
    let service = Service::start(2).await;
    let (mut one, mut other) = (service.fronts[0].client().await, service.fronts[1].client().await);
    let note = event(1, 1, 5, &[]);
    one.store(&note).await;
    service.fronts[1].until("the note is there", || service.fronts[1].events.has(&note.id).unwrap()).await;
    other.store(&event(1, 5, 6, &[&["e", &note.id.to_string()]])).await;
    service.fronts[0].until("the note is gone", || !service.fronts[0].events.has(&note.id).unwrap()).await;
    assert_eq!(one.publish(&note).await, (false, "blocked: its author has deleted it".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn ephemeral_events_reach_the_subscribers_of_all_front_ends_and_of_the_relay_itself() {
    let service = Service::start(2).await;
    let mut readers = Vec::new();
    for app in service.fronts.iter().chain([&service.main]) {
        let mut reader = app.client().await;
        reader.say(json!(["REQ", "typing", { "kinds": [20001] }])).await;
        assert_eq!(reader.hear().await[0], "EOSE");
        readers.push(reader);
    }
    let mut author = service.fronts[0].client().await;
    for second in 0..5 {
        let typing = event(1, 20_001, second, &[]);
        author.store(&typing).await;
        for reader in &mut readers {
            assert_eq!(reader.hear().await[2]["id"], typing.id.to_string());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_the_relay_that_stores_events_they_are_refused_and_questions_are_answered() {
    let service = Service::start(1).await;
    let front = &service.fronts[0];
    let mut client = front.client().await;
    let before = event(1, 1, 5, &[]);
    client.store(&before).await;
    service.writer.is_cut_off.store(true, Ordering::Relaxed);
    let note = event(1, 1, 6, &[]);
    let (is_stored, why) = client.publish(&note).await;
    assert!(!is_stored && why.starts_with("error: "), "{why}");
    front.until("the event is there", || front.events.has(&before.id).unwrap()).await;
    let mut reader = front.client().await;
    reader.say(json!(["REQ", "all", { "kinds": [1] }])).await;
    assert_eq!(reader.hear().await[2]["id"], before.id.to_string());
    assert_eq!(reader.hear().await[0], "EOSE");
    assert!(front.relay.health().is_good(), "for a while");
    service.writer.is_cut_off.store(false, Ordering::Relaxed);
    client.store(&note).await;
    assert_eq!(reader.hear().await[2]["id"], note.id.to_string());
}
