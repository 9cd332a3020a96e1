//! Streams between a server and twenty stand-ins for other relays, which replay signed events at 500 a second, of which
//! each comes from five of them. After a quiet time cables are pulled, both ends are killed, and the settings are read
//! again and again. A checker that knows none of the server's code then compares what everybody has.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::relay_history::Seen;
use birdhouse_testkit::rng::{Rng, number};
use birdhouse_testkit::stream_history::{Cut, Fault, Findings, History, Passes, Peer, check};
use birdhouse_testkit::usage::{Usage, own_cpu};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio_tungstenite::tungstenite::Message;

use super::Home;
use super::bird::Bird;
use super::memory::{BOUNDED_OF_RELAY, Sample};
use super::relay::connect;
use super::stand_in::{Comparing, Notes, StandIn, own_address};
use super::stream_clients::{COPIES, Listener, Publisher, Replay, lags};

pub(super) const STAND_INS: usize = 20;
/// Stand-ins of which the last ones have a stream in both directions, and up.
const DOWN: usize = 14;
pub(super) const UP: usize = 2;
/// The last of those down, which know no NIP-77.
const WITHOUT_NEGENTROPY: usize = 2;
/// Kind of the events. Filters name others beside it.
pub(super) const KIND: u16 = 1;
/// Time in which two messages cross each other on a busy machine.
const CROSSING: Duration = Duration::from_secs(1);
/// Time until everybody has everything at the end.
const PATIENCE: Duration = Duration::from_mins(10);

/// Volume of a run.
#[derive(Debug, Clone, Copy)]
struct Volume {
    /// Time without faults, in which processor time, lag and memory are measured.
    quiet: Duration,
    /// Time with faults.
    stormy: Duration,
    /// Longest time for which a cable is pulled.
    cut_max: Duration,
    /// Reloads of the settings.
    reloads: u32,
    /// Kills of the server.
    kills: u32,
}

#[test]
fn streams_lose_nothing_and_send_nothing_back() {
    let volume = Volume {
        quiet: Duration::from_secs(3),
        stormy: Duration::from_secs(7),
        cut_max: Duration::from_secs(2),
        reloads: 10,
        kills: 2,
    };
    run(1, volume);
}

/// Takes `BIRDHOUSE_MINUTES`, of which a third is quiet. `BIRDHOUSE_SEED` decides about the faults.
#[test]
#[ignore = "as long as BIRDHOUSE_MINUTES says"]
fn streams_lose_nothing_for_a_long_time() {
    let minutes = number("BIRDHOUSE_MINUTES").unwrap_or(10);
    let all = Duration::from_mins(minutes);
    let volume = Volume {
        quiet: all / 3,
        stormy: all * 2 / 3,
        cut_max: Duration::from_mins(2).min(all / 5),
        reloads: u32::try_from(10 * minutes).unwrap(),
        kills: u32::try_from(minutes).unwrap(),
    };
    run(number("BIRDHOUSE_SEED").unwrap_or(1), volume);
}

/// Takes `BIRDHOUSE_MINUTES`, without a fault, and prints the memory at each. It grows until as many ids are kept of
/// each stand-in as may be.
#[test]
#[ignore = "as long as BIRDHOUSE_MINUTES says"]
fn streams_without_a_fault_for_a_long_time() {
    let quiet = Duration::from_mins(number("BIRDHOUSE_MINUTES").unwrap_or(15));
    let volume = Volume { quiet, stormy: Duration::ZERO, cut_max: Duration::ZERO, reloads: 0, kills: 0 };
    run(number("BIRDHOUSE_SEED").unwrap_or(1), volume);
}

fn run(seed: u64, volume: Volume) {
    println!("seed {seed}");
    let mut world = World::start(seed);
    let is_over = AtomicBool::new(false);
    scope(|scope| {
        let (replay, publisher, listener) = (&world.replay, &world.publisher, &world.listener);
        scope.spawn(|| replay.run(seed, &is_over));
        scope.spawn(|| publisher.run(&is_over));
        scope.spawn(|| listener.run(&is_over));
        let _end = End(&is_over);
        world.faults.quiet(volume.quiet, replay, listener);
        world.faults.storm(seed, volume);
    });
    world.settle(seed);
}

