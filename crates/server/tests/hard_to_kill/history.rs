//! A relay that is killed while authors publish and readers subscribe: the history that all of them saw has no fault.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent};
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::relay_history::{Author, Findings, History, Micros, Seen, Sent, Subscription, check};
use birdhouse_testkit::rng::Rng;
use bitcoin::hex::DisplayHex as _;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket};

use super::relay::connect;
use super::{Home, node_with, rounds};

const AUTHORS: Author = 3;
const READERS: u64 = 3;
/// Most unanswered events of an author.
const IN_FLIGHT: usize = 10;
/// Pause of an author whose event was refused.
const REFUSED_PAUSE: Duration = Duration::from_millis(100);
/// Events with the same `created_at`.
const ALIKE: u64 = 7;
/// The time in which a live event must arrive on a busy machine.
const DELIVERY: Duration = Duration::from_secs(1);
/// The longest wait for a message, between two looks at the clock.
const LOOK: Duration = Duration::from_millis(20);

#[test]
fn history_of_a_killed_relay_has_no_fault() {
    check_histories(rounds(6));
}

#[test]
#[ignore = "long: BIRDHOUSE_ROUNDS rounds"]
fn history_of_a_relay_that_is_killed_often_has_no_fault() {
    check_histories(rounds(60));
}

fn check_histories(rounds: std::ops::Range<u64>) {
    let (node, _) = node_with(31, Size::SMALL);
    let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
    let home = Home::new(&node, birdhouse_chain::Profile::Lean).arg(&format!("--relay-addr={addr}"));
    let clock = Clock(Instant::now());
    let mut recorded = Recorded::default();
    let seed = 0x6869_7374 + rounds.start;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    for round in rounds {
        let bird = home.start("run");
        assert!(connect(addr).is_some(), "the relay does not start: {}", home.log());
        let delay = Duration::from_millis(500 + rng.below(3000));
        let mut killed = 0;
        recorded.play(&[addr], clock, (seed, round), || {
            sleep(delay);
            killed = clock.now();
            assert_eq!(bird.kill_after(Duration::ZERO), None, "the server ended by itself");
        });
        recorded.kills.push(killed);
    }
    // Everything that is there in the end.
    let _bird = home.start("run");
    recorded.read_all(addr, clock);
    recorded.assert_right(&home.log());
}

/// Microseconds since the start of a test.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock(pub(super) Instant);

impl Clock {
    pub(super) fn now(self) -> Micros {
        Micros::try_from(self.0.elapsed().as_micros()).unwrap()
    }
}

/// An event as its author sent it, by its id.
type SentEvent = (String, Sent);
/// A subscription, with the ids of the events that it received: stored ones, then live ones.
type Read = (Subscription, Vec<String>);

/// Ends a play when it is dropped.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The records of all clients. Ids become numbers at the end, when all of them are known.
#[derive(Default)]
pub(super) struct Recorded {
    sent: Vec<SentEvent>,
    read: Vec<Read>,
    kills: Vec<Micros>,
    /// As in a history.
    pub(super) lag: Duration,
    pace: Pace,
}

/// The load of authors and readers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// Pause between two events of an author.
    pub(super) pause: Duration,
    /// Subscriptions of 1000 that ask for everything, and not for the newest 50 at most.
    pub(super) whole_per_mille: u64,
}

/// Readers read every event many times.
impl Default for Pace {
    fn default() -> Self {
        Self { pause: Duration::from_millis(2), whole_per_mille: 700 }
    }
}

impl Recorded {
    pub(super) fn with_pace(pace: Pace) -> Self {
        Self { pace, ..Self::default() }
    }

