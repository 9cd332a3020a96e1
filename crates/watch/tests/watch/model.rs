//! The engine beside a naive model. Random changes, restarts at any moment, reorgs.

use birdhouse_testkit::rng::Rng;
use birdhouse_testkit::script::{Form, Lock};

use crate::naive::{All, Model};
use crate::world::{World, shorts};

const LEVELS: &[u32] = &[0, 1, 3];
const MOVES: u32 = 150;

fn run(seed: u64) {
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
    let mut count = 0;
    for round in 0..MOVES {
        let made = world.live.random_move().unwrap();
        let is_killed = rng.per_mille(200);
        let mut announced = if is_killed { Vec::new() } else { world.sync() };
        if is_killed {
            world.index.sync(world.core()).unwrap();
            announced = world.restart();
        }
        // Below the height that was announced last nothing is announced: blocks are on their way.
        let expected: Vec<String> = if world.live.ledger().height() < height {
            Vec::new()
        } else {
            height = world.live.ledger().height();
            let all = All::of(world.live.ledger());
            models.iter_mut().flat_map(|model| model.change(&all, height)).collect()
        };
        let mut expected = expected;
        let mut found = shorts(&announced);
        expected.sort();
        found.sort();
        assert_eq!(found, expected, "seed {seed}, round {round}, after {made:?}");
        count += announced.len();
        logged.extend(announced.iter().map(|notice| notice.id));
    }
    assert!(count > 100, "seed {seed}: {count} notices");
    let log: Vec<_> = world.log().iter().map(|notice| notice.id).collect();
    assert_eq!(log, logged, "the log has each notice once and in order");
    let mut ids = log;
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), logged.len(), "no two notices have one id");
}

#[test]
fn random_changes_are_told_as_a_naive_model_says_across_restarts() {
    for seed in [901, 902] {
        run(seed);
    }
}
