//! The first page beside a node that accepts calls and answers none, as one whose disk hangs; and the one size of all
//! figures of the mempool.

use std::thread;
use std::time::{Duration, Instant};

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use serde_json::{Value, json};

use crate::pages::{page, text};
use crate::world::World;

/// Time that a visitor waits at most: the five seconds after which a call counts as failed, and some for the machine.
const PATIENCE: Duration = Duration::from_secs(9);
/// Silence in which the node is asked for certain: its lowest rate stays valid for five seconds.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// Time of an answer for which the node was not asked: less than the five seconds, whatever the machine does meanwhile.
const PROMPT: Duration = Duration::from_secs(4);

/// The lines of the fee rates on the first page.
fn fees(page: &str) -> String {
    let (_, section) = page.split_once("aria-labelledby=\"fees\"").unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    section.split_once("<dl").unwrap().1.to_owned()
}

#[test]
fn the_first_page_has_the_last_fee_rates_of_a_silent_node() {
    let world = World::small(213);
    let before = fees(&page(&world, "/"));
    assert!(text(&before).contains("Next block"), "{before}");
    world.live.node().pause().unwrap();
    // Once the lowest rate is old, one visitor waits for the node.
    let ask = || {
        let asked = Instant::now();
        let got = world.rest.get("/");
        (got, asked.elapsed())
    };
    let mut seen = vec![ask()];
    let began = Instant::now();
    while seen.last().unwrap().1 < PROMPT && began.elapsed() < SILENCE_MAX {
        thread::sleep(Duration::from_millis(100));
        seen.push(ask());
    }
    let (next, wait) = ask();
    world.live.node().resume().unwrap();
    assert!(wait < PROMPT, "the next visitor waits {wait:?}");
    seen.push((next, wait));
    for (got, wait) in seen {
        assert_eq!((got.status, fees(&got.text())), (200, before.clone()));
        assert!(wait < PATIENCE, "{wait:?}");
    }
}

/// Bare multisig weighs more than its bytes: `getmempoolentry` has the size by which the node ranks it.
#[test]
fn the_mempool_of_the_first_page_has_the_nodes_sizes_alone() {
    let mut world = World::small(214);
    let pay = Payment::to_lock(Lock::new(Form::BareMultisig, 880_000), 30_000);
    let txid = world.live.pay(&[pay.clone(), pay]).unwrap().compute_txid().to_string();
    world.sync();
    let node = world.live.node();
    let entry = node.rpc("getmempoolentry", json!([txid])).unwrap();
    let raw: Value = node.rpc("getrawtransaction", json!([txid, true])).unwrap();
    assert_ne!(entry["vsize"], raw["vsize"], "its signature operations count");
    let home = page(&world, "/");
    let (_, mempool) = home.split_once("aria-labelledby=\"mempool\"").unwrap();
    let (mempool, _) = mempool.split_once("</section>").unwrap();
    let shown = text(mempool);
    // The sum, and the only line of the histogram, with the rate by this size.
    let size = format!("{} vB", entry["vsize"]);
    assert_eq!(shown.matches(&size).count(), 2, "{shown}");
    let rate = (entry["fees"]["base"].as_f64().unwrap() * 1e9 / entry["vsize"].as_f64().unwrap()).floor() / 10.0;
    assert!(shown.contains(&format!("{rate:.1}")), "{rate}: {shown}");
}
