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

use super::history::{Clock, Pace, Recorded};
use super::memory::{BOUNDED_OF_RELAY, Sample};

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

/// Memory in use may be this much more in the last quarter of the time than in the second: the chain grows.
const GROWTH_MAX: f64 = 1.1;
/// The same, for a server that uses little.
const GROWTH_BYTES_MAX: u64 = 4 << 20;
/// Most memory without mapped files: what is in use, with what the allocator keeps.
const OWN_BYTES_MAX: u64 = 128 << 20;
/// Metrics of memory whose bound is far above what an hour fills: what the logs of the stores have alone, and caches.
const BOUNDED: [&str; 4] = [
    r#"birdhouse_store_unflushed_bytes{part="index"}"#,
    BOUNDED_OF_RELAY[0],
    BOUNDED_OF_RELAY[1],
    "birdhouse_store_cache_bytes",
];
/// Steps from one line about the memory to the next.
const SAY_EVERY: usize = 300;

/// Takes `BIRDHOUSE_MINUTES`, at least 24: caches fill for some twenty, which looks like a leak.
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
    let mut memory = Memory::default();
    let addr = world.relay;
    recorded.play(&[addr], clock, (seed, 0), || {
        for step in 0_u64.. {
            let next = clock.0 + STEP * u32::try_from(step).unwrap();
            sleep(next.saturating_duration_since(Instant::now()));
            if clock.0.elapsed() > time {
                break;
            }
            world.step(step);
            memory.take(&world);
        }
    });
    world.agrees(&world.live.ledger().scripts(), "at the end");
    recorded.read_all(addr, clock);
    recorded.assert_right(&world.server.log().unwrap());
    println!(
        "{} steps, {} restarts of the node, height {}",
        memory.used.len(),
        world.restarts,
        world.live.ledger().height()
    );
    memory.assert_flat();
}

/// One server, its node, and the publisher of the node's changes. The server is dropped first.
struct World {
    server: Peer,
    publisher: SequencePublisher,
    live: LiveNode,
    relay: SocketAddr,
    /// Address of its metrics.
    metrics: String,
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
        let metrics = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port().unwrap())).to_string();
        let relay_addr = relay.to_string();
        let args = ["--zmq-sequence-addr", &publisher.address(), "--relay-addr", &relay_addr, "--ops-addr", &metrics];
        let program = Path::new(env!("CARGO_BIN_EXE_birdhouse"));
        let server = Birdhouse::start_in(live.node(), Home::Temporary, program, &args).unwrap();
        Self { server, publisher, live, relay, metrics, rng: Rng::new(seed ^ 0x736f_616b), restarts: 0 }
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

/// Memory in use after each step, without the [`BOUNDED`] part, and the most memory without mapped files.
#[derive(Debug, Default)]
struct Memory {
    used: Vec<u64>,
    own_max: u64,
}

impl Memory {
    fn take(&mut self, world: &World) {
        let sample = Sample::take(&world.metrics, world.server.pid(), &BOUNDED);
        let Sample { own, allocated, bounded } = &sample;
        if self.used.len().is_multiple_of(SAY_EVERY) {
            println!(
                "step {}: {own} bytes without mapped files, {allocated} in use, of these {bounded:?} {BOUNDED:?}",
                self.used.len()
            );
        }
        self.used.push(sample.rest());
        self.own_max = self.own_max.max(*own);
    }

    fn assert_flat(&self) {
        println!("at most {} bytes without mapped files", self.own_max);
        assert!(self.own_max <= OWN_BYTES_MAX);
        assert_flat(&self.used);
    }
}

/// Proves that a server uses no more memory in the last quarter of the time than in the second. The first is not
/// compared: caches fill.
fn assert_flat(used: &[u64]) {
    let quarter = used.len() / 4;
    let median = |samples: &[u64]| {
        let mut samples = samples.to_vec();
        samples.sort_unstable();
        samples[samples.len() / 2]
    };
    let medians: Vec<u64> = used.chunks(quarter.max(1)).take(4).map(median).collect();
    println!("memory in use without logs and caches, medians of the quarters: {medians:?}");
    let (early, late) = (medians[1], medians[3]);
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let growth = late as f64 / early as f64;
    assert!(growth <= GROWTH_MAX || late - early <= GROWTH_BYTES_MAX, "memory grew by {growth:.2}: {medians:?}");
}

/// A server that leaks is found.
#[test]
fn memory_that_grows_is_not_flat() {
    let flat = |grows: u64| {
        std::panic::catch_unwind(|| assert_flat(&(0..400).map(|at| (10 << 20) + grows * at).collect::<Vec<_>>()))
    };
    assert!(flat(0).is_ok() && flat(10 << 10).is_ok());
    assert!(flat(100 << 10).is_err());
}
