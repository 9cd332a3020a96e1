//! A relay on a cluster: clients use its front ends while these, the process that stores the events, and nodes of the
//! cluster are killed and paused.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use birdhouse_cassandra::{Cassandra, NodeNumber, clock_library, report_skipped};
use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent, VerifiedEvent};
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::rng::Rng;
use birdhouse_testkit::small_disk::SmallDisk;
use birdhouse_testkit::usage::Usage;
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use super::Home;
use super::bird::Bird;
use super::history::{Clock, Recorded};
use super::relay::connect;

const FRONTS: usize = 3;
/// Time after which every front end has an event that one of them has acknowledged. It is some milliseconds where
/// nothing is killed.
const LAG: Duration = Duration::from_secs(15);
/// Time in which a spare process takes over and is used.
const TAKE_OVER: Duration = Duration::from_secs(20);

/// Seconds by which clocks are apart, size of a disk that becomes full, and the time for which a node has a fault.
const APART_S: i64 = 300;
const DISK_MIB: u64 = 256;
const FAULT: Duration = Duration::from_secs(8);

/// Authors of a measurement, the events of each, and those of each that are unanswered at a time.
const MEASURED_AUTHORS: usize = 6;
const MEASURED_EVENTS: usize = 1000;
const MEASURED_IN_FLIGHT: usize = 50;
/// Events of which a measurement of delays takes the times, one after the other.
const MEASURED_DELAYS: usize = 200;

/// A program with its own folder and address for clients.
struct Program {
    home: Home,
    addr: SocketAddr,
    bird: Option<Bird>,
    /// The library of a clock that is wrong.
    clock: Option<PathBuf>,
}

/// A relay on a cluster.
struct World {
    cassandra: Cassandra,
    /// The process that stores the events, and a spare one, by turns.
    writers: [Program; 2],
    fronts: Vec<Program>,
}

impl Program {
    fn new(store: &str, more: &[String]) -> Self {
        let addr = address();
        let args = [&[store.to_owned(), format!("--relay-addr={addr}")], more].concat();
        Self { home: Home::of_relay(&args), addr, bird: None, clock: None }
    }

    fn start(&mut self) {
        let clock = self.clock.iter().flat_map(|clock| ["env".to_owned(), format!("LD_PRELOAD={}", clock.display())]);
        let line: Vec<String> = clock.chain(self.home.command_line("run")).collect();
        self.bird = Some(self.home.spawn(&line));
    }

    fn serves(&self) {
        assert!(connect(self.addr).is_some(), "it does not start: {}", self.home.log());
    }

    fn kill(&mut self) {
        let bird = self.bird.take().unwrap();
        assert_eq!(bird.kill_after(Duration::ZERO), None, "it ended by itself: {}", self.home.log());
    }
}

impl World {
    fn start(nodes: u8, test: &str) -> Option<Self> {
        let Some(cassandra) = Cassandra::start(nodes).unwrap() else {
            report_skipped(test);
            return None;
        };
        let store = format!("--store=cql://{}/birds?replication={nodes}", cassandra.hosts());
        let links = [address(), address()];
        let writers = links.map(|link| Program::new(&store, &[format!("--replicas-addr={link}")]));
        let to = format!("--relay-writer=http://{},http://{}", links[0], links[1]);
        let front = || Program::new(&store, &["--role=front".to_owned(), to.clone()]);
        let mut world = Self { cassandra, writers, fronts: (0..FRONTS).map(|_| front()).collect() };
        world.writers[0].start();
        world.writers[0].serves();
        world.writers[1].start();
        for front in &mut world.fronts {
            front.start();
        }
        world.fronts.iter().for_each(Program::serves);
        Some(world)
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.fronts.iter().map(|front| front.addr).collect()
    }

    /// Slows a node down, fills its disk, or sets its clock apart, by rounds. Returns the name of the fault; `None` if
    /// this machine cannot make a small disk.
    fn play_fault(&mut self, round: u64, node: NodeNumber) -> Option<&'static str> {
        let cassandra = &mut self.cassandra;
        if round.is_multiple_of(4) {
            let _slow = cassandra.slow_down(node).unwrap();
            sleep(FAULT);
            return Some("a twentieth of the time");
        }
        cassandra.kill(node).unwrap();
        let fault = match round % 4 {
            1 if cassandra.restart_on_small_disk(node, DISK_MIB).unwrap() => {
                let disk = SmallDisk::of(cassandra.pid(node).unwrap(), &cassandra.data_dir(node)).unwrap();
                disk.fill_up_to(0).unwrap();
                sleep(FAULT);
                disk.make_room().unwrap();
                Some("a full disk")
            }
            1 => None,
            2 => {
                cassandra.restart_with_clock(node, -APART_S).unwrap();
                sleep(FAULT);
                Some("a clock behind")
            }
            _ => {
                cassandra.restart_with_clock(node, APART_S).unwrap();
                sleep(FAULT);
                Some("a clock ahead")
            }
        };
        if fault.is_some() {
            cassandra.kill(node).unwrap();
        }
        cassandra.restart_with_clock(node, 0).unwrap();
        fault
    }

    /// Everything that the programs have logged.
    fn log(&self) -> String {
        self.writers.iter().chain(&self.fronts).map(|program| program.home.log()).collect()
    }
}

