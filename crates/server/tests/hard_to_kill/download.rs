//! A node that begins empty, downloads the chain over slow links and prunes by hand, and an index beside it from the
//! first moment on. Both are killed while the chain grows, is reorganised and is pruned, and wallets ask all the while.
//!
//! The node stays in initial download (`-maxtipage=1`), so it forgets nearly everything when it is killed. Its only
//! peer is a twin that keeps every block. Each answer must be that of a naive scan of the twin's blocks up to the tip
//! that the server told, and at the end those of an index beside the twin.

use std::ops::Range;
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use birdhouse_chain::Profile;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::rng::Rng;
use birdhouse_testkit::slow_link::SlowLink;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use serde_json::json;

use super::asking::Asked;
use super::bird::Bird;
use super::pruned::{SMALL_BOUNDS, assert_same_answers};
use super::{Home, grow, rounds};

const TINY: Size = Size { blocks: 5, block_txs: 3, scripts_per_form: 5, busy: &[] };
/// Blocks of the chain when the download begins. A file of the node has some thirty.
const BLOCKS: u32 = 500;
/// Links to the twin, each with a delay of its own, so that blocks arrive out of order.
const LINKS: usize = 3;
/// The longest time that a link takes for an answer. A node has 16 blocks under way on each.
const ROUND_TRIP_MS_MAX: u64 = 700;
/// The deepest reorg for which a pruned node keeps the undo data: it keeps 288 blocks.
const DEPTH_MAX: u32 = 287;
/// The deepest reorg that cannot reach into a pack. A deeper one needs the stale blocks, which a node that is killed
/// forgets.
const UNPACKED_DEPTH_MAX: u32 = 100;
/// Kills of the node, the server or both in a round: of the usual test, and of the long one.
const FEW_KILLS: u32 = 4;
const KILLS: u32 = 8;
/// Wallets that ask all the while.
const WALLETS: u64 = 2;
/// The longest pause between two disturbances.
const PAUSE_MS_MAX: u64 = 400;
const POLL: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_mins(2);

#[test]
fn killed_node_and_index_answer_as_a_twin_from_the_first_block_on() {
    kill_downloads(rounds(1), FEW_KILLS);
}

#[test]
#[ignore = "long: BIRDHOUSE_ROUNDS rounds of eight kills each"]
fn killed_node_and_index_answer_as_a_twin_for_many_rounds() {
    kill_downloads(rounds(63), KILLS);
}

fn kill_downloads(rounds: Range<u64>, kills: u32) {
    let mut done = Done::default();
    for round in rounds {
        let seed = 0x646f_776e + round;
        let began = Instant::now();
        println!("seed {seed}");
        let of_round = disturb(seed, kills);
        println!("  {} s: {of_round:?}", began.elapsed().as_secs());
        done.add(&of_round);
    }
    println!("{} kills in {done:?}", done.kills);
    // A file is deleted only where no late block lies among its old ones, so a round may delete none.
    assert!(done.answers > 0, "{done:?}");
}

/// Counts of what was done.
#[derive(Debug, Default)]
struct Done {
    kills: u32,
    reorgs: u32,
    deep_reorgs: u32,
    prunings: u32,
    /// Scripts whose answers were compared.
    answers: u64,
}

impl Done {
    fn add(&mut self, other: &Self) {
        self.kills += other.kills;
        self.reorgs += other.reorgs;
        self.deep_reorgs += other.deep_reorgs;
        self.prunings += other.prunings;
        self.answers += other.answers;
    }
}

fn disturb(seed: u64, kills: u32) -> Done {
    let mut rng = Rng::new(seed);
    let nodes = Nodes::new(&mut rng);
    let home = Home::new(&nodes.node, Profile::Full).arg(SMALL_BOUNDS[0]).arg(SMALL_BOUNDS[1]);
    let asked = Asked::new(home);
    let mut world = World { rng, nodes, asked: &asked, server: None, done: Done::default() };
    thread::scope(|scope| {
        let _ending = asked.ending();
        for wallet in 0..WALLETS {
            let asked = &asked;
            scope.spawn(move || asked.ask_until_the_end(seed ^ wallet));
        }
        world.begin();
        while world.done.kills < kills / 2 {
            world.step();
        }
        // From here on the node lacks blocks, nearly always.
        world.wait_for_tip();
        world.prune_by_hand();
        while world.done.kills < kills {
            world.step();
        }
        world.wait_for_tip();
    });
    world.prove(&format!("seed {seed}"));
    Done { answers: asked.answers(), ..world.done }
}

