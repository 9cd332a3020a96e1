//! One server in use for a long time: wallets ask, the chain moves, the node restarts, authors publish and readers
//! listen. Every answer is right, no event is lost, and memory does not grow.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use birdhouse_testkit::Options;
use birdhouse_testkit::asked::{Scripts, about, agrees, changed};
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::live::{LiveNode, Move};
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::peers::{Birdhouse, Home, Peer};
use birdhouse_testkit::rng::{Rng, number};
use birdhouse_testkit::sequence::SequencePublisher;
use birdhouse_testkit::usage::Usage;

use super::history::{Clock, Pace, Recorded};

/// Events of three authors and subscriptions of three readers: some sixty and two a second.
const PACE: Pace = Pace { pause: Duration::from_millis(50), whole_per_mille: 0 };
/// Time from one step to the next.
const STEP: Duration = Duration::from_secs(1);
/// Most moves of the chain and the mempool in a step.
const MOVES_MAX: u64 = 4;
/// Steps from one disturbance of the node to the next.
const DISTURB_EVERY: u64 = 120;
/// Untouched scripts asked for in every step.
const UNTOUCHED: usize = 100;
const PATIENCE: Duration = Duration::from_mins(1);

/// Memory may be this much more in the last quarter of the time than in the second: the relay's memtable fills and is
/// flushed, and the chain grows.
const GROWTH_MAX: f64 = 1.1;
/// The same, for a server that takes little.
const GROWTH_BYTES_MAX: u64 = 8 << 20;
/// Growth by steps, from the second quarter to the last.
const STEP_MAX: f64 = 1.5;
/// Growth from each quarter to the next that is a leak, and no step.
const STEADY_GROWTH_MIN: f64 = 1.02;

/// Takes `BIRDHOUSE_MINUTES`, at least 24: caches and the memtable fill for some twenty, which looks like a leak.
/// `BIRDHOUSE_SEED` decides about the moves.
#[test]
#[ignore = "as long as BIRDHOUSE_MINUTES says"]
fn server_in_use_for_a_long_time_is_right_in_the_same_memory() {
    use_for(Duration::from_mins(number("BIRDHOUSE_MINUTES").unwrap_or(60)), number("BIRDHOUSE_SEED").unwrap_or(1));
}

fn use_for(time: Duration, seed: u64) {
    println!("seed {seed}");
    let mut world = World::start(seed);
    let (clock, mut recorded) = (Clock(Instant::now()), Recorded::with_pace(PACE));
    let mut memory = Vec::new();
    let (addr, pid) = (world.relay, world.server.pid());
    recorded.play(&[addr], clock, (seed, 0), || {
        for step in 0_u64.. {
            let next = clock.0 + STEP * u32::try_from(step).unwrap();
            sleep(next.saturating_duration_since(Instant::now()));
            if clock.0.elapsed() > time {
                break;
            }
            world.step(step);
            memory.push(Usage::of(pid).unwrap().own_bytes);
        }
    });
    world.agrees(&world.live.ledger().scripts(), "at the end");
    recorded.read_all(addr, clock);
    recorded.assert_right(&world.server.log().unwrap());
    println!(
        "{} steps, {} restarts of the node, height {}",
        memory.len(),
        world.restarts,
        world.live.ledger().height()
    );
    assert_flat(&memory);
}

/// One server, its node, and the publisher of the node's changes. The server is dropped first.
struct World {
    server: Peer,
    publisher: SequencePublisher,
    live: LiveNode,
    relay: SocketAddr,
    rng: Rng,
    restarts: u32,
}

