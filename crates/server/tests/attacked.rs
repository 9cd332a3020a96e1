//! Hostile clients beside honest ones: honest clients get right answers, the server's memory stays bounded, and nothing
//! panics. The latency of answers is printed; `birdhouse-bench attack` measures it.
//!
//! A program of its own, which cargo runs alone: tests beside it would attack the honest clients, too.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use birdhouse_testkit::asked::{about, agrees};
use birdhouse_testkit::attack::{Attack, Exposed, Latencies, Outcome, Setup, Target};
use birdhouse_testkit::live::Move;

/// Far longer than anything waited for takes.
const PATIENCE: Duration = Duration::from_mins(1);
/// Time of each attack, and of all at once: together twenty seconds.
const EACH: Duration = Duration::from_millis(800);
const ALL_AT_ONCE: Duration = Duration::from_secs(5);
const HONEST_CLIENTS: u8 = 4;
/// Bound of the server's memory: partial messages and unread replies (256 MB each), the connections themselves, and as
/// much again for fragmentation and everything else.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// Bound of a latency. Generous: the attackers share two processors with the server, which may be built without
/// optimisation.
const LATENCY_MAX: Duration = Duration::from_secs(10);
/// Bound where each of the operator's connections is a client of its own, with a turn before a visitor's next one.
const LATENCY_MAX_BESIDE_MANY: Duration = Duration::from_mins(1);

struct World {
    setup: Setup,
    latency_max: Duration,
    /// Attacks so far, each from an address of its own.
    rounds: u8,
}

impl World {
    fn start(seed: u64, latency_max: Duration) -> Self {
        let setup = Setup::start(seed, Path::new(env!("CARGO_BIN_EXE_birdhouse"))).unwrap();
        Self { setup, latency_max, rounds: 0 }
    }

    /// Attacks for `time`, and proves that visitors are served meanwhile.
    fn withstands(
        &mut self,
        name: &str,
        attacks: &[Attack],
        target: impl Fn(&Exposed, Attack) -> Target,
        time: Duration,
    ) {
        self.rounds += 1;
        let (setup, address) = (&self.setup, Setup::attacker(self.rounds));
        let start = |attack: &Attack| attack.start(target(&setup.exposed, *attack), address, &setup.prey);
        // Where all attack at once, nobody else gets the dashboard's figures.
        let scans = matches!(attacks, [Attack::ScanKeys | Attack::HostileSpendKeys]);
        let scanned_before = scans.then(|| setup.exposed.silent_scanned().unwrap());
        let running: Vec<_> = attacks.iter().map(start).collect();
        let (clients, visitors) = (self.setup.honest_clients(HONEST_CLIENTS), self.setup.rest_visitors(HONEST_CLIENTS));
        let supervisors = self.setup.supervisors(1);
        // The duration of the attack, not a wait for a condition.
        std::thread::sleep(time);
        if let Some(before) = scanned_before {
            self.until_scanned(name, before);
        }
        let [served, visited, supervised] = [clients, visitors, supervisors]
            .map(|honest| honest.stop().unwrap_or_else(|error| panic!("{name}: {error}\n{}", self.last_words())));
        let outcomes: Vec<Outcome> = running.into_iter().map(|attack| attack.stop().unwrap()).collect();
        let (now, most) = self.setup.exposed.memory_bytes().unwrap();
        let last = [&served, &visited, &supervised].map(|some| some.per_mille(1000)).into_iter().max().unwrap();
        let shown = |some: &Latencies| {
            let [median, late, last] = [500, 990, 1000].map(|rank| some.per_mille(rank));
            format!("{} answers, median {median:?}, p99 {late:?}, last {last:?}", some.count())
        };
        println!(
            "{name}: {}; over REST {}; of /health {}; {} MB held, {} MB at most; {outcomes:?}",
            shown(&served),
            shown(&visited),
            shown(&supervised),
            now >> 20,
            most >> 20
        );
        assert!(outcomes.iter().all(|outcome| outcome.connected > 0), "{name}: nobody attacked: {outcomes:?}");
        assert!(last < self.latency_max, "{name}: an answer took {last:?}");
        assert!(most < MEMORY_BYTES_MAX, "{name}: the server held {most} bytes");
        let log = self.setup.exposed.server.log().unwrap();
        assert!(!log.contains("panicked"), "{name}: {}", self.last_words());
    }

    /// Waits until a scan of the chain has ended.
    fn until_scanned(&self, name: &str, before: u64) {
        let began = Instant::now();
        while self.setup.exposed.silent_scanned().unwrap() < before + u64::from(Setup::ELIGIBLE_TXS) {
            assert!(began.elapsed() < PATIENCE, "{name}: nothing was scanned");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn last_words(&self) -> String {
        let log = self.setup.exposed.server.log().unwrap();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(30)..].join("\n")
    }

    /// Proves that everything is as before after the attacks.
    fn is_well(&mut self) {
        for what in [Move::Pay, Move::Pay, Move::Mine, Move::Pay] {
            self.setup.live.make(what).unwrap();
        }
        agrees(&self.setup.exposed.server, &about(&self.setup.live.ledger().scripts()), PATIENCE).unwrap();
    }
}

/// Held by the test that overloads the machine: two at once would measure each other.
static OVERLOAD: Mutex<()> = Mutex::new(());

#[test]
fn visitors_are_served_while_a_stranger_attacks() {
    let _alone = OVERLOAD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut world = World::start(91, LATENCY_MAX);
    world.withstands("no attack", &[], |_, _| unreachable!("nobody attacks"), EACH);
    for attack in Attack::ALL {
        world.withstands(&format!("{attack:?}"), &[attack], Exposed::public_for, EACH);
    }
    world.withstands("all at once", &Attack::ALL, Exposed::public_for, ALL_AT_ONCE);
    world.is_well();
}

/// Private listeners have no bounds per client, but the server itself stays in bounds.
#[test]
fn strangers_are_served_while_the_operators_own_clients_overload() {
    let _alone = OVERLOAD.lock().unwrap_or_else(PoisonError::into_inner);
    let mut world = World::start(92, LATENCY_MAX_BESIDE_MANY);
    // The relay has one set of limits, whoever asks: its searches have their row in the other test.
    let attacks = Attack::ALL.into_iter().filter(|attack| *attack != Attack::Searches).collect::<Vec<_>>();
    world.withstands("all at once, on the operator's listener", &attacks, Exposed::operator_for, ALL_AT_ONCE);
    world.is_well();
}