/// Ends the clients when it is dropped, also by a failure.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Everything that takes part.
struct World {
    replay: Replay,
    publisher: Publisher,
    listener: Listener,
    faults: Faults,
    /// The stand-ins' threads; dropped last.
    _runtime: Runtime,
}

// === impl World ===

impl World {
    fn start(seed: u64) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let clock = Instant::now();
        let stand_ins: Vec<Arc<StandIn>> = (0..STAND_INS)
            .map(|number| {
                let passes = match number {
                    _ if number < DOWN => Passes::Down,
                    _ if number >= STAND_INS - UP => Passes::Up,
                    _ => Passes::Both,
                };
                let without = (DOWN - WITHOUT_NEGENTROPY..DOWN).contains(&number);
                let comparing = if without { Comparing::Unknown } else { Comparing::Negentropy };
                runtime.block_on(StandIn::start(passes, comparing, clock))
            })
            .collect();
        let addr = SocketAddr::from((own_address(1), free_port().unwrap()));
        let ops_addr = SocketAddr::from((own_address(1), free_port().unwrap()));
        let home = Home::of_relay(&[format!("--relay-addr={addr}"), format!("--ops-addr={ops_addr}")]);
        let config = home.dir.path().join("birdhouse.toml");
        let home = home.arg(&format!("--config={}", config.display()));
        let mut faults = Faults {
            home,
            addr,
            ops_addr,
            bird: None,
            stand_ins: stand_ins.clone(),
            kinds: vec![2; STAND_INS],
            counts: Counts::default(),
            started: clock,
            memory: Memory { began: clock, minutes: Vec::new() },
        };
        faults.configure();
        faults.start_server();
        faults.wait_until_all_live();
        let replay = Replay { stand_ins, clock, first: Mutex::default(), offered: AtomicU32::new(0) };
        let publisher = Publisher { addr, prefix: format!("{seed}"), accepted: Mutex::default() };
        let listener = Listener { addr, clock, seen: Mutex::default() };
        Self { replay, publisher, listener, faults, _runtime: runtime }
    }

    /// Waits until everybody has everything, and checks the history.
    fn settle(&mut self, seed: u64) {
        self.faults.mend_all();
        let began = Instant::now();
        let mut pause = Duration::from_millis(500);
        while began.elapsed() < PATIENCE && !is_whole(&check(&self.history())) {
            sleep(pause);
            pause = (pause * 3 / 2).min(Duration::from_secs(10));
        }
        let took = began.elapsed();
        // Nothing is sent back afterwards, either.
        sleep(Duration::from_secs(1));
        let history = self.history();
        let findings = check(&history);
        self.report(&findings, took);
        print_echoes(&history, &findings);
        let shown: Vec<&Fault> = findings.faults.iter().take(20).collect();
        let log = self.faults.home.log();
        assert!(shown.is_empty(), "seed {seed}: {} faults: {shown:?}\n{log}", findings.faults.len());
        assert!(!log.contains("panicked"), "{log}");
    }

    fn history(&self) -> History {
        let numbers = |ids: BTreeSet<String>| ids.iter().map(|id| number_of(id)).collect();
        History {
            peers: self.replay.stand_ins.iter().map(|stand_in| peer(stand_in)).collect(),
            published: numbers(self.publisher.accepted.lock().clone()),
            has: numbers(self.faults.stored()),
            crossing: micros(CROSSING),
        }
    }

    fn report(&self, findings: &Findings, took: Duration) {
        let Counts { kills, stand_in_kills, cuts, longest_cut, reloads, .. } = self.faults.counts;
        let Findings { faults, expected, repeated, crossed } = findings;
        let count = |is_meant: fn(&Fault) -> bool| faults.iter().filter(|fault| is_meant(fault)).count();
        let missing = count(|fault| matches!(fault, Fault::MissingHere(_) | Fault::MissingThere(..)));
        let (echoed, foreign) =
            (count(|fault| matches!(fault, Fault::Echo(..))), count(|fault| matches!(fault, Fault::Foreign(_))));
        let notes: Vec<Notes> = self.replay.stand_ins.iter().map(|stand_in| stand_in.notes()).collect();
        let (came, connections) = (
            notes.iter().map(|notes| notes.came.len()).sum::<usize>(),
            notes.iter().map(|n| n.connections).sum::<u64>(),
        );
        println!(
            "{} events offered by stand-ins, {} published here, {came} sent to stand-ins, over {connections} connections",
            self.replay.offered.load(Ordering::Relaxed),
            self.publisher.accepted.lock().len(),
        );
        println!(
            "{kills} kills of the server, {stand_in_kills} of stand-ins, {cuts} cables pulled (the longest for {:.1} s), \
             {reloads} reloads",
            longest_cut.as_secs_f64(),
        );
        println!(
            "{missing} missing of {expected}, {echoed} echoed, {foreign} foreign; {crossed} crossed, {repeated} sent \
             again; whole {:.1} s after the last fault",
            took.as_secs_f64(),
        );
        self.faults.memory.print();
    }
}

