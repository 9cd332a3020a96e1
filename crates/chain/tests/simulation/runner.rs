//! Plays seeds on all processors. A failure is made shorter, by leaving out steps, and printed.

use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

use birdhouse_testkit::rng::number;
use parking_lot::Mutex;

use crate::plan::Plan;
use crate::sim::{Counts, Failure, Sim};
use crate::template::TEMPLATES;

/// Runs that making one failure shorter may take.
const SHORTENING_RUNS: usize = 400;
/// Failures that are printed.
const FAILURES_MAX: usize = 3;

/// Consecutive seeds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) seeds: u64,
}

impl Range {
    /// `BIRDHOUSE_SEEDS` seeds from `BIRDHOUSE_FROM` on.
    pub(crate) fn of_environment() -> Self {
        Self { first: number("BIRDHOUSE_FROM").unwrap_or(0), seeds: number("BIRDHOUSE_SEEDS").unwrap_or(1000) }
    }
}

/// Plays the seeds, and panics with the shortest description of the first failures. Returns the counts of all.
pub(crate) fn play(range: Range) -> Counts {
    // Panics are caught and described with their seed.
    std::panic::set_hook(Box::new(|_| {}));
    let (next, began) = (AtomicU64::new(range.first), Instant::now());
    let failures: Mutex<Vec<(u64, Failure)>> = Mutex::default();
    let total: Mutex<Counts> = Mutex::default();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= range.first + range.seeds || failures.lock().len() >= FAILURES_MAX {
                        return;
                    }
                    match run(seed, &BTreeSet::new()) {
                        Ok(counts) => add(&mut total.lock(), counts),
                        Err(failure) => failures.lock().push((seed, failure)),
                    }
                    let played = seed + 1 - range.first;
                    if played.is_multiple_of(10_000) {
                        println!("{played} seeds in {:?}", began.elapsed());
                    }
                }
            });
        }
    });
    let (failures, total) = (failures.into_inner(), total.into_inner());
    let played = (next.into_inner() - range.first).min(range.seeds);
    println!("{played} seeds from {} on in {:?}: {total:?}", range.first, began.elapsed());
    for (seed, failure) in &failures {
        let (skipped, failure) = shortened(*seed, failure.clone());
        describe(*seed, &failure, skipped.len());
    }
    let _ = std::panic::take_hook();
    let seeds: Vec<u64> = failures.iter().map(|(seed, _)| *seed).collect();
    assert!(failures.is_empty(), "seeds {seeds:?} failed; replay one with BIRDHOUSE_FROM=<seed> BIRDHOUSE_SEEDS=1");
    total
}

fn add(total: &mut Counts, counts: Counts) {
    total.calls += counts.calls;
    total.lives += counts.lives;
    total.updates += counts.updates;
    total.checks += counts.checks;
    total.spooled += counts.spooled;
}

/// Runs one seed without some of its steps.
fn run(seed: u64, skipped: &BTreeSet<usize>) -> Result<Counts, Failure> {
    let sim = Sim::new(Plan::of(seed, TEMPLATES), skipped.clone());
    let ran = catch_unwind(AssertUnwindSafe(|| sim.run()));
    let ran = ran.unwrap_or_else(|panic| Err(sim.panicked(&message_of(&*panic))));
    sim.end();
    ran
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Leaves out steps, many at first, as long as the run still fails.
fn shortened(seed: u64, failure: Failure) -> (BTreeSet<usize>, Failure) {
    let mut skipped: BTreeSet<usize> = BTreeSet::new();
    let (mut best, mut runs) = (failure, 0);
    let mut len = (best.steps / 2).max(1);
    // The last step ends the run.
    let last = Plan::of(seed, TEMPLATES).steps.len() - 1;
    while runs < SHORTENING_RUNS {
        let mut at = 0;
        while at < best.steps.min(last) && runs < SHORTENING_RUNS {
            let mut fewer = skipped.clone();
            fewer.extend(at..(at + len).min(best.steps).min(last));
            if fewer.len() > skipped.len() {
                runs += 1;
                if let Err(failure) = run(seed, &fewer) {
                    (skipped, best) = (fewer, failure);
                }
            }
            at += len;
        }
        if len == 1 {
            break;
        }
        len /= 2;
    }
    (skipped, best)
}

fn describe(seed: u64, failure: &Failure, skipped: usize) {
    println!("\nseed {seed} failed after {} steps, {skipped} of which it does not need:", failure.steps);
    for line in &failure.trace {
        println!("  {line}");
    }
    println!("  => {}", failure.message);
}
