//! SIGKILL at random moments of the first build.

use std::ops::Range;
use std::time::{Duration, Instant};

use birdhouse_chain::Profile;
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::rng::Rng;

use super::bird::fresh_answers;
use super::{Home, node_with, rounds};

/// Enough for two generations of one mebibyte.
const SIZE: Size = Size { blocks: 60, block_txs: 40, scripts_per_form: 100, busy: &[10, 300, 9000] };
/// Kills in a round.
const KILLS: u32 = 8;

#[test]
fn killed_build_resumes_and_answers_as_an_undisturbed_one() {
    kill_builds(rounds(2));
}

#[test]
#[ignore = "long: BIRDHOUSE_ROUNDS rounds of eight kills each"]
fn killed_build_resumes_for_many_rounds() {
    kill_builds(rounds(50));
}

fn kill_builds(rounds: Range<u64>) {
    let (node, chain) = node_with(21, SIZE);
    let fresh = [Profile::Full, Profile::Lean].map(|profile| fresh_answers(&node, &chain, profile));
    for round in rounds {
        let seed = 0x6b69_6c6c + round;
        let mut rng = Rng::new(seed);
        let profile = if round % 2 == 0 { Profile::Full } else { Profile::Lean };
        // Every third round builds in one generation.
        let new_home = || match round % 3 {
            2 => Home::new(&node, profile),
            _ => Home::new(&node, profile).arg("--build-temp-mib=1").arg("--build-reorg-blocks=5"),
        };
        let undisturbed = new_home();
        let start = Instant::now();
        undisturbed.index();
        let usual = start.elapsed();
        let generations = undisturbed.log().matches("finished a generation").count();
        assert!(round % 3 == 2 || generations >= 1, "{generations} generations:\n{}", undisturbed.log());

        let (mut home, mut killed) = (new_home(), 0);
        while killed < KILLS {
            let delay = Duration::from_micros(rng.below(u64::try_from(usual.as_micros()).unwrap()));
            if home.start("index").kill_after(delay).is_none() {
                killed += 1;
            } else {
                // The build finished between two kills.
                home = new_home();
            }
        }
        println!("seed {seed}: {killed} kills, {generations} generations, usually {usual:?}");
        home.index();
        home.assert_sound(&chain, &fresh[usize::from(profile == Profile::Lean)], &format!("seed {seed}"));
    }
}

#[test]
fn follower_answers_a_wallet_that_came_during_a_short_build() {
    let (node, chain) = node_with(29, Size::SMALL);
    let home = Home::new(&node, Profile::Full);
    let _server = home.start("run");
    home.wait_for_log(0, "serving the Electrum protocol");
    // One attempt would do if the build took less than the time for which wallets wait, which no machine promises.
    let mut served = home.served_height();
    while served.is_none() && !home.log().contains("built the index") {
        served = home.served_height();
    }
    assert_eq!(served.or_else(|| home.served_height()), Some(chain.height()), "{}", home.log());
}