/// Prints the times of events that were sent back.
fn print_echoes(history: &History, findings: &Findings) {
    for fault in &findings.faults {
        let Fault::Echo(event, number) = *fault else { continue };
        let peer = &history.peers[number];
        let (offered, seen) = (peer.offered[&event], peer.came.iter().find(|seen| seen.event == event).unwrap());
        let is_near = |cut: &&Cut| cut.from < seen.at && cut.to > offered.saturating_sub(micros(PATIENCE) / 10);
        let cuts: Vec<&Cut> = peer.cuts.iter().filter(is_near).collect();
        println!("{event:016x} was offered by s{number} at {offered} us, and sent back at {} us; {cuts:?}", seen.at);
    }
}

fn is_whole(findings: &Findings) -> bool {
    !findings.faults.iter().any(|fault| matches!(fault, Fault::MissingHere(_) | Fault::MissingThere(..)))
}

pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}

/// The first quarter of an id: no two of some hundred thousand have the same.
fn number_of(id: &str) -> u64 {
    u64::from_str_radix(&id[..16], 16).unwrap()
}

fn peer(stand_in: &StandIn) -> Peer {
    let Notes { own, offered, came, cuts, .. } = stand_in.notes();
    Peer {
        passes: stand_in.passes,
        own: own.iter().map(|id| number_of(id)).collect(),
        offered: offered.iter().map(|(id, at)| (number_of(id), *at)).collect(),
        came: came.iter().map(|(id, at)| Seen { event: number_of(id), at: *at }).collect(),
        has: stand_in.has().iter().map(|id| number_of(id)).collect(),
        cuts: cuts.iter().map(|(from, to)| Cut { from: *from, to: *to }).collect(),
    }
}

/// The server, the stand-ins, and what happens to them.
struct Faults {
    home: Home,
    addr: SocketAddr,
    /// Address of its metrics.
    ops_addr: SocketAddr,
    bird: Option<Bird>,
    stand_ins: Vec<Arc<StandIn>>,
    /// The kind that the filter of each stream names beside that of the events.
    kinds: Vec<u16>,
    counts: Counts,
    /// Time of the server's last start.
    started: Instant,
    memory: Memory,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    kills: u32,
    stand_in_kills: u32,
    cuts: u32,
    longest_cut: Duration,
    reloads: u32,
}

/// The server's memory at each minute.
struct Memory {
    began: Instant,
    minutes: Vec<Minute>,
}

struct Minute {
    sample: Sample,
    /// Age of the server.
    age: Duration,
}

impl Memory {
    /// Notes the memory of a server once a minute.
    fn look(&mut self, ops_addr: SocketAddr, pid: u32, started: Instant) {
        if self.began.elapsed().as_secs() / 60 > self.minutes.len() as u64 {
            let sample = Sample::take(&ops_addr.to_string(), pid, &BOUNDED_OF_RELAY);
            self.minutes.push(Minute { sample, age: started.elapsed() });
        }
    }

    fn print(&self) {
        println!("memory at each minute, KiB: without mapped files; in use; of these {BOUNDED_OF_RELAY:?}; the rest");
        for (number, Minute { sample, age }) in self.minutes.iter().enumerate() {
            let bounded: Vec<u64> = sample.bounded.iter().map(|bytes| bytes / 1024).collect();
            println!(
                "{}: {}; {}; {bounded:?}; {} (server {} s old)",
                number + 1,
                sample.own / 1024,
                sample.allocated / 1024,
                sample.rest() / 1024,
                age.as_secs(),
            );
        }
    }
}

