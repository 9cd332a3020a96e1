//! A node that stops, is killed, or reorganizes its chain.

use birdhouse_chain::Profile;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::rng::Rng;

use super::bird::fresh_answers;
use super::{Home, grow, move_on, node_with};

#[test]
fn follower_outlives_a_node_that_stops_and_comes_back() {
    let (mut node, mut chain) = node_with(23, Size::SMALL);
    let home = Home::new(&node, Profile::Full);
    // The server starts before the node.
    node.stop().unwrap();
    let server = home.start("run");
    home.wait_for_log(0, "waiting");
    node.restart().unwrap();
    home.wait_for_tip(&chain);
    for _ in 0..2 {
        let said = home.log().len();
        node.stop().unwrap();
        home.wait_for_log(said, "the node cannot answer, trying again");
        node.restart().unwrap();
        grow(&mut chain, 3);
        chain.submit_to(&node).unwrap();
        home.wait_for_tip(&chain);
    }
    drop(server);
    home.index();
    home.assert_sound(&chain, &fresh_answers(&node, &chain, Profile::Full), "after the node's return");
}

/// Core flushes its block index only now and then. Killed, it falls back to the flushed state and overwrites the blocks
/// after it.
#[test]
fn follower_outlives_a_node_that_is_killed_and_writes_over_its_newest_blocks() {
    let (mut node, mut chain) = node_with(24, Size::SMALL);
    // Flushed: these blocks survive the kill.
    node.restart().unwrap();
    let noted = chain.height();
    let home = Home::new(&node, Profile::Full);
    let server = home.start("run");
    home.wait_for_tip(&chain);
    for kills in 0..2 {
        grow(&mut chain, 6);
        chain.submit_to(&node).unwrap();
        home.wait_for_tip(&chain);
        let said = home.log().len();
        node.kill9();
        home.wait_for_log(said, "the node cannot answer, trying again");
        node.restart().unwrap();
        println!("the node is back at {} of {}, {noted} noted", node.height().unwrap(), chain.height());
        // Another branch, longer than the lost one: only more work counts against blocks that the node lost.
        let lost = chain.height();
        chain.rollback_to(noted + kills);
        let blocks = lost + 3 - chain.height();
        grow(&mut chain, blocks);
        chain.submit_to(&node).unwrap();
        home.wait_for_tip(&chain);
    }
    drop(server);
    home.index();
    home.assert_sound(&chain, &fresh_answers(&node, &chain, Profile::Full), "after the node was killed");
}

#[test]
fn node_that_makes_reorgs_while_the_build_runs_ends_in_right_answers() {
    let (node, mut chain) = node_with(25, Size::SMALL);
    let mut rng = Rng::new(25);
    for round in 0..3 {
        let home = Home::new(&node, Profile::Full).arg("--build-threads=1");
        let build = home.start("index");
        for _ in 0..4 {
            move_on(&node, &mut chain, &mut rng);
        }
        let status = build.wait();
        assert!(status.success(), "round {round}: {}", home.log());
        home.index();
        home.assert_sound(&chain, &fresh_answers(&node, &chain, Profile::Full), &format!("round {round}"));
    }
}