/// The nodes and their chain.
struct Nodes {
    chain: ChainBuilder,
    /// Keeps every block.
    twin: Bitcoind,
    links: Vec<SlowLink>,
    /// Downloads from the twin.
    node: Bitcoind,
}

impl Nodes {
    fn new(rng: &mut Rng) -> Self {
        let port = free_port().unwrap();
        let small = Options::default().arg("-fastprune");
        let twin = small.clone().arg("-listen=1").arg(format!("-bind=127.0.0.1:{port}"));
        let twin = Bitcoind::start(twin).unwrap();
        let node = Bitcoind::start(small.arg("-maxtipage=1").arg("-prune=1")).unwrap();
        let mut chain = mix::sample(rng.next_u64(), TINY);
        let more = BLOCKS - chain.height();
        grow(&mut chain, more);
        let mut link = || SlowLink::open(port, Duration::from_millis(rng.below(ROUND_TRIP_MS_MAX))).unwrap();
        let links = (0..LINKS).map(|_| link()).collect();
        Self { chain, twin, links, node }
    }

    /// Connects the node with its peer over every link.
    fn connect(&self) {
        for link in &self.links {
            self.node.connect(link.port()).unwrap();
        }
    }

    fn is_alone(&self) -> bool {
        self.node.rpc("getpeerinfo", json!([])).unwrap().as_array().unwrap().is_empty()
    }

    fn restart_node(&mut self) {
        // Core deletes files before it writes its coins. Killed between the two it never gets ready, and begins anew.
        if let Err(error) = self.node.restart() {
            assert!(error.to_string().contains("Block files have previously been pruned"), "{error}");
            println!("the node has lost its coins: -reindex");
            self.node.restart_once_with("-reindex").unwrap();
        }
        self.connect();
    }

    /// The lowest height from which the node has all blocks.
    fn first_kept(&self) -> u64 {
        self.node.first_kept().unwrap().into()
    }
}

/// An event among which the right answers are asked for.
#[derive(Debug, Clone, Copy)]
enum Disturbance {
    Grow,
    Reorganise,
    ReorganiseDeep,
    Prune,
    KillServer,
    KillNode,
    KillBoth,
}

/// Each as often as it stands here.
const DISTURBANCES: [Disturbance; 10] = {
    use Disturbance::{Grow, KillBoth, KillNode, KillServer, Prune, Reorganise, ReorganiseDeep};
    [Grow, Grow, Reorganise, ReorganiseDeep, Prune, Prune, KillServer, KillServer, KillNode, KillBoth]
};

struct World<'a> {
    rng: Rng,
    nodes: Nodes,
    asked: &'a Asked,
    server: Option<Bird>,
    done: Done,
}

