//! The parts of a campaign: their volumes, and how a piece of each is run.

use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::relay_kills;
use super::state::Progress;

/// A part.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    pub(crate) name: &'static str,
    /// Condition under which the part passes.
    pub(crate) proves: &'static str,
    /// The full volume.
    pub(crate) volume: u64,
    pub(crate) unit: &'static str,
    /// Volume of one piece: minutes of work at most.
    pub(crate) piece: u64,
    pub(crate) run: Run,
}

/// Program that runs a piece.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Run {
    /// By this program: [`relay_kills`].
    RelayKills,
    /// By a test that takes its volume from variables.
    Test(Test),
}

/// A test that takes its volume from variables.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Test {
    /// Arguments of cargo that lead to the test.
    pub(crate) target: &'static [&'static str],
    /// Name of the test, or a part of the names of several.
    pub(crate) name: &'static str,
    /// Variable of the volume.
    pub(crate) count: &'static str,
    /// Volume for each unit of the variable. If the test says how much it was, about as much.
    pub(crate) each: u64,
    /// Words behind the number by which the test says its volume, as in `370 cuts in 400 worlds`.
    pub(crate) said: Option<&'static str>,
    /// Variable of the first seed.
    pub(crate) from: &'static str,
    pub(crate) is_ignored: bool,
}

const SEEDED: Test = Test {
    target: &[],
    name: "",
    count: "BIRDHOUSE_SEEDS",
    each: 1,
    said: None,
    from: "BIRDHOUSE_FROM",
    is_ignored: false,
};
const KILLED: Test = Test { target: KILL, count: "BIRDHOUSE_ROUNDS", each: 8, is_ignored: true, ..SEEDED };
/// Tests are named with the whole workspace: each selection of crates has features of its own, and would compile
/// dependencies anew.
const EVENTS: &[&str] = &["--workspace", "--test", "events"];
const INDEX: &[&str] = &["--workspace", "--test", "index"];
const KILL: &[&str] = &["--workspace", "--test", "kill"];
const POLL: Duration = Duration::from_millis(50);
/// Time for a piece.
const PATIENCE: Duration = Duration::from_hours(2);

