//! A relay on a cluster: clients use its front ends while these, the process that stores the events, and nodes of the
//! cluster are killed and paused.

use std::net::{Ipv4Addr, SocketAddr};
use std::thread::sleep;
use std::time::{Duration, Instant};

use birdhouse_cassandra::{Cassandra, report_skipped};
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::rng::Rng;

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

/// A program with its own folder and address for clients.
struct Program {
    home: Home,
    addr: SocketAddr,
    bird: Option<Bird>,
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
        Self { home: Home::of_relay(&args), addr, bird: None }
    }

    fn start(&mut self) {
        self.bird = Some(self.home.start("run"));
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
    check(world, 2, false);
}

#[test]
#[ignore = "takes minutes: make cluster-test"]
fn clients_of_front_ends_see_no_fault_while_programs_and_nodes_are_killed_and_paused() {
    let Some(world) = World::start(3, "a relay on three nodes of Cassandra") else { return };
    check(world, 4, true);
}

/// Plays rounds of each kind of disturbance, and checks what clients saw.
fn check(mut world: World, rounds: u64, has_spare_nodes: bool) {
    let (clock, seed) = (Clock(Instant::now()), 0x6672_6f6e);
    let (mut recorded, mut rng) = (Recorded::default(), Rng::new(seed));
    recorded.lag = LAG;
    let (mut active, mut kills, mut number) = (0, 0, 0);
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

        if has_spare_nodes {
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
        }
    }
    for front in &world.fronts {
        recorded.read_all(front.addr, clock);
    }
    let acknowledged = recorded.assert_right(&world.log());
    println!("{kills} kills and pauses of programs and nodes, {acknowledged} acknowledged events, no fault");
    assert!(acknowledged > 1000, "too few events to tell: {acknowledged}");
}
