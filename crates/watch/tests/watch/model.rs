//! The engine beside a naive model. Random changes, restarts at any moment, reorgs.

use birdhouse_testkit::rng::Rng;
use birdhouse_testkit::script::{Form, Lock};

use crate::flawed::Flaw;
use crate::naive::{All, Model};
use crate::world::{World, shorts};

const LEVELS: &[u32] = &[0, 1, 3];
const MOVES: u32 = 150;
/// Seconds between two moves.
const PAUSE_MAX_S: u64 = 20;
/// Seconds after which a watch that failed for long is tried again.
const LONGEST_PAUSE_S: u64 = 60;

/// Runs a campaign in which reads of the index fail. A watch with a fault falls behind its
/// model, and catches up with it in one step.
fn run(seed: u64, flaw: Flaw) {
    let mut world = World::start(seed);
    let forms = [Form::P2wpkh, Form::P2tr, Form::P2wsh, Form::P2pkh];
    let mut models: Vec<Model> = Vec::new();
    for (form, number) in forms.into_iter().flat_map(|form| (0..3).map(move |number| (form, number))) {
        let script = world.live.wallet().script_pubkey(Lock::new(form, number));
        let name = format!("{form:?}-{number}");
        world.watch(&name, &format!("script = \"{script:x}\"\nconfirmations = [0, 1, 3]"));
        models.push(Model::new(name, script, LEVELS));
    }
    let ledger = world.live.ledger();
    let all = All::of(ledger);
    for model in &mut models {
        model.change(&all, ledger.height());
    }
    assert_eq!(shorts(&world.restart()), [""; 0], "the past is not announced");
    let (mut rng, mut height, mut logged) = (Rng::new(seed), world.live.ledger().height(), Vec::new());
    let (mut count, mut faults) = (0, 0);
    world.flaw = flaw;
    for round in 0..MOVES {
        let made = world.live.random_move().unwrap();
        world.now += rng.below(PAUSE_MAX_S);
        if round + 1 == MOVES {
            world.flaw = Flaw::None;
            world.now += LONGEST_PAUSE_S;
        }
        let is_killed = rng.per_mille(200);
        let announced = if is_killed {
            world.index.sync(world.core()).unwrap();
            world.restart()
        } else if flaw == Flaw::None {
            world.sync()
        } else {
            world.sync_at_once()
        };
        let faulty = world.faults();
        faults += faulty.len();
        // Below the height that was announced last nothing is announced: blocks are on their way.
        let expected: Vec<String> = if world.live.ledger().height() < height {
            Vec::new()
        } else {
            height = world.live.ledger().height();
            let all = All::of(world.live.ledger());
            let sound = models.iter_mut().filter(|model| !faulty.contains_key(&model.name));
            sound.flat_map(|model| model.change(&all, height)).collect()
        };
        let mut expected = expected;
        let mut found = shorts(&announced);
        if flaw != Flaw::None {
            // Of a transaction that several others have replaced since, any may be named.
            expected.iter_mut().chain(&mut found).for_each(|line| *line = without_replacing(line));
        }
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "seed {seed}, round {round}, after {made:?}");
        count += announced.len();
        logged.extend(announced.iter().map(|notice| notice.id));
    }
    assert!(count > 100, "seed {seed}: {count} notices");
    assert!(world.faults().is_empty() && (faults > 50) == (flaw != Flaw::None), "seed {seed}: {faults} faults");
    let log: Vec<_> = world.log().iter().map(|notice| notice.id).collect();
    assert_eq!(log, logged, "the log has each notice once and in order");
    let mut ids = log;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), logged.len(), "no two notices have one id");
}

/// Drops the whole txid of a line, which is that of a replacing transaction.
fn without_replacing(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').filter(|word| word.len() != 64).collect();
    words.join(" ")
}

#[test]
fn random_changes_are_told_as_a_naive_model_says_across_restarts() {
    for seed in [901, 902] {
        run(seed, Flaw::None);
    }
}

#[test]
fn reads_that_fail_by_chance_delay_notices_and_lose_and_repeat_none() {
    for seed in [903, 904, 905] {
        run(seed, Flaw::Chance(30));
    }
}