/// All parts. The shortest pieces come first.
pub(crate) const PARTS: [Part; 18] = [
    Part {
        name: "relay-kills",
        proves: "SIGKILL during relay writes of all kinds: every acknowledged event is there, the model agrees",
        volume: 2000,
        unit: "kills during a write",
        piece: 100,
        run: Run::RelayKills,
    },
    Part {
        name: "relay-faults",
        proves: "failed writes of the relay's store: an error, the state before or after, and it opens again in place",
        volume: 20_000,
        unit: "seeds",
        piece: 400,
        run: Run::Test(Test { target: EVENTS, name: "after_a_failed_write_the_events_open_again_in_place", ..SEEDED }),
    },
    Part {
        name: "relay-power-cuts",
        proves: "power cuts at any write of the relay's store: nothing acknowledged is lost, no batch is there by half",
        volume: 5000,
        unit: "cuts",
        piece: 400,
        run: Run::Test(Test {
            target: EVENTS,
            name: "nothing_acknowledged_is_lost_and_no_batch_is_there_by_half",
            said: Some(" cuts in "),
            ..SEEDED
        }),
    },
    Part {
        name: "relay-space",
        proves: "power cuts and failures while space is given back: nothing else is lost",
        volume: 1000,
        unit: "seeds of up to 60 cuts",
        piece: 60,
        run: Run::Test(Test { target: EVENTS, name: "power_cuts_and_failures_while_space_is_given_back", ..SEEDED }),
    },
    Part {
        name: "relay-model",
        proves: "random events and filters: every answer is the model's",
        volume: 1000,
        unit: "worlds",
        piece: 40,
        run: Run::Test(Test {
            target: EVENTS,
            name: "a_hundred_thousand_random_filters_are_answered_as_by_a_scan_of_everything",
            ..SEEDED
        }),
    },
    Part {
        name: "relay-simulation",
        proves: "seeded schedules of the relay's writer and subscriptions, with failed writes: no event is lost, and each \
                 comes once, or again only after its write had failed",
        volume: 500_000,
        unit: "seeds",
        piece: 20_000,
        run: Run::Test(Test {
            target: &["-p", "birdhouse-relay", "--lib"],
            name: "many_schedules_have_every_event_once",
            is_ignored: true,
            ..SEEDED
        }),
    },
    Part {
        name: "bit-flips",
        proves: "flipped bits in every kind of file: the right answer or an error, never a short one",
        volume: 20_000,
        unit: "flips in each kind of file",
        piece: 60,
        run: Run::Test(Test {
            target: &["-p", "birdhouse-store", "--lib"],
            name: "flipped_bit_in_any_file_never_gives_a_wrong_or_short_answer",
            ..SEEDED
        }),
    },
    Part {
        name: "damaged-events",
        proves: "damaged events, filters and packed events: no panic, and never another event than was damaged",
        volume: 10_000_000,
        unit: "inputs of each kind",
        piece: 100_000,
        run: Run::Test(Test { target: EVENTS, name: "damaged::", ..SEEDED }),
    },
    Part {
        name: "damaged-messages",
        proves: "damaged messages of clients and answers of plugins: followed, or refused in words of the protocol",
        volume: 10_000_000,
        unit: "inputs of each kind",
        piece: 100_000,
        run: Run::Test(Test { target: &["--workspace", "--test", "relay"], name: "damaged::", ..SEEDED }),
    },
    Part {
        name: "index-power-cuts",
        proves: "power cuts at any write of build and tip: the answers of a fresh index",
        volume: 5000,
        unit: "cuts",
        piece: 400,
        run: Run::Test(Test { target: INDEX, name: "power_cut::", count: "BIRDHOUSE_ROUNDS", ..SEEDED }),
    },
    Part {
        name: "index-kills",
        proves: "SIGKILL at a write of build, tip or merges, without a node: the answers of a fresh index",
        volume: 1000,
        unit: "kills during a write",
        piece: 100,
        run: Run::Test(Test {
            target: INDEX,
            name: "killed_a_thousand_times",
            count: "BIRDHOUSE_ROUNDS",
            is_ignored: true,
            ..SEEDED
        }),
    },
    Part {
        name: "build-kills",
        proves: "SIGKILL during the first build and merges: the answers of an undisturbed index",
        volume: 500,
        unit: "kills",
        piece: 16,
        run: Run::Test(Test { name: "killed_build_resumes_for_many_rounds", ..KILLED }),
    },
    Part {
        name: "follower-kills",
        proves: "SIGKILL while the tip is followed: the answers of a fresh index",
        volume: 500,
        unit: "kills",
        piece: 16,
        run: Run::Test(Test { name: "killed_follower_resumes_for_many_rounds", ..KILLED }),
    },
    Part {
        name: "download-kills",
        proves: "SIGKILL of node, index or both from the first block of a download on, beside pruning and reorgs: every \
                 answer is that of a twin that keeps all blocks",
        volume: 500,
        unit: "kills",
        piece: 16,
        run: Run::Test(Test { name: "killed_node_and_index_answer_as_a_twin_for_many_rounds", ..KILLED }),
    },
    Part {
        name: "notice-kills",
        proves: "SIGKILL of server, node, receiver of webhooks and client of direct messages, reorgs, replacements, wiped \
                 nodes and restored backups: each notice is that of a naive model, and delivered with one id",
        volume: 2000,
        unit: "notices",
        piece: 550,
        run: Run::Test(Test {
            name: "notices_are_made_once_and_delivered_for_many_rounds",
            each: 55,
            said: Some(" notices, "),
            ..KILLED
        }),
    },
    Part {
        name: "stream-kills",
        proves: "SIGKILL of a server and of stand-ins for twenty other relays, pulled cables and new filters while events \
                 stream: none is missing on any side, none is sent back, by a checker of the history",
        volume: 60,
        unit: "minutes",
        piece: 10,
        run: Run::Test(Test {
            target: KILL,
            name: "streams_lose_nothing_for_a_long_time",
            count: "BIRDHOUSE_MINUTES",
            from: "BIRDHOUSE_SEED",
            is_ignored: true,
            ..SEEDED
        }),
    },
    Part {
        name: "simulation",
        proves: "seeded schedules of node, disk and readers on a virtual clock: no difference",
        volume: 500_000,
        unit: "seeds",
        piece: 2000,
        run: Run::Test(Test {
            target: &["--workspace", "--test", "simulation"],
            name: "many_seeds_have_no_difference",
            is_ignored: true,
            ..SEEDED
        }),
    },
    Part {
        name: "soak",
        proves: "one server with wallets, a relay's clients, blocks, reorgs and restarts of the node, for an hour each: \
                 answers right, no event lost, memory flat",
        volume: 24 * 60,
        unit: "minutes",
        piece: 60,
        run: Run::Test(Test {
            target: KILL,
            name: "server_in_use_for_a_long_time",
            count: "BIRDHOUSE_MINUTES",
            from: "BIRDHOUSE_SEED",
            is_ignored: true,
            ..SEEDED
        }),
    },
];

// === impl Part ===

impl Part {
    /// Runs a piece of at most this volume from a seed on. Its output goes into a file of `work`.
    pub(crate) fn run(&self, first_seed: u64, volume: u64, work: &Path) -> Result<Progress> {
        match self.run {
            Run::RelayKills => relay_kills::kill(first_seed, volume, work),
            Run::Test(test) => self.run_test(test, first_seed, volume, work),
        }
    }

