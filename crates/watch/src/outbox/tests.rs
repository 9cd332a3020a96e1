//! Outboxes: order, repetition, and a campaign of losses.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use super::*;
use crate::channel::{Channel, Channels, Priority, Refused, Surroundings};
use crate::file::{ChannelKind, ChannelSettings, WatchName};
use crate::notice::{Amounts, Notice, NoticeId, NoticeKind};
use crate::state::{self, Routed};

/// A notice that others can be announced from by its number.
pub(super) fn notice(number: u64, at: u64) -> Notice {
    Notice {
        id: NoticeId::of(&[]),
        seq: 0,
        watch: WatchName::new(name_of(number)),
        kind: NoticeKind::Seen,
        txid: None,
        amounts: Amounts::default(),
        balance: None,
        block: None,
        at,
        is_cold: false,
        is_partial: false,
        outputs: Vec::new(),
        inputs: Vec::new(),
    }
}

fn render() -> Render {
    Arc::new(|notice| Message {
        id: notice.id.to_string(),
        created: notice.at,
        title: notice.watch.to_string(),
        line: "line".into(),
        line_without_amounts: "line".into(),
        priority: Priority::Usual,
        click: None,
        body: json!({}),
    })
}

fn now() -> u64 {
    Clock::system().now().as_secs()
}

fn named(text: &str, channel: Arc<dyn Channel>) -> OpenChannel {
    OpenChannel { name: name(text), channel }
}

fn name(text: &str) -> ChannelName {
    ChannelName::new(text)
}

/// Appends notices of these numbers for channels, as the engine does.
fn append(state: &State, numbers: std::ops::Range<u64>, at: u64, channels: &[&str]) {
    let channels: Vec<_> = channels.iter().map(|channel| name(channel)).collect();
    let routed = numbers.map(|number| Routed { notice: notice(number, at), channels: channels.clone() });
    let mut routed: Vec<_> = routed.collect();
    state.write(|transaction| state::append(transaction, &mut routed)).unwrap();
}

fn tools(schedule: Schedule) -> Tools {
    Tools { clock: Clock::system(), random: Arc::new(|| 0), schedule }
}

/// Waits that are as short as a test needs.
fn quick() -> Schedule {
    let (first, longest) = (Duration::from_millis(1), Duration::from_millis(4));
    Schedule { first, longest, ..Schedule::default() }
}

fn open(folder: &Path) -> State {
    State::open(&folder.join("watch.redb")).unwrap()
}

/// A channel whose outcomes a test decides.
struct Scripted {
    outcomes: Mutex<Vec<Outcome>>,
    sent: mpsc::Sender<String>,
}

fn scripted(mut outcomes: Vec<Outcome>) -> (Arc<dyn Channel>, mpsc::Receiver<String>) {
    outcomes.reverse();
    let (sent, got) = mpsc::channel(100);
    (Arc::new(Scripted { outcomes: Mutex::new(outcomes), sent }), got)
}

impl Channel for Scripted {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Outcome> {
        let outcome = self.outcomes.lock().pop().unwrap_or(Outcome::Delivered);
        Box::pin(async move {
            self.sent.send(message.title.clone()).await.unwrap();
            outcome
        })
    }
}