fn address() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()))
}

#[test]
fn clients_of_front_ends_see_no_fault_while_programs_are_killed() {
    let Some(world) = World::start(1, "a relay on one node of Cassandra") else { return };
    check(world, 2, Killed::Programs);
}

#[test]
#[ignore = "takes minutes: make cluster-test"]
fn clients_of_front_ends_see_no_fault_while_programs_and_nodes_are_killed_and_paused() {
    let Some(world) = World::start(3, "a relay on three nodes of Cassandra") else { return };
    check(world, 4, Killed::ProgramsAndNodes);
}

/// The processes that a test kills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Killed {
    Programs,
    /// Nodes of Cassandra, too, which needs spare ones.
    ProgramsAndNodes,
}

/// Plays rounds of each kind of disturbance, and checks what clients saw.
fn check(mut world: World, rounds: u64, killed: Killed) {
    let (clock, seed) = (Clock(Instant::now()), 0x6672_6f6e);
    let (mut recorded, mut rng) = (Recorded::default(), Rng::new(seed));
    recorded.lag = LAG;
    let (mut active, mut kills, mut number) = (0, 0, 0);
    let mut faults = Vec::new();
    // What the spare process writes after it took over must count, though its clock is behind.
    let clocks = TempDir::new().unwrap();
    world.writers[1].kill();
    world.writers[1].clock = Some(clock_library(clocks.path(), -2 * APART_S).unwrap());
    world.writers[1].start();
    let mut next = || {
        number += 1;
        (seed, number)
    };
    for round in 0..rounds {
        let servers = world.addresses();
        recorded.play(&servers, clock, next(), || sleep(Duration::from_secs(4)));

        let front = usize::try_from(rng.below(FRONTS as u64)).unwrap();
        recorded.play(&servers, clock, next(), || {
            sleep(Duration::from_millis(500 + rng.below(2000)));
            world.fronts[front].kill();
            sleep(Duration::from_secs(2));
        });
        world.fronts[front].start();
        world.fronts[front].serves();

        recorded.play(&servers, clock, next(), || {
            sleep(Duration::from_millis(500 + rng.below(2000)));
            world.writers[active].kill();
            sleep(TAKE_OVER);
        });
        world.writers[active].start();
        active = 1 - active;
        kills += 2;

        if killed == Killed::ProgramsAndNodes {
            let node = usize::try_from(round % 3).unwrap();
            recorded.play(&servers, clock, next(), || {
                sleep(Duration::from_secs(1));
                world.cassandra.kill(node).unwrap();
                sleep(Duration::from_secs(6));
                world.cassandra.restart(node).unwrap();
                world.cassandra.pause((node + 1) % 3).unwrap();
                sleep(Duration::from_secs(6));
                world.cassandra.resume((node + 1) % 3).unwrap();
            });
            kills += 2;
            recorded.play(&servers, clock, next(), || faults.extend(world.play_fault(round, (node + 2) % 3)));
        }
    }
    for front in &world.fronts {
        recorded.read_all(front.addr, clock);
    }
    let acknowledged = recorded.assert_right(&world.log());
    println!(
        "{kills} kills and pauses of programs and nodes, nodes with {faults:?}, one of two writers with a clock that is \
         behind; {acknowledged} acknowledged events, no fault"
    );
    assert!(acknowledged > 1000, "too few events to tell: {acknowledged}");
}

/// Prints figures for `docs/cluster.md`: run with `--ignored --nocapture measure_events`.
#[test]
#[ignore = "a measurement: make cluster-test"]
fn measure_events_through_front_ends() {
    let mut files = Program::new("--relay-search=off", &[]);
    files.start();
    files.serves();
    measure("files", &[&files], &[&files], || Duration::ZERO);
    drop(files);
    let Some(world) = World::start(3, "measurements of a relay on three nodes") else { return };
    let nodes = || {
        let pids = (0..world.cassandra.node_count()).map(|number| world.cassandra.pid(number).unwrap());
        pids.map(|pid| Usage::of(pid).unwrap().cpu).sum()
    };
    let writer = &world.writers[0];
    measure("the process that stores events", &[writer], &[writer], nodes);
    let programs = [writer, &world.fronts[0]];
    measure("a front end", &[&world.fronts[0]], &programs, nodes);
    let fronts: Vec<&Program> = world.fronts.iter().collect();
    let programs: Vec<&Program> = world.fronts.iter().chain([writer]).collect();
    measure("three front ends", &fronts, &programs, nodes);
    measure_delay("a relay that stores events", writer, writer);
    measure_delay("a front end, to a subscriber of another one", &world.fronts[0], &world.fronts[1]);
}