impl Faults {
    /// Writes the settings.
    fn configure(&self) {
        let mut text = String::new();
        for (number, stand_in) in self.stand_ins.iter().enumerate() {
            let dir = match stand_in.passes {
                Passes::Down => "down",
                Passes::Up => "up",
                Passes::Both => "both",
            };
            let (addr, other) = (stand_in.addr, self.kinds[number]);
            writeln!(text, "[[stream]]\nname = 's{number}'\nurls = 'ws://{addr}'\ndir = '{dir}'").unwrap();
            writeln!(text, "filter = '{{\"kinds\":[{KIND},{other}]}}'").unwrap();
        }
        fs::write(self.home.dir.path().join("birdhouse.toml"), text).unwrap();
    }

    /// Starts the server, and waits until it takes signals.
    fn start_server(&mut self) {
        let from = self.home.log().len();
        self.bird = Some(self.home.start("run"));
        self.started = Instant::now();
        self.home.wait_for_log(from, "serving the relay addr=");
    }

    fn streams(&self) -> Vec<Value> {
        let (_, said) = self.home.output("ctl", &["--json", "status"]);
        // Warnings follow.
        let status = serde_json::Deserializer::from_str(&said).into_iter::<Value>().next().and_then(Result::ok);
        status.and_then(|status| status["streams"].as_array().cloned()).unwrap_or_default()
    }

    fn wait_until_all_live(&self) {
        let are_live = || {
            let streams = self.streams();
            streams.len() == STAND_INS && streams.iter().all(|stream| stream["state"] == "live")
        };
        self.home.wait_until("all streams are live", are_live);
    }

    /// Returns the ids of the events of the server.
    fn stored(&self) -> BTreeSet<String> {
        let mut socket = connect(self.addr).unwrap();
        socket.send(Message::text(json!(["REQ", "all", {}]).to_string())).unwrap();
        let mut ids = BTreeSet::new();
        loop {
            let Message::Text(text) = socket.read().unwrap() else { continue };
            if text.starts_with("[\"EOSE\"") {
                return ids;
            }
            if let Some(id) = text.split("\"id\":\"").nth(1) {
                ids.insert(id[..64].to_owned());
            }
        }
    }

    /// Lets everything pass for a time, and prints the cost.
    fn quiet(&mut self, time: Duration, replay: &Replay, listener: &Listener) {
        let pid = self.bird.as_ref().unwrap().pid();
        // Connections and the first events.
        let begin = Instant::now();
        while begin.elapsed() < time / 4 {
            sleep(Duration::from_millis(250));
            self.memory.look(self.ops_addr, pid, self.started);
        }
        let (began, of_server, of_stand_ins) = (Instant::now(), Usage::of(pid).unwrap(), own_cpu());
        let (from, offered) = (micros(replay.clock.elapsed()), replay.offered.load(Ordering::Relaxed));
        let mut memory = Vec::new();
        while began.elapsed() < time * 3 / 4 {
            sleep(Duration::from_millis(250));
            memory.push(Usage::of(pid).unwrap().own_bytes / 1024);
            self.memory.look(self.ops_addr, pid, self.started);
        }
        let (took, of_server) = (began.elapsed(), Usage::of(pid).unwrap().cpu.saturating_sub(of_server.cpu));
        let (to, offered) = (micros(replay.clock.elapsed()), replay.offered.load(Ordering::Relaxed) - offered);
        // What came last is under way.
        sleep(Duration::from_secs(1));
        let lags = || lags(&replay.first.lock(), &listener.seen.lock(), from, to);
        // On a busy machine more of it is.
        self.home.wait_until("events come", || lags().len() as u64 * u64::from(COPIES) * 2 > u64::from(offered));
        let lags = lags();
        let of_stand_ins = own_cpu().saturating_sub(of_stand_ins);
        println!(
            "{offered} events offered in {:.1} s; processor time {:.1} s, {:.0} us an event, of stand-ins and clients \
             {:.1} s",
            took.as_secs_f64(),
            of_server.as_secs_f64(),
            of_server.as_secs_f64() * 1e6 / f64::from(offered),
            of_stand_ins.as_secs_f64(),
        );
        let at = |share: usize| lags.get((lags.len() * share / 1000).min(lags.len().saturating_sub(1))).copied();
        println!(
            "{} lags, ms: median {:?}, 99 % {:?}, longest {:?}",
            lags.len(),
            at(500).map(|lag| lag / 1000),
            at(990).map(|lag| lag / 1000),
            at(1000).map(|lag| lag / 1000)
        );
        let quarters: Vec<u64> = memory.chunks(memory.len().div_ceil(4)).map(median).collect();
        println!("memory without mapped files, KiB, by quarters: {quarters:?}");
    }

