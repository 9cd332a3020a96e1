//! The figures of the node on the first page.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use serde_json::{Value, json};

use crate::pages::{page, text};
use crate::world::World;

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