/// Waits until the state of a channel is as a test needs it.
async fn until(outbox: &Outbox, is_so: impl Fn(&ChannelStatus) -> bool) -> ChannelStatus {
    loop {
        let status = outbox.status().unwrap().remove(0);
        if is_so(&status) {
            return status;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn name_of(number: u64) -> String {
    format!("number {number}")
}

fn retry() -> Outcome {
    Outcome::Retry { why: "no".into(), after: None }
}

#[tokio::test]
async fn notices_go_out_in_order_and_a_failed_one_holds_the_next_back() {
    let folder = tempfile::tempdir().unwrap();
    let state = open(folder.path());
    append(&state, 0..3, now(), &["me"]);
    let (channel, mut got) = scripted(vec![Outcome::Delivered, retry(), retry()]);
    let outbox = Outbox::with(state.clone(), vec![named("me", channel)], &render(), &tools(quick())).unwrap();
    for number in [0, 1, 1, 1, 2] {
        assert_eq!(got.recv().await.unwrap(), name_of(number));
    }
    append(&state, 3..4, now(), &["me"]);
    outbox.wake();
    assert_eq!(got.recv().await.unwrap(), name_of(3));
    let status = until(&outbox, |status| status.waiting == 0).await;
    assert_eq!((status.delivered, status.given_up, status.next_attempt), (4, 0, None));
    assert_eq!(status.last_error.unwrap().why, "no");
}

/// Panics at the first attempt.
struct Panics(AtomicU32);

impl Channel for Panics {
    fn send<'a>(&'a self, _message: &'a Message) -> BoxFuture<'a, Outcome> {
        let is_first = self.0.fetch_add(1, Ordering::Relaxed) == 0;
        Box::pin(async move { if is_first { panic!("a fault of the test") } else { Outcome::Delivered } })
    }
}

#[tokio::test]
async fn an_attempt_that_panics_is_repeated_as_one_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let state = open(folder.path());
    append(&state, 0..2, now(), &["me"]);
    let channel = named("me", Arc::new(Panics(AtomicU32::new(0))));
    let outbox = Outbox::with(state, vec![channel], &render(), &tools(quick())).unwrap();
    let delivered = until(&outbox, |status| status.waiting == 0);
    let status = tokio::time::timeout(Duration::from_secs(30), delivered).await.unwrap();
    assert_eq!((status.delivered, status.given_up), (2, 0));
    assert!(status.last_error.unwrap().why.contains("panic"));
}

#[tokio::test]
async fn a_channel_that_fails_holds_no_other_one_back() {
    let folder = tempfile::tempdir().unwrap();
    let state = open(folder.path());
    append(&state, 0..2, now(), &["a", "b"]);
    let (dead, mut tried) = scripted(vec![retry()]);
    let (alive, mut got) = scripted(Vec::new());
    let channels = vec![named("a", dead), named("b", alive)];
    let outbox = Outbox::with(state, channels, &render(), &tools(Schedule::default())).unwrap();
    for number in 0..2 {
        assert_eq!(got.recv().await.unwrap(), name_of(number));
    }
    assert_eq!(tried.recv().await.unwrap(), name_of(0));
    let status = until(&outbox, |status| status.last_error.is_some()).await;
    assert_eq!((status.waiting, status.delivered), (2, 0));
    assert!(status.next_attempt.unwrap() > now());
}

#[tokio::test]
async fn gone_disables_until_a_test_succeeds_and_across_it_nothing_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let state = open(folder.path());
    append(&state, 0..2, now(), &["me"]);
    let (channel, mut got) = scripted(vec![Outcome::Disable { why: "gone".into() }, retry()]);
    let outbox = Outbox::with(state, vec![named("me", channel)], &render(), &tools(quick())).unwrap();
    let status = until(&outbox, |status| status.disabled.is_some()).await;
    assert_eq!((status.waiting, status.disabled.as_deref()), (2, Some("gone")));
    let test = render()(&notice(99, now()));
    assert_eq!(outbox.test(&name("me"), &test).await.unwrap(), Some(retry()));
    assert!(outbox.status().unwrap()[0].disabled.is_some(), "a test that fails enables nothing");
    assert_eq!(outbox.test(&name("me"), &test).await.unwrap(), Some(Outcome::Delivered));
    until(&outbox, |status| status.waiting == 0 && status.disabled.is_none()).await;
    for number in [0, 99, 99, 0, 1] {
        assert_eq!(got.recv().await.unwrap(), name_of(number));
    }
    assert_eq!(outbox.test(&name("nobody"), &test).await.unwrap(), None);
}

#[tokio::test]
async fn a_start_enables_a_disabled_channel_and_forgets_removed_ones() {
    let folder = tempfile::tempdir().unwrap();
    let state = open(folder.path());
    append(&state, 0..1, now(), &["me", "removed"]);
    let disabled = |delivery: &mut state::ChannelRecord| delivery.disabled = Some("gone".into());
    state.change_delivery(&name("me"), disabled).unwrap();
    let (channel, mut got) = scripted(Vec::new());
    let _outbox = Outbox::with(state.clone(), vec![named("me", channel)], &render(), &tools(quick())).unwrap();
    assert_eq!(got.recv().await.unwrap(), name_of(0));
    assert_eq!(state.waiting(&name("removed")).unwrap().count, 0);
}

#[tokio::test]
async fn a_notice_of_30_days_ago_and_one_that_is_refused_are_given_up_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let state = open(folder.path());
    append(&state, 0..1, now() - 31 * 86_400, &["me"]);
    append(&state, 1..3, now(), &["me"]);
    let (channel, mut got) = scripted(vec![Outcome::Refused { why: "large".into() }]);
    let outbox = Outbox::with(state, vec![named("me", channel)], &render(), &tools(quick())).unwrap();
    for number in 1..3 {
        assert_eq!(got.recv().await.unwrap(), name_of(number));
    }
    let status = until(&outbox, |status| status.waiting == 0).await;
    assert_eq!((status.given_up, status.delivered), (2, 1));
    assert_eq!(status.last_error.unwrap().why, "large");
}

