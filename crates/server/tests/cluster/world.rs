//! An indexer, a spare one and three front ends on a cluster, beside a server that keeps its index in files.

use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use birdhouse_cassandra::{Cassandra, report_skipped};
use birdhouse_testkit::Options;
use birdhouse_testkit::asked::{about, agrees};
use birdhouse_testkit::live::LiveNode;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::peers::{Birdhouse, Home, Peer};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

/// Bound for a busy machine on which a node of three has just died.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);
/// The pause between two looks at a log.
const LOOK: Duration = Duration::from_millis(20);
/// Moves of the chain and the mempool between two comparisons.
const MOVES: usize = 3;
/// Front ends that must answer alike.
pub(crate) const FRONTS: usize = 3;

/// The programs, the node that they follow, and their cluster.
pub(crate) struct World {
    pub(crate) live: LiveNode,
    pub(crate) cassandra: Cassandra,
    /// A server that keeps its index in files.
    pub(crate) embedded: Peer,
    pub(crate) fronts: Vec<Peer>,
    /// Homes of spare indexers.
    homes: TempDir,
    /// Answers of front ends that were compared.
    pub(crate) answers: usize,
}

impl World {
    /// Starts a cluster of some nodes, the node, an indexer and the other programs; `None` without Cassandra.
    pub(crate) fn start(nodes: u8, size: Size, test: &str) -> Option<(Self, Peer)> {
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
    pub(crate) fn launch(&self, role: &str, home: Home) -> Peer {
        self.launch_with(role, home, &[])
    }

    /// As [`Self::launch`], with variables of the environment.
    pub(crate) fn launch_with(&self, role: &str, home: Home, envs: &[(String, OsString)]) -> Peer {
        // A word that CQL reserves is a name like any other.
        let (hosts, copies) = (self.cassandra.hosts(), self.cassandra.hosts().split(',').count());
        let (store, role) = (format!("--store=cql://{hosts}/order?replication={copies}"), format!("--role={role}"));
        Birdhouse::start_with(self.live.node(), home, program(), &[&store, &role], envs).unwrap()
    }

    /// Starts a spare indexer, waits until it waits for the lease, and ends the owner with `end`. Returns the spare
    /// when it serves, and the time that this took from `end` on.
    pub(crate) fn take_over(&self, end: impl FnOnce()) -> (Peer, Duration) {
        self.take_over_with(&[], end)
    }

    /// As [`Self::take_over`], with variables of the spare's environment.
    pub(crate) fn take_over_with(&self, envs: &[(String, OsString)], end: impl FnOnce()) -> (Peer, Duration) {
        static SPARES: AtomicU32 = AtomicU32::new(0);
        let home = self.homes.path().join(SPARES.fetch_add(1, Ordering::Relaxed).to_string());
        let log = home.join("birdhouse.log");
        std::thread::scope(|scope| {
            let spare = scope.spawn(|| self.launch_with("indexer", Home::Folder(home.clone()), envs));
            let is_waiting = || std::fs::read_to_string(&log).is_ok_and(|log| log.contains("waiting for the lease"));
            until(is_waiting, "the spare indexer does not wait for the lease");
            let began = Instant::now();
            end();
            (spare.join().unwrap(), began.elapsed())
        })
    }

    /// Moves chain and mempool, reorgs among the moves, and compares every answer of every server with the model.
    pub(crate) fn step(&mut self, context: &str) {
        self.live.move_and_mine(MOVES).unwrap();
        self.compare(context);
    }

    /// Takes two blocks back, which three others replace.
    pub(crate) fn reorg(&mut self, context: &str) {
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
}

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_birdhouse"))
}

pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let began = Instant::now();
    (work(), began.elapsed())
}

pub(crate) fn signal(peer: &Peer, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(peer.pid()).unwrap()), signal).unwrap();
}

pub(crate) fn until(mut holds: impl FnMut() -> bool, otherwise: &str) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < PATIENCE, "{otherwise}");
        std::thread::sleep(LOOK);
    }
}
