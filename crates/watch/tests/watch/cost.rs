//! Cost of many scripts at a large block, as a figure. Run by hand:
//! `cargo test --workspace --test watch cost -- --ignored --nocapture`.

use std::collections::BTreeSet;

use birdhouse_chain::{ScriptHash, Touched, Update};
use nix::time::{ClockId, clock_gettime};

use crate::world::World;

/// The public key of BIP 32's second test vector, with the version of test networks.
const TPUB: &str =
    "tpubD6NzVbkrYhZ4XJDrzRvuxHEyQaPd1mwwdDofEJwekX18tAdsqeKfxss79AJzg1431FybXg5rfpTrJF4iAhyR7RubberdzEQXiRmXGADH2eA";
const TRANSACTIONS: u32 = 5_000;
/// Scripts that a transaction touches: of its inputs and its outputs.
const SCRIPTS_A_TRANSACTION: u32 = 5;

fn cpu_ms() -> f64 {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap();
    std::time::Duration::from(time).as_secs_f64() * 1e3
}

#[test]
#[ignore = "a figure, not a test"]
fn ten_thousand_scripts_at_a_block_of_five_thousand_transactions() {
    let mut world = World::start(931);
    for number in 0..10 {
        let rest = format!("descriptor = \"wpkh({TPUB}/{number}/*)\"\ngap = 1000");
        world.watch(&format!("w{number}"), &rest);
    }
    let began = cpu_ms();
    world.restart();
    let scripts: usize = world.engine.as_ref().unwrap().watches().iter().map(|watch| watch.scripts).sum();
    println!("{scripts} scripts taken up: {:.1} ms of CPU", cpu_ms() - began);
    for (blocks, label) in [(1, "a block of 5000 transactions, none of a watch"), (10, "ten of them")] {
        let mut spent = 0.0;
        for block in 0..blocks {
            world.live.mine_empty(1).unwrap();
            world.index.sync(world.core()).unwrap();
            let scripts =
                (0..TRANSACTIONS * SCRIPTS_A_TRANSACTION).map(|n| ScriptHash::of(&(n + block * 7).to_be_bytes()));
            let touched = Touched::Scripts(scripts.collect::<BTreeSet<_>>().into_iter().collect());
            let update = Update { snapshot: world.index.snapshot().unwrap(), touched };
            let began = cpu_ms();
            assert!(world.engine.as_mut().unwrap().update(&update, 0).unwrap().is_empty());
            spent += cpu_ms() - began;
        }
        println!("{label}: {spent:.2} ms of CPU");
    }
}