/// Waits for the next message, for no longer than a test has patience.
async fn next(got: &mut mpsc::Receiver<String>) -> String {
    tokio::time::timeout(Duration::from_mins(1), got.recv()).await.expect("nothing is sent").unwrap()
}

#[tokio::test]
async fn an_alarm_passes_a_message_that_fails() {
    let folder = tempfile::tempdir().unwrap();
    let state = open(folder.path());
    append(&state, 0..2, now(), &["me"]);
    let hour = Duration::from_hours(1);
    let later = Outcome::Retry { why: "no".into(), after: Some(hour) };
    let (channel, mut got) = scripted(vec![later, retry(), Outcome::Delivered]);
    let patient = Schedule { longest: hour, ..quick() };
    let outbox = Outbox::with(state.clone(), vec![named("me", channel)], &render(), &tools(patient)).unwrap();
    assert_eq!(next(&mut got).await, name_of(0));
    let amounts = Amounts { received: 0, spent: 1_000 };
    let alarm = Notice { is_cold: true, amounts, ..notice(7, now()) };
    let routed = Routed { notice: alarm, channels: vec![name("me")] };
    state.write(|transaction| state::append(transaction, &mut [routed])).unwrap();
    outbox.wake();
    // Tried until it is delivered, while the others wait for their turn.
    assert_eq!((next(&mut got).await, next(&mut got).await), (name_of(7), name_of(7)));
    let status = until(&outbox, |status| status.delivered == 1).await;
    assert_eq!((status.waiting, status.given_up), (2, 0));
}

/// A receiver that answers 400 to everything; its address, and the number of its answers.
async fn refusing() -> (String, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (url, answers) = (format!("http://{}/hook", listener.local_addr().unwrap()), Arc::new(AtomicU32::new(0)));
    let counted = Arc::clone(&answers);
    tokio::spawn(async move {
        loop {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut bytes = Vec::new();
            while !bytes.ends_with(b"}") && socket.read_buf(&mut bytes).await.is_ok_and(|count| count > 0) {}
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = socket.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await;
        }
    });
    (url, answers)
}

