//! Programs on one cluster: an indexer, a spare one and three front ends beside a server that keeps its index in files,
//! while programs and nodes are killed and paused.
//!
//! All of them follow one real node. Every answer about every script is compared with the model, so front ends and the
//! server with files answer alike.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use birdhouse_cassandra::{Cassandra, report_skipped};
use birdhouse_testkit::Options;
use birdhouse_testkit::asked::{Cost, about, agrees, cost};
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::peers::{Birdhouse, Home, Peer};
use birdhouse_testkit::usage::Usage;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Some hundred scripts, one of them with a long history.
const TINY: Size = Size { blocks: 20, block_txs: 6, scripts_per_form: 30, busy: &[10, 300] };
/// Bound for a busy machine on which a node of three has just died.
const PATIENCE: Duration = Duration::from_mins(2);
/// The pause between two looks at a log.
const LOOK: Duration = Duration::from_millis(20);
/// Moves of the chain and the mempool between two comparisons.
const MOVES: usize = 3;
/// Front ends that must answer alike.
const FRONTS: usize = 3;
/// Kills and pauses of nodes in the long test.
const NODES_KILLED: usize = 3;
/// The time for which a majority is cut off: less than that after which the indexer gives up.
const CUT: Duration = Duration::from_secs(5);
/// Requests by which CPU time is measured.
const MEASURED_REQUESTS: usize = 8_000;
/// Requests of wallets about one script, in `asked`.
const REQUESTS_PER_SCRIPT: usize = 5;

/// The programs, the node that they follow, and their cluster.
struct World {
    live: LiveNode,
    cassandra: Cassandra,
    /// A server that keeps its index in files.
    embedded: Peer,
    fronts: Vec<Peer>,
    /// Homes of spare indexers.
    homes: TempDir,
    /// Answers of front ends that were compared.
    answers: usize,
}

impl World {
    /// Starts a cluster of some nodes, the node, an indexer and the other programs; `None` without Cassandra.
    fn start(nodes: u8, size: Size, test: &str) -> Option<(Self, Peer)> {
        let Some(cassandra) = Cassandra::start(nodes).unwrap() else {
            report_skipped(test);
            return None;
        };
        let live = LiveNode::start(5, size, Options::default()).unwrap();
        let embedded = Birdhouse::start_in(live.node(), Home::Temporary, program(), &[]).unwrap();
        let homes = TempDir::new().unwrap();
        let mut world = Self { live, cassandra, embedded, fronts: Vec::new(), homes, answers: 0 };
        let (indexer, took) = timed(|| world.launch("indexer", Home::Temporary));
        println!("{nodes} nodes: an indexer built the index and served it after {took:?}");
        world.fronts = (0..FRONTS).map(|_| world.launch("front", Home::Temporary)).collect();
        Some((world, indexer))
    }

    /// Starts a program with a role and waits until it serves the node's tip.
    fn launch(&self, role: &str, home: Home) -> Peer {
        // A word that CQL reserves is a name like any other.
        let (hosts, copies) = (self.cassandra.hosts(), self.cassandra.hosts().split(',').count());
        let store = format!("--store=cql://{hosts}/order?replication={copies}");
        Birdhouse::start_in(self.live.node(), home, program(), &[&store, &format!("--role={role}")]).unwrap()
    }

    /// Starts a spare indexer, waits until it waits for the lease, and ends the owner with `end`. Returns the spare
    /// when it serves, and the time that this took from `end` on.
    fn take_over(&self, end: impl FnOnce()) -> (Peer, Duration) {
        static SPARES: AtomicU32 = AtomicU32::new(0);
        let home = self.homes.path().join(SPARES.fetch_add(1, Ordering::Relaxed).to_string());
        let log = home.join("birdhouse.log");
        std::thread::scope(|scope| {
            let spare = scope.spawn(|| self.launch("indexer", Home::Folder(home.clone())));
            let is_waiting = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("waiting for the lease"));
            until(is_waiting, "the spare indexer does not wait for the lease");
            let began = Instant::now();
            end();
            (spare.join().unwrap(), began.elapsed())
        })
    }

    /// Cuts nodes off the network: one, then two of three. Returns the number of nodes that were cut off.
    fn cut_nodes_off(&mut self) -> usize {
        let Some(cut) = self.cassandra.cut_off(0).unwrap() else {
            report_skipped("nodes that the network cuts off (needs nft, as root)");
            return 0;
        };
        for step in 0..2 {
            self.step(&format!("node 0 is cut off, {step}"));
        }
        drop(cut);
        self.reorg("node 0 is in the network again");
        let cuts = [0, 2].map(|node| self.cassandra.cut_off(node).unwrap());
        // Nothing can be published now.
        self.live.mine().unwrap();
        std::thread::sleep(CUT);
        drop(cuts);
        self.step("all nodes are in the network again");
        3
    }

    /// Moves chain and mempool, reorgs among the moves, and compares every answer of every server with the model.
    fn step(&mut self, context: &str) {
        self.live.move_and_mine(MOVES).unwrap();
        self.compare(context);
    }

    /// Takes two blocks back, which three others replace.
    fn reorg(&mut self, context: &str) {
        self.live.replace_last(2).unwrap();
        self.compare(context);
    }

    fn compare(&mut self, context: &str) {
        let scripts = self.live.ledger().scripts();
        let asked = about(&scripts);
        let servers =
            [("files", &self.embedded)].into_iter().chain(self.fronts.iter().map(|front| ("front end", front)));
        for (name, server) in servers {
            let took = agrees(server, &asked, PATIENCE).unwrap_or_else(|error| panic!("{context}, {name}: {error}"));
            println!("{context}, {name}: {} answers right after {took:?}", asked.len());
        }
        self.answers += self.fronts.len() * asked.len();
    }

    /// CPU time of all nodes.
    fn cpu_of_nodes(&self) -> Duration {
        let pids = (0..self.cassandra.node_count()).map(|number| self.cassandra.pid(number).unwrap());
        pids.map(|pid| Usage::of(pid).unwrap().cpu).sum()
    }

    /// The number of requests that [`Self::cost`] sends.
    fn requests_of_a_measurement(&self) -> u32 {
        let round = 2 * about(&self.live.ledger().scripts()).len();
        u32::try_from(MEASURED_REQUESTS.next_multiple_of(round)).unwrap()
    }

    fn cost(&self, server: &Peer) -> Cost {
        cost(server, &about(&self.live.ledger().scripts()), MEASURED_REQUESTS, PATIENCE).unwrap()
    }
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_birdhouse"))
}

fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    (work(), began.elapsed())
}

fn signal(peer: &Peer, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(peer.pid()).unwrap()), signal).unwrap();
}

fn until(mut holds: impl FnMut() -> bool, otherwise: &str) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{otherwise}");
        std::thread::sleep(LOOK);
    }
}

#[test]
fn front_ends_answer_as_files_do_and_a_spare_indexer_takes_over() {
    let Some((mut world, indexer)) = World::start(1, TINY, "front ends on a cluster") else { return };
    for step in 0..4 {
        world.step(&format!("step {step}"));
    }
    world.reorg("a reorg");
    let (spare, took) = world.take_over(|| signal(&indexer, Signal::SIGKILL));
    println!("a spare indexer served {took:?} after the first was killed");
    assert!(took < Duration::from_mins(1), "the lease is ten seconds: {took:?}");
    world.step("after the take-over");
    world.reorg("a reorg after the take-over");
    drop(spare);
}

#[test]
#[ignore = "takes minutes: make cluster-test"]
fn front_ends_are_right_while_programs_and_nodes_are_killed_and_paused() {
    let Some((mut world, old)) = World::start(3, TINY, "programs on three nodes") else { return };
    world.step("undisturbed");

    world.cassandra.kill(1).unwrap();
    for step in 0..3 {
        world.step(&format!("node 1 is dead, {step}"));
    }
    world.cassandra.restart(1).unwrap();
    world.reorg("node 1 is back");

    let (new, took) = world.take_over(|| signal(&old, Signal::SIGSTOP));
    println!("a spare indexer served {took:?} after the first was paused");
    world.step("another indexer");
    signal(&old, Signal::SIGCONT);
    world.step("the paused indexer is awake");
    until(|| old.log().unwrap().contains("took over"), "the old indexer does not notice");

    world.cassandra.pause(2).unwrap();
    for step in 0..2 {
        world.step(&format!("node 2 is paused, {step}"));
    }
    // Now everything is cut off from a majority; nothing can be published until one node is back.
    world.cassandra.pause(1).unwrap();
    world.live.mine().unwrap();
    world.cassandra.resume(1).unwrap();
    world.step("a majority is back");
    world.cassandra.resume(2).unwrap();

    let cuts = world.cut_nodes_off();
    signal(&world.fronts[0], Signal::SIGKILL);
    let (front, took) = timed(|| world.launch("front", Home::Temporary));
    println!("a front end served {took:?} after its start");
    world.fronts[0] = front;
    let (third, took) = world.take_over(|| signal(&new, Signal::SIGKILL));
    println!("a spare indexer served {took:?} after the second was killed");
    world.step("after all");
    drop(third);
    println!(
        "{NODES_KILLED} kills and pauses of nodes, {cuts} cuts, 3 kills and pauses of programs; {} answers of front \
         ends right, 0 wrong",
        world.answers
    );
}

/// Prints figures for `docs/cluster.md`: run with `--ignored --nocapture measure`.
#[test]
#[ignore = "a measurement: make cluster-test"]
fn measure_requests_through_front_ends() {
    let Some((world, _indexer)) = World::start(3, TINY, "measurements on three nodes") else { return };
    let Cost { cpu, wall } = world.cost(&world.embedded);
    println!("files: {cpu:?} of CPU time and {wall:?} a request, {REQUESTS_PER_SCRIPT} requests a script");
    for count in 1..=FRONTS {
        let fronts = &world.fronts[..count];
        let (before, began) = (world.cpu_of_nodes(), Instant::now());
        let costs: Vec<Cost> = std::thread::scope(|scope| {
            let asking: Vec<_> = fronts.iter().map(|front| scope.spawn(|| world.cost(front))).collect();
            asking.into_iter().map(|asking| asking.join().unwrap()).collect()
        });
        let (took, fronts) = (began.elapsed(), u32::try_from(count).unwrap());
        let nodes = world.cpu_of_nodes().saturating_sub(before) / (fronts * world.requests_of_a_measurement());
        let cpu = costs.iter().map(|cost| cost.cpu).sum::<Duration>() / fronts;
        let wall = costs.iter().map(|cost| cost.wall).sum::<Duration>() / fronts;
        println!(
            "{count} front ends: {cpu:?} of their CPU time, {nodes:?} of that of the nodes, and {wall:?} a request; all \
             took {took:?}"
        );
        assert!(cpu > Duration::ZERO);
    }
}
