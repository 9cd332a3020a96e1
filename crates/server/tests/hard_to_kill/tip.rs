//! SIGKILL at random moments of tip following, while the node mines blocks and makes reorgs.

use std::ops::Range;
use std::time::Duration;

use birdhouse_chain::Profile;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::rng::Rng;

use super::bird::fresh_answers;
use super::{Home, move_on, node_with, rounds};

/// Kills between two complete comparisons.
const KILLS: u32 = 8;

#[test]
fn killed_follower_resumes_and_answers_as_a_fresh_index() {
    kill_followers(rounds(3));
}

#[test]
#[ignore = "long: BIRDHOUSE_ROUNDS rounds of eight kills each"]
fn killed_follower_resumes_for_many_rounds() {
    kill_followers(rounds(30));
}

fn kill_followers(rounds: Range<u64>) {
    let (node, mut chain) = node_with(22, Size::SMALL);
    let homes = [Profile::Full, Profile::Lean].map(|profile| Home::new(&node, profile));
    homes.iter().for_each(Home::index);
    for round in rounds {
        let seed = 0x7469_7073 + round;
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        for _ in 0..KILLS {
            let birds = homes.each_ref().map(|home| home.start("run"));
            // The start takes most of this.
            let delays = birds.each_ref().map(|_| Duration::from_millis(rng.below(1200)));
            std::thread::scope(|scope| {
                for (bird, delay) in birds.into_iter().zip(delays) {
                    scope.spawn(move || assert_eq!(bird.kill_after(delay), None, "the server ended by itself"));
                }
                for _ in 0..=rng.below(4) {
                    move_on(&node, &mut chain, &mut rng);
                    // A random moment of the server's work, not a wait for a condition.
                    std::thread::sleep(Duration::from_millis(rng.below(200)));
                }
            });
        }
        for home in &homes {
            let server = home.start("run");
            home.wait_for_tip(&chain);
            drop(server);
            home.index();
            home.assert_sound(&chain, &fresh_answers(&node, &chain, home.profile), &format!("seed {seed}"));
        }
    }
}