#[tokio::test]
async fn a_message_that_its_receiver_refuses_for_good_holds_the_others_back_for_a_bounded_time() {
    let folder = tempfile::tempdir().unwrap();
    let state = open(folder.path());
    append(&state, 0..2, now(), &["me"]);
    let (url, attempts) = refusing().await;
    let kind = ChannelKind::Webhook { url, secrets: vec!["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".into()] };
    let settings = ChannelSettings { name: name("me"), kind, amounts: true };
    let (refused, key_file) = (Refused::default(), folder.path().join("watch.nsec"));
    let (relay, relay_sockets, clock) = (None, Vec::new(), Clock::system());
    let channels = Channels::new(Surroundings { refused, key_file, relay, relay_sockets, clock });
    let channel = channels.open(&settings).unwrap();
    let outbox = Outbox::with(state, vec![named("me", channel)], &render(), &tools(quick())).unwrap();
    let given_up = tokio::time::timeout(Duration::from_secs(20), until(&outbox, |status| status.given_up == 2)).await;
    let status = given_up.expect("no message is given up");
    assert_eq!((status.waiting, status.delivered), (0, 0));
    assert!(status.last_error.unwrap().why.contains("400"));
    assert_eq!(attempts.load(Ordering::Relaxed), 2 * crate::limits::REJECTIONS_MAX);
}

/// A receiver that at random is away, or takes a message and dies before it answers.
struct Unreliable {
    seed: Mutex<u64>,
    got: Arc<Mutex<HashMap<String, u32>>>,
    first_times: Arc<Mutex<Vec<String>>>,
}

impl Unreliable {
    fn chance(&self) -> u64 {
        let mut seed = self.seed.lock();
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed % 100
    }
}

impl Channel for Unreliable {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Outcome> {
        let chance = self.chance();
        Box::pin(async move {
            if chance < 5 {
                return retry();
            }
            let mut got = self.got.lock();
            let times = got.entry(message.id.clone()).or_default();
            *times += 1;
            if *times == 1 {
                self.first_times.lock().push(message.title.clone());
            }
            if chance < 10 { retry() } else { Outcome::Delivered }
        })
    }
}

/// The process is "killed" by ending its tasks at any await, and the file is opened anew.
#[tokio::test(flavor = "multi_thread")]
async fn two_thousand_notices_survive_a_receiver_and_a_process_that_die_at_random() {
    const COUNT: u64 = 2000;
    let seed = getrandom::u64().unwrap() | 1;
    eprintln!("seed {seed}");
    let folder = tempfile::tempdir().unwrap();
    let (got, first_times) = <(Arc<Mutex<HashMap<_, _>>>, Arc<Mutex<Vec<_>>>)>::default();
    let receiver = Unreliable { seed: Mutex::new(seed), got: Arc::clone(&got), first_times: Arc::clone(&first_times) };
    let receiver: Arc<dyn Channel> = Arc::new(receiver);
    let (mut appended, mut lives, mut chance) = (0, 0, seed);
    while (got.lock().len() as u64) < COUNT || appended < COUNT {
        let state = loop {
            // A task that was ended may still hold the file for its last transaction.
            match State::open(&folder.path().join("watch.redb")) {
                Ok(state) => break state,
                Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
            }
        };
        let channels = vec![named("me", Arc::clone(&receiver))];
        let outbox = Outbox::with(state.clone(), channels, &render(), &tools(quick())).unwrap();
        chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let more = (appended + (chance >> 40) % 150).min(COUNT);
        append(&state, appended..more, now(), &["me"]);
        outbox.wake();
        appended = more;
        tokio::time::sleep(Duration::from_millis((chance >> 33) % 120)).await;
        lives += 1;
    }
    let repeats: u32 = got.lock().values().map(|times| times - 1).sum();
    eprintln!("{lives} lives, {repeats} repetitions");
    let expected: Vec<_> = (0..COUNT).map(name_of).collect();
    // By id: a repetition with another one would be a first time.
    assert_eq!(*first_times.lock(), expected, "each is delivered, in order, and repetitions have the same ids");
    assert!(lives > 10 && repeats > 0);
}