    /// Lets authors and readers use these servers until `disturb` returns or their server is gone.
    pub(super) fn play(
        &mut self,
        servers: &[SocketAddr],
        clock: Clock,
        (seed, round): (u64, u64),
        disturb: impl FnOnce(),
    ) {
        let (is_over, pace) = (AtomicBool::new(false), self.pace);
        scope(|scope| {
            let (over, server) = (&is_over, |number: u64| servers[usize::try_from(number).unwrap() % servers.len()]);
            let author = |author: Author| {
                let server = server(u64::from(author) + round);
                scope.spawn(move || publish(server, clock, author, (round, pace.pause), over))
            };
            let authors: Vec<_> = (1..=AUTHORS).map(author).collect();
            let reader = |reader: u64| {
                let rng = Rng::new(seed + round * READERS + reader + 1);
                scope.spawn(move || read(server(reader), clock, (rng, pace.whole_per_mille), over))
            };
            let readers: Vec<_> = (0..READERS).map(reader).collect();
            // Also when it panics: the others would go on for ever.
            let end = End(&is_over);
            disturb();
            drop(end);
            for author in authors {
                self.sent.extend(author.join().unwrap());
            }
            for reader in readers {
                self.read.extend(reader.join().unwrap());
            }
        });
    }

    /// Reads everything that a server has.
    pub(super) fn read_all(&mut self, addr: SocketAddr, clock: Clock) {
        let mut socket = connect(addr).expect("the relay starts again");
        self.read.extend(subscribe(&mut socket, clock, (1..=AUTHORS).collect(), None, self.lag).0);
    }

    /// Checks what was recorded. Returns the number of acknowledged events.
    pub(super) fn assert_right(self, log: &str) -> usize {
        let ids = self.sent.iter().map(|(id, _)| id).chain(self.read.iter().flat_map(|(_, ids)| ids));
        let mut numbers: BTreeMap<String, u64> = ids.map(|id| (id.clone(), 0)).collect();
        numbers.values_mut().zip(0..).for_each(|(number, next)| *number = next);
        let sent = self.sent.iter().map(|(id, sent)| Sent { event: numbers[id], ..*sent }).collect();
        let numbered = |(mut one, ids): Read| {
            let seen = one.stored.iter_mut().chain(&mut one.live);
            seen.zip(&ids).for_each(|(seen, id)| seen.event = numbers[id]);
            one
        };
        let subscriptions = self.read.into_iter().map(numbered).collect();
        let micros = |duration: Duration| Micros::try_from(duration.as_micros()).unwrap();
        let (delivery, lag) = (micros(DELIVERY.max(self.lag)), micros(self.lag));
        let history = History { sent, subscriptions, kills: self.kills, delivery, lag };
        let Findings { faults, gone_with_a_kill, expected } = check(&history);
        let acknowledged = history.sent.iter().filter(|sent| sent.acknowledged.is_some()).count();
        println!(
            "{acknowledged} of {} events acknowledged, {} subscriptions that had to receive {expected}, {} kills; {} \
             events without acknowledgement were seen and are gone; {} faults",
            history.sent.len(),
            history.subscriptions.len(),
            history.kills.len(),
            gone_with_a_kill.len(),
            faults.len()
        );
        assert!(faults.is_empty(), "{:?}", faults.iter().take(20).collect::<Vec<_>>());
        assert!(acknowledged > 100 * history.kills.len(), "too few to tell");
        assert!(
            history.subscriptions.iter().filter(|one| !one.live.is_empty()).count() > 3,
            "nobody heard live events"
        );
        assert!(!log.contains("panicked"), "{log}");
        acknowledged
    }
}

/// Publishes until the relay is gone.
fn publish(
    addr: SocketAddr,
    clock: Clock,
    author: Author,
    (round, pause): (u64, Duration),
    is_over: &AtomicBool,
) -> Vec<SentEvent> {
    let keys = Keys::from_secret([author; 32]).unwrap();
    let (mut sent, mut in_flight) = (Vec::<SentEvent>::new(), 0);
    let Some(mut socket) = connect(addr) else { return sent };
    for number in 0_u64.. {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        let created_at = 1_700_000_000 + round * 1000 + number / ALIKE;
        let tags = vec![Tag(vec!["r".to_owned(), format!("{round}/{number}")])];
        let event = UnsignedEvent { created_at: Timestamp(created_at), kind: Kind(1), tags, content: String::new() };
        let event = event.sign(&keys);
        let (id, text) = (event.id.0.to_lower_hex_string(), event.to_json());
        sent.push((id, Sent { event: 0, author, created_at, at: clock.now(), acknowledged: None }));
        if socket.send(Message::text(format!("[\"EVENT\",{text}]"))).is_err() {
            break;
        }
        in_flight += 1;
        while in_flight == IN_FLIGHT {
            let Ok(message) = socket.read() else { return sent };
            let Message::Text(text) = message else { continue };
            let answer: Value = serde_json::from_str(&text).unwrap();
            if answer[0] == "OK" {
                in_flight -= 1;
                if answer[2] == true {
                    let sent = sent.iter_mut().rev().find(|(id, _)| answer[1] == **id).unwrap();
                    sent.1.acknowledged = Some(clock.now());
                } else {
                    // It may be stored: the process that stores events is gone.
                    assert!(answer[3].as_str().unwrap().starts_with("error: "), "{answer}");
                    sleep(REFUSED_PAUSE);
                }
            }
        }
        sleep(pause);
    }
    sent
}