    fn run_test(&self, test: Test, first_seed: u64, volume: u64, work: &Path) -> Result<Progress> {
        let mut command = test.command(first_seed, volume);
        let log = work.join(format!("{}-{first_seed}.log", self.name));
        let file = std::fs::File::create(&log).with_context(|| format!("failed to create {}", log.display()))?;
        command.stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let status = wait(command.spawn().with_context(|| format!("failed to start {command:?}"))?, PATIENCE)?;
        let mut progress = Progress { next_seed: first_seed + volume, ..Progress::default() };
        let output = std::fs::read_to_string(&log)?;
        // A filter that fits no test succeeds, too.
        if status.success() && passed(&output) > 0 {
            progress.done = test.said.map_or(volume, |said| sum_of(&output, said));
            for (place, kills) in places(&output) {
                progress.add(place, kills);
            }
            std::fs::remove_file(&log)?;
        } else {
            progress.failures.push(format!("from seed {first_seed}, {status}: {}", log.display()));
        }
        Ok(progress)
    }
}

/// Waits for the end of a process, and kills it when its time is over.
fn wait(mut process: Child, patience: Duration) -> Result<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = process.try_wait()? {
            return Ok(status);
        }
        if start.elapsed() > patience {
            process.kill()?;
            process.wait()?;
            bail!("a piece took longer than {} s", patience.as_secs());
        }
        thread::sleep(POLL);
    }
}

/// Returns the number of tests that passed, by the output of a run.
fn passed(log: &str) -> u64 {
    let counts = log.lines().filter_map(|line| line.strip_prefix("test result: ok. ")?.split_once(" passed"));
    counts.filter_map(|(count, _)| count.parse::<u64>().ok()).sum()
}

/// Returns the sum of the numbers before some words, where they begin a line.
fn sum_of(log: &str, said: &str) -> u64 {
    log.lines().filter_map(|line| line.split_once(said)?.0.parse::<u64>().ok()).sum()
}

/// Returns the places of kills that a test counted, one a line: `  12 kills: merging: log`.
fn places(log: &str) -> impl Iterator<Item = (&str, u64)> {
    log.lines().filter_map(|line| {
        let (kills, place) = line.split_once(" kills: ")?;
        Some((place, kills.trim().parse().ok()?))
    })
}

// === impl Test ===

impl Test {
    fn command(&self, first_seed: u64, volume: u64) -> Command {
        let mut command = Command::new("cargo");
        command
            .args(["test", "--profile", "checked", "--locked", "--quiet"])
            .args(self.target)
            .arg(self.name)
            .args(["--", "--nocapture"]);
        if self.is_ignored {
            command.arg("--ignored");
        }
        command.env(self.count, volume.div_ceil(self.each).to_string()).env(self.from, first_seed.to_string());
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_without_a_test_proves_nothing() {
        assert_eq!(passed("running 1 test\ntest result: ok. 1 passed; 0 failed; 0 ignored\n"), 1);
        assert_eq!(passed("test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 55 filtered out\n"), 0);
        assert_eq!(passed("test result: FAILED. 1 passed; 1 failed\n"), 0);
    }

    #[test]
    fn a_volume_that_tests_say_is_the_sum_of_all() {
        let log = "seed 7\n40 cuts in 8 rounds\ntest power_cut::a ... ok\n12 cuts in 8 rounds\n";
        assert_eq!((sum_of(log, " cuts in "), sum_of("seed 7\n", " cuts in ")), (52, 0));
    }

    #[test]
    fn the_places_of_kills_are_counted() {
        let log = "1000 kills over 12 indexes\n   700 kills: merging: index/log\n     3 kills: building: build/run\n";
        assert_eq!(places(log).collect::<Vec<_>>(), [("merging: index/log", 700), ("building: build/run", 3)]);
    }

    #[test]
    fn the_manual_has_every_part() {
        let manual = include_str!("../../../../docs/reliability.md");
        for part in PARTS {
            assert!(manual.contains(&format!("| {} | {} |", part.name, part.proves)), "{}", part.name);
        }
    }

    #[test]
    fn a_piece_gets_its_volume_and_its_first_seed() {
        let Run::Test(kills) = PARTS.iter().find(|part| part.name == "build-kills").expect("a part").run else {
            panic!("a test")
        };
        let command = format!("{:?}", kills.command(48, 20));
        assert!(command.contains("BIRDHOUSE_ROUNDS=\"3\"") && command.contains("BIRDHOUSE_FROM=\"48\""), "{command}");
        assert!(command.contains("\"--ignored\""), "{command}");
    }
}
