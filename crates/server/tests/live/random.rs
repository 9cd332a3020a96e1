//! A long random run of blocks, reorgs, replacements, packages and evictions. After every step the answers about every
//! touched script equal the naive model's. At some steps peers are asked too; their faults are listed.

use std::collections::BTreeMap;
use std::time::Duration;

use birdhouse_testkit::Options;
use birdhouse_testkit::asked::{Asked, Scripts, about, agrees, changed};
use birdhouse_testkit::live::{LiveNode, Made, Move};
use birdhouse_testkit::peers::{Electrs, ElectrumX, part};
use birdhouse_testkit::rng::Rng;

use crate::birds::{PATIENCE, Server, World};

/// Time for a peer, which polls the node at most ten times a second and scans.
const PEER_PATIENCE: Duration = Duration::from_mins(1);
/// Most moves of one step.
const MOVES_MAX: u64 = 8;
/// Untouched scripts requested at every step; at the end all are.
const UNTOUCHED: usize = 40;
const TRIES: usize = 10;

/// A mempool of one megabyte, with expiry after an hour.
fn options() -> Options {
    let small = ["-maxmempool=1", "-limitclustersize=25", "-mempoolexpiry=1"];
    small.into_iter().fold(Options::default().with_indexes(), Options::arg)
}

struct Run {
    seed: u64,
    rng: Rng,
    world: World,
    peers: Vec<Server>,
    /// The model's answers when the peers were last asked.
    asked_of_peers: Scripts,
    /// Length of the longest chain after a move so far.
    height_max: u32,
    made: BTreeMap<(Move, bool), u32>,
    /// The longest time of a server.
    slowest: BTreeMap<&'static str, Duration>,
}

impl Run {
    fn start(seed: u64) -> Self {
        println!("seed {seed}");
        let world = World::start(seed, options());
        let peers = peers(&world.live);
        Self {
            seed,
            rng: Rng::new(seed ^ 0x5eed),
            world,
            peers,
            asked_of_peers: Scripts::new(),
            height_max: 0,
            made: BTreeMap::new(),
            slowest: BTreeMap::new(),
        }
    }

    /// Makes every kind of move once, then random ones; asks peers at intervals.
    fn go(&mut self, steps: usize, ask_peers_every: usize) {
        for (step, what) in (0..).zip(Move::ALL) {
            let before = self.world.live.ledger().scripts();
            self.make(Move::Pay);
            self.make(what);
            self.check(&before, &format!("{what:?}"));
            if step % ask_peers_every == 0 {
                self.check_peers(&format!("{what:?}"));
            }
        }
        for step in 0..steps {
            let before = self.world.live.ledger().scripts();
            let mut moves = Vec::new();
            for _ in 0..=self.rng.below(MOVES_MAX) {
                let (what, made) = self.world.live.random_move().unwrap();
                self.count(what, &made);
                moves.push((what, made));
            }
            let context = format!("step {step}: {moves:?}");
            self.check(&before, &context);
            if step % ask_peers_every == 0 {
                self.check_peers(&context);
            }
        }
        self.check_everything();
    }

    /// Repeats a move until it succeeds: random parts may not fit.
    fn make(&mut self, what: Move) {
        for _ in 0..TRIES {
            let made = self.world.live.make(what).unwrap();
            self.count(what, &made);
            if made == Made::Yes {
                return;
            }
        }
    }

    fn count(&mut self, what: Move, made: &Made) {
        self.height_max = self.height_max.max(self.world.live.ledger().height());
        *self.made.entry((what, *made == Made::Yes)).or_default() += 1;
    }

    fn check(&mut self, before: &Scripts, context: &str) {
        let context = format!("seed {}, {context}", self.seed);
        let now = self.world.live.ledger().scripts();
        let mut scripts = changed(before, &now);
        let start = self.rng.index(now.len());
        scripts.extend(now.iter().skip(start).take(UNTOUCHED).map(|(script, facts)| (script.clone(), facts.clone())));
        let asked = about(&scripts);
        for bird in &self.world.birds {
            let took = bird.agrees(&asked, PATIENCE, &context);
            note(&mut self.slowest, bird.name, took);
        }
    }

    fn check_peers(&mut self, context: &str) {
        let now = self.outgrow();
        let asked = about(&changed(&self.asked_of_peers, &now));
        self.ask_peers(&asked, &format!("seed {}, {context}", self.seed));
        self.asked_of_peers = now;
    }

    /// Lists a peer that does not agree with the model, and asks it nothing more.
    fn ask_peers(&mut self, asked: &[Asked], context: &str) {
        let slowest = &mut self.slowest;
        self.peers.retain(|peer| match agrees(&peer.peer, asked, PEER_PATIENCE) {
            Ok(took) => {
                note(slowest, peer.name, took);
                true
            }
            Err(error) => {
                part::fault(peer.name, &format!("{context}: {error}"));
                false
            }
        });
    }

    /// `ElectrumX` follows another branch only once that is longer than its own.
    fn outgrow(&mut self) -> Scripts {
        let live = &mut self.world.live;
        while live.ledger().height() <= self.height_max {
            live.mine_empty(1).unwrap();
        }
        live.ledger().scripts()
    }

    fn check_everything(&mut self) {
        let now = self.outgrow();
        let asked = about(&now);
        let context = format!("seed {}, at the end", self.seed);
        for bird in &self.world.birds {
            bird.agrees(&asked, PEER_PATIENCE, &context);
        }
        self.ask_peers(&asked, &context);
        println!("{} scripts, {} answers each server; moves: {:?}", now.len(), asked.len(), self.made);
        println!("longest until all answers were right: {:?}", self.slowest);
    }

    /// Proves that every kind of event happened in the run.
    fn assert_all_happened(&self) {
        for what in Move::ALL {
            assert!(
                self.made.contains_key(&(what, true)),
                "seed {}: {what:?} never happened: {:?}",
                self.seed,
                self.made
            );
        }
    }
}

fn note(slowest: &mut BTreeMap<&'static str, Duration>, name: &'static str, took: Duration) {
    let slowest = slowest.entry(name).or_default();
    *slowest = took.max(*slowest);
}

/// Returns the peers that take part. A name is the one of `TEST_PEERS`.
fn peers(live: &LiveNode) -> Vec<Server> {
    let node = live.node();
    let started = [
        (part::ELECTRUMX, part::start_if_asked(part::ELECTRUMX, || ElectrumX::start(node))),
        (part::ELECTRS, part::start_if_asked(part::ELECTRS, || Electrs::start(node))),
    ];
    started.into_iter().filter_map(|(name, peer)| peer.map(|peer| Server { name, peer })).collect()
}

#[test]
fn answers_equal_the_model_while_chain_and_mempool_move() {
    let mut run = Run::start(31);
    run.go(25, 5);
    run.assert_all_happened();
}