/// Subscribes again and again until the relay is gone.
fn read(addr: SocketAddr, clock: Clock, (mut rng, whole_per_mille): (Rng, u64), is_over: &AtomicBool) -> Vec<Read> {
    let mut all = Vec::new();
    let Some(mut socket) = connect(addr) else { return all };
    while !is_over.load(Ordering::Relaxed) {
        let all_authors = rng.per_mille(500);
        let authors: Vec<Author> = (1..=AUTHORS).filter(|_| all_authors || rng.per_mille(500)).collect();
        if authors.is_empty() {
            continue;
        }
        let limit = (!rng.per_mille(whole_per_mille)).then(|| 1 + usize::try_from(rng.below(50)).unwrap());
        let (one, went) = subscribe(&mut socket, clock, authors, limit, Duration::from_millis(rng.below(2500)));
        all.extend(one);
        if went {
            break;
        }
    }
    all
}

/// Subscribes, and listens for a while after EOSE. Returns what came, and whether the relay is gone.
fn subscribe(
    socket: &mut WebSocket<TcpStream>,
    clock: Clock,
    authors: Vec<Author>,
    limit: Option<usize>,
    listen: Duration,
) -> (Option<Read>, bool) {
    let keys = authors.iter().map(|author| Keys::from_secret([*author; 32]).unwrap().pubkey().0.to_lower_hex_string());
    let mut filter = json!({ "authors": keys.collect::<Vec<_>>() });
    if let Some(limit) = limit {
        filter["limit"] = limit.into();
    }
    let begun = clock.now();
    let mut one =
        Subscription { authors: authors.into_iter().collect(), limit, begun, ended: begun, ..Default::default() };
    // A name of its own, so that no late event of another subscription is taken for one of this.
    let name = format!("s{}", one.begun);
    let mut ids = Vec::new();
    if socket.send(Message::text(json!(["REQ", name, filter]).to_string())).is_err() {
        return (None, true);
    }
    let listen = Micros::try_from(listen.as_micros()).unwrap();
    socket.get_ref().set_read_timeout(Some(LOOK)).unwrap();
    loop {
        let asked = clock.now();
        let text = match socket.read() {
            Ok(Message::Text(text)) => text,
            Ok(_) => continue,
            Err(Error::Io(error)) if error.kind() == std::io::ErrorKind::WouldBlock => {
                // Everything that had come by then is read. A later moment would be wrong of a thread that the machine
                // has held up, with events waiting in its socket.
                one.ended = asked;
                if one.eose.is_some_and(|eose| one.ended > eose + listen) {
                    let _ = socket.send(Message::text(json!(["CLOSE", name]).to_string()));
                    return (Some((one, ids)), false);
                }
                continue;
            }
            Err(_) => return (Some((one, ids)), true),
        };
        let message: Value = serde_json::from_str(&text).unwrap();
        match message[0].as_str().unwrap() {
            "EVENT" if message[1] == name => {
                let seen = Seen { event: 0, at: clock.now() };
                if one.eose.is_some() {
                    one.live.push(seen);
                } else {
                    one.stored.push(seen);
                }
                ids.push(message[2]["id"].as_str().unwrap().to_owned());
            }
            "EOSE" if message[1] == name => one.eose = Some(clock.now()),
            "CLOSED" | "NOTICE" => panic!("{message}"),
            _ => {}
        }
    }
}