impl World {
    fn start(seed: u64) -> Self {
        // A mempool of one megabyte: it is full at times.
        let options = ["-maxmempool=1", "-limitclustersize=25"].into_iter().fold(Options::default(), Options::arg);
        let live = LiveNode::start(seed, Size::SMALL, options.with_indexes().logging_changes()).unwrap();
        let publisher = SequencePublisher::start(live.node()).unwrap();
        let relay = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap()));
        let args = ["--zmq-sequence-addr", &publisher.address(), "--relay-addr", &relay.to_string()];
        let program = Path::new(env!("CARGO_BIN_EXE_birdhouse"));
        let server = Birdhouse::start_in(live.node(), Home::Temporary, program, &args).unwrap();
        Self { server, publisher, live, relay, rng: Rng::new(seed ^ 0x736f_616b), restarts: 0 }
    }

    /// Moves chain and mempool, or disturbs the node, and asks for every script that it touched and some others.
    fn step(&mut self, step: u64) {
        let before = self.live.ledger().scripts();
        let context = if step % DISTURB_EVERY == DISTURB_EVERY - 1 {
            self.disturb(step / DISTURB_EVERY)
        } else {
            let moves = 1 + self.rng.below(MOVES_MAX);
            format!("{:?}", (0..moves).map(|_| self.live.random_move().unwrap()).collect::<Vec<_>>())
        };
        let now = self.live.ledger().scripts();
        let mut asked = changed(&before, &now);
        let others = now.iter().skip(self.rng.index(now.len())).take(UNTOUCHED);
        asked.extend(others.map(|(script, facts)| (script.clone(), facts.clone())));
        self.agrees(&asked, &format!("step {step}: {context}"));
    }

    /// Restarts the node, kills it, or loses messages of its.
    fn disturb(&mut self, number: u64) -> String {
        match number % 4 {
            0 => self.live.restart().unwrap(),
            1 => {
                let height = self.live.ledger().height();
                self.live.kill_and_restart().unwrap();
                self.live.mine_above(height).unwrap();
            }
            2 => {
                self.publisher.lose(3);
                self.live.make(Move::Pay).unwrap();
                self.live.mine().unwrap();
            }
            _ => {
                self.publisher.disconnect_all();
                self.live.make(Move::Pay).unwrap();
            }
        }
        self.restarts += u32::from(number % 4 < 2);
        format!("disturbance {number}")
    }

    fn agrees(&self, scripts: &Scripts, context: &str) {
        agrees(&self.server, &about(scripts), PATIENCE).unwrap_or_else(|error| panic!("{context}: {error}"));
    }
}

/// Proves that a server takes no more memory in the last quarter of the time than in the second, or that it did not
/// grow from each of them to the next: a leak grows steadily, and what caches and the allocator keep comes in steps.
/// The first quarter is not compared: caches fill.
fn assert_flat(memory: &[u64]) {
    let quarter = memory.len() / 4;
    let median = |samples: &[u64]| {
        let mut samples = samples.to_vec();
        samples.sort_unstable();
        samples[samples.len() / 2]
    };
    let medians: Vec<u64> = memory.chunks(quarter.max(1)).take(4).map(median).collect();
    println!("memory without mapped files, medians of the quarters: {medians:?}");
    let (early, late) = (medians[1], medians[3]);
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let growth = |from: u64, to: u64| to as f64 / from as f64;
    let is_flat = growth(early, late) <= GROWTH_MAX || late - early <= GROWTH_BYTES_MAX;
    let is_steady = medians[1..].windows(2).all(|pair| growth(pair[0], pair[1]) > STEADY_GROWTH_MIN);
    assert!(
        is_flat || !is_steady && growth(early, late) <= STEP_MAX,
        "memory grew by {:.2}: {medians:?}",
        growth(early, late)
    );
}

/// A server that leaks is found.
#[test]
fn memory_that_grows_is_not_flat() {
    let flat = |grows: u64| {
        std::panic::catch_unwind(|| assert_flat(&(0..400).map(|at| (50 << 20) + grows * at).collect::<Vec<_>>()))
    };
    assert!(flat(0).is_ok() && flat(10 << 10).is_ok());
    assert!(flat(100 << 10).is_err());
    let step = |at: usize| if at < 200 { 37 << 20 } else { 47 << 20 };
    assert_flat(&(0..400).map(step).collect::<Vec<_>>());
}
