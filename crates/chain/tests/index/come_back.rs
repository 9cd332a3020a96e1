//! A block that left the chain and comes back has other txnums: cached answers of its first time are not of its second.

use birdhouse_chain::Profile;
use birdhouse_testkit::mix;

use crate::answers::Answers;
use crate::work_budget::{BUSY, World, chain};

#[test]
fn a_tip_that_comes_back_has_the_answers_of_a_fresh_index() {
    for profile in [Profile::Full, Profile::Lean] {
        let mut world = World::built(chain(&[20]), profile);
        let fork = world.chain.height();
        // Long enough for a midstate, and not too long for the txid cache.
        mix::busy_script(&mut world.chain, BUSY, 100);
        let first = world.chain.blocks().to_vec();
        world.chain.rollback_to(fork);
        for _ in 0..3 {
            mix::busy_script(&mut world.chain, BUSY + 1, 2);
        }
        let second = world.chain.blocks().to_vec();

        let fresh = World::built(world.chain.clone(), profile);
        fresh.node.follow(&first);
        world.node.follow(&first);
        let scripts = world.node.scripts();
        Answers::of(&world.snapshot(), &scripts);
        // No answer is asked for here, so the caches still hold the first tip.
        world.node.follow(&second);
        world.snapshot();
        world.node.follow(&first);
        let context = "a tip that came back";
        Answers::of(&world.snapshot(), &scripts).assert_equal(&Answers::of(&fresh.snapshot(), &scripts), context);
    }
}