    /// Breaks things at random, and mends them after a time.
    fn storm(&mut self, seed: u64, volume: Volume) {
        let mut rng = Rng::new(seed ^ 0x7374_6f72);
        let began = Instant::now();
        let mut ends: Vec<(Instant, usize, Mend)> = Vec::new();
        while began.elapsed() < volume.stormy {
            let share = began.elapsed().as_secs_f64() / volume.stormy.as_secs_f64();
            if f64::from(self.counts.kills) < share * f64::from(volume.kills) {
                self.kill_server(&mut rng);
            }
            if f64::from(self.counts.reloads) < share * f64::from(volume.reloads) {
                self.reload(&mut rng);
            }
            self.memory.look(self.ops_addr, self.bird.as_ref().unwrap().pid(), self.started);
            let number = rng.index(STAND_INS);
            if ends.len() < STAND_INS / 2 && ends.iter().all(|(_, other, _)| *other != number) {
                let longest = if rng.below(4) == 0 { volume.cut_max } else { volume.cut_max / 10 };
                let time = Duration::from_micros(rng.below(micros(longest)));
                ends.push((Instant::now() + time, number, self.break_one(&mut rng, number, time)));
            }
            for (_, number, mend) in ends.extract_if(.., |(at, ..)| *at <= Instant::now()) {
                self.mend(number, mend);
            }
            sleep(Duration::from_millis(20 + rng.below(300)));
        }
        while self.counts.reloads < volume.reloads {
            self.reload(&mut rng);
            sleep(Duration::from_millis(100));
        }
    }

    fn break_one(&mut self, rng: &mut Rng, number: usize, time: Duration) -> Mend {
        let stand_in = &self.stand_ins[number];
        if rng.below(3) == 0 {
            stand_in.kill();
            self.counts.stand_in_kills += 1;
            return Mend::Start;
        }
        stand_in.pull_cable();
        self.counts.cuts += 1;
        self.counts.longest_cut = self.counts.longest_cut.max(time);
        // A router may have forgotten the connections meanwhile.
        if rng.below(2) == 0 { Mend::Plug } else { Mend::PlugAndReset }
    }

    fn mend(&self, number: usize, mend: Mend) {
        let stand_in = &self.stand_ins[number];
        match mend {
            Mend::Start => stand_in.start_again(),
            Mend::Plug => stand_in.plug_cable(),
            Mend::PlugAndReset => {
                stand_in.kill();
                stand_in.plug_cable();
                stand_in.start_again();
            }
        }
    }

    fn mend_all(&self) {
        for stand_in in &self.stand_ins {
            stand_in.plug_cable();
            stand_in.start_again();
        }
    }

    fn kill_server(&mut self, rng: &mut Rng) {
        drop(self.bird.take());
        self.counts.kills += 1;
        sleep(Duration::from_millis(rng.below(1000)));
        self.start_server();
    }

    /// Changes the filters of some streams, and has the settings read again.
    fn reload(&mut self, rng: &mut Rng) {
        for _ in 0..=rng.below(3) {
            self.kinds[rng.index(STAND_INS)] = 2 + u16::try_from(rng.below(100)).unwrap();
        }
        self.configure();
        let pid = self.bird.as_ref().unwrap().pid();
        kill(Pid::from_raw(pid.try_into().unwrap()), Signal::SIGHUP).unwrap();
        self.counts.reloads += 1;
    }
}

/// The end of a fault of a stand-in.
#[derive(Debug, Clone, Copy)]
enum Mend {
    Start,
    Plug,
    PlugAndReset,
}

fn median(values: &[u64]) -> u64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values[values.len() / 2]
}