/// Stores events at some servers, and prints the rate and the CPU time an event, of programs and nodes.
fn measure(name: &str, servers: &[&Program], programs: &[&Program], nodes: impl Fn() -> Duration) {
    let cpu = || -> Vec<Duration> {
        let of = |program: &&Program| Usage::of(program.bird.as_ref().unwrap().pid()).unwrap().cpu;
        programs.iter().map(of).collect()
    };
    let (before, nodes_before, began) = (cpu(), nodes(), Instant::now());
    std::thread::scope(|scope| {
        for author in 0..MEASURED_AUTHORS {
            let addr = servers[author % servers.len()].addr;
            scope.spawn(move || store_many(addr, u8::try_from(author + 1).unwrap()));
        }
    });
    let (took, count) = (began.elapsed(), u32::try_from(MEASURED_AUTHORS * MEASURED_EVENTS).unwrap());
    let each: Vec<Duration> =
        cpu().iter().zip(before).map(|(after, before)| after.saturating_sub(before) / count).collect();
    let of_nodes = nodes().saturating_sub(nodes_before) / count;
    println!("{name}: {count} events in {took:?}, CPU time an event: {each:?} of programs, {of_nodes:?} of nodes");
}

/// Stores events, some of them unanswered at a time.
fn store_many(addr: SocketAddr, author: u8) {
    let (keys, mut socket) = (Keys::from_secret([author; 32]).unwrap(), connect(addr).unwrap());
    let mut in_flight = 0;
    let answered = |socket: &mut WebSocket<TcpStream>| loop {
        let Message::Text(text) = socket.read().unwrap() else { continue };
        if text.starts_with("[\"OK\"") {
            assert!(text.contains(",true,"), "{text}");
            break;
        }
    };
    for number in 0..MEASURED_EVENTS {
        let event = note(&keys, &format!("{addr} {number}"));
        socket.send(Message::text(format!("[\"EVENT\",{}]", event.to_json()))).unwrap();
        in_flight += 1;
        if in_flight == MEASURED_IN_FLIGHT {
            answered(&mut socket);
            in_flight -= 1;
        }
    }
    (0..in_flight).for_each(|_| answered(&mut socket));
}

/// Prints the time from an event to its `OK`, and to a subscriber.
fn measure_delay(name: &str, author: &Program, reader: &Program) {
    let (mut author, mut reader) = (connect(author.addr).unwrap(), connect(reader.addr).unwrap());
    let keys = Keys::from_secret([77; 32]).unwrap();
    let filter = format!("[\"REQ\",\"new\",{{\"authors\":[\"{}\"]}}]", keys.pubkey());
    reader.send(Message::text(filter)).unwrap();
    let hear = |socket: &mut WebSocket<TcpStream>, verb: &str| loop {
        if let Message::Text(text) = socket.read().unwrap()
            && text.starts_with(&format!("[\"{verb}\""))
        {
            break;
        }
    };
    hear(&mut reader, "EOSE");
    let (mut to_ok, mut to_reader) = (Vec::new(), Vec::new());
    for number in 0..MEASURED_DELAYS {
        let event = note(&keys, &format!("{name} {number}"));
        let began = Instant::now();
        author.send(Message::text(format!("[\"EVENT\",{}]", event.to_json()))).unwrap();
        hear(&mut author, "OK");
        to_ok.push(began.elapsed());
        hear(&mut reader, "EVENT");
        to_reader.push(began.elapsed());
    }
    for delays in [&mut to_ok, &mut to_reader] {
        delays.sort_unstable();
    }
    let at = |delays: &[Duration], per_cent: usize| delays[delays.len() * per_cent / 100];
    println!(
        "{name}: OK after {:?} (99 %: {:?}), the subscriber has it after {:?} (99 %: {:?})",
        at(&to_ok, 50),
        at(&to_ok, 99),
        at(&to_reader, 50),
        at(&to_reader, 99)
    );
}

fn note(keys: &Keys, content: &str) -> VerifiedEvent {
    let (tags, content) = (vec![Tag(vec!["t".to_owned(), "measured".to_owned()])], content.to_owned());
    UnsignedEvent { created_at: Timestamp(1_700_000_000), kind: Kind(1), tags, content }.sign(keys)
}