impl World<'_> {
    /// Starts the server beside the empty node, and lets the node meet its peer.
    fn begin(&mut self) {
        self.submit();
        self.start();
        self.nodes.connect();
    }

    fn step(&mut self) {
        if self.rng.per_mille(300) {
            self.wait_for_tip();
        }
        let next = *self.rng.pick(&DISTURBANCES);
        println!("  {next:?}");
        match next {
            Disturbance::Grow => self.grow(),
            Disturbance::Reorganise => self.reorganise(),
            Disturbance::ReorganiseDeep => self.reorganise_deep(),
            Disturbance::Prune => self.prune(),
            Disturbance::KillServer => self.kill_server(),
            Disturbance::KillNode => self.kill_node(),
            Disturbance::KillBoth => self.kill_both(),
        }
        self.pause();
    }

    /// A random moment of somebody's work, not a wait for a condition.
    fn pause(&mut self) {
        sleep(Duration::from_millis(self.rng.below(PAUSE_MS_MAX)));
    }

    fn grow(&mut self) {
        let more = 1 + self.rng.below_u32(40);
        grow(&mut self.nodes.chain, more);
        self.submit();
    }

    fn reorganise(&mut self) {
        let depth = 1 + self.rng.below_u32(UNPACKED_DEPTH_MAX);
        self.reorganise_by(depth);
    }

    /// Makes a longer branch that leaves the chain this many blocks below its tip.
    fn reorganise_by(&mut self, depth: u32) {
        let chain = &mut self.nodes.chain;
        chain.rollback_to(chain.height() - depth);
        grow(chain, depth + 1 + self.rng.below_u32(3));
        self.submit();
        self.done.reorgs += 1;
    }

    /// Makes a reorg that may reach into a pack, while only the server is killed.
    fn reorganise_deep(&mut self) {
        self.wait_for_tip();
        let depth = UNPACKED_DEPTH_MAX + 1 + self.rng.below_u32(DEPTH_MAX - UNPACKED_DEPTH_MAX);
        self.reorganise_by(depth);
        self.done.deep_reorgs += 1;
        if self.rng.per_mille(500) {
            self.pause();
            self.kill_server();
        }
        self.wait_for_tip();
    }

    fn submit(&self) {
        self.nodes.chain.submit_to(&self.nodes.twin).unwrap();
        self.asked.learn(&self.nodes.twin);
    }

    /// Deletes blocks of the node, by the server or by hand.
    fn prune(&mut self) {
        if self.rng.per_mille(500) {
            return self.prune_by_hand();
        }
        let before = self.nodes.first_kept();
        // It is refused while the server starts, or the node does.
        let keep = format!("--keep={}KB", self.rng.below(300));
        self.asked.home.output("prune", &[&keep, "--yes"]);
        self.count_pruning(before);
    }

    /// Deletes blocks that the index has by a call of the node.
    fn prune_by_hand(&mut self) {
        let before = self.nodes.first_kept();
        if let Some(indexed) = self.asked.home.served_height() {
            // Core refuses a chain that is too short.
            drop(self.nodes.node.rpc("pruneblockchain", json!([indexed])));
        }
        self.count_pruning(before);
    }

    fn count_pruning(&mut self, before: u64) {
        let first = self.nodes.first_kept();
        if first > before {
            println!("    from {before} to {first}");
            self.done.prunings += 1;
        }
    }

    /// Kills the server at some moment, and starts it again.
    fn kill_server(&mut self) {
        self.end_server();
        self.move_meanwhile();
        self.start();
        self.done.kills += 1;
    }

    fn kill_node(&mut self) {
        self.nodes.node.kill9();
        self.move_meanwhile();
        self.nodes.restart_node();
        self.done.kills += 1;
    }

    /// Kills both, and starts them again in some order.
    fn kill_both(&mut self) {
        self.nodes.node.kill9();
        self.end_server();
        self.move_meanwhile();
        if self.rng.per_mille(500) {
            self.start();
            self.pause();
            self.nodes.restart_node();
        } else {
            self.nodes.restart_node();
            self.pause();
            self.start();
        }
        self.done.kills += 1;
    }

    fn move_meanwhile(&mut self) {
        match self.rng.below(4) {
            0 => self.grow(),
            1 => self.reorganise(),
            _ => self.pause(),
        }
    }

    fn start(&mut self) {
        let mut line = self.asked.home.command_line("run");
        line.extend(self.rng.per_mille(300).then(|| "--node-prune-keep=250KB".to_owned()));
        self.asked.starts();
        self.server = Some(self.asked.home.spawn(&line));
    }

    fn end_server(&mut self) {
        let delay = Duration::from_millis(self.rng.below(PAUSE_MS_MAX));
        let ended = self.server.take().and_then(|server| server.kill_after(delay));
        assert_eq!(ended, None, "the server ended by itself: {}", self.asked.home.log());
    }

    /// Waits until node and index have the chain of the twin: after a kill of the node, the index may be ahead of it.
    fn wait_for_tip(&self) {
        let (tip, began) = (self.nodes.chain.tip(), Instant::now());
        while self.nodes.node.tip().unwrap() != tip || self.asked.served_tip() != Some(tip) {
            let said = || {
                let (node, first) = (self.nodes.node.height().unwrap(), self.nodes.first_kept());
                let (all, log) = (self.nodes.chain.height(), self.asked.home.log());
                format!("the node has blocks {first} to {node} of {all}\n{log}")
            };
            assert!(began.elapsed() < PATIENCE, "the server never reaches the tip; {}", said());
            // Core leaves a peer that is slow while it waits for its block.
            if self.nodes.is_alone() {
                self.nodes.connect();
            }
            sleep(POLL);
        }
    }

    /// Proves that every script has the answers that an index beside the twin has.
    fn prove(&mut self, context: &str) {
        self.end_server();
        let log = self.asked.home.log();
        assert!(!log.contains("panicked") && !log.contains("ERROR"), "{context}: {log}");
        assert_same_answers(&self.asked.home, &self.nodes.twin, &self.nodes.chain, context);
    }
}
