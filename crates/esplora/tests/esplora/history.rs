//! The history of the mempool against the node's own figures.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use serde_json::json;

use crate::world::World;

/// The lowest rates of the groups of mempool's server since version 3.3, in sat/vB.
const RATES: [f64; 39] = [
    0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0,
    125.0, 150.0, 175.0, 200.0, 250.0, 300.0, 350.0, 400.0, 500.0, 600.0, 700.0, 800.0, 900.0, 1000.0, 1200.0, 1400.0,
    1600.0, 1800.0, 2000.0,
];

#[test]
fn a_record_has_the_figures_of_the_node_in_every_span() {
    let mut world = World::small(177);
    for value in [40_000, 50_000, 60_000] {
        world.live.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, 12), value)]).unwrap();
    }
    world.versions();
    world.sync();
    assert!(world.rest.server.record_mempool());
    let node = world.live.node();
    let info = node.rpc("getmempoolinfo", json!([])).unwrap();
    let all = node.rpc("getrawmempool", json!([true])).unwrap();
    let (mut weight, mut vsizes) = (0, [0; 39]);
    for entry in all.as_object().unwrap().values() {
        weight += entry["weight"].as_u64().unwrap();
        let rate = entry["fees"]["chunk"].as_f64().unwrap() * 1e8 / (entry["chunkweight"].as_f64().unwrap() / 4.0);
        let group = RATES.iter().rposition(|lowest| *lowest <= rate).unwrap();
        vsizes[group] += entry["vsize"].as_u64().unwrap();
    }
    assert_eq!(vsizes.iter().sum::<u64>(), info["bytes"].as_u64().unwrap());
    for span in ["2h", "24h", "1w", "1m", "3m", "6m", "1y"] {
        let records = world.rest.json(&format!("/v1/statistics/{span}"));
        let [.., newest] = &records.as_array().unwrap()[..] else { panic!("{span}: {records}") };
        assert_eq!((&newest["count"], &newest["vsizes"]), (&info["size"], &json!(vsizes.to_vec())), "{span}");
        assert_eq!(newest["mempool_byte_weight"], weight, "{span}");
        let fees = info["total_fee"].as_f64().unwrap() * 1e8;
        assert!((newest["total_fee"].as_f64().unwrap() - fees).abs() < 0.5, "{span}");
        let lowest = info["mempoolminfee"].as_f64().unwrap() * 1e5;
        assert!((newest["min_fee"].as_f64().unwrap() - lowest).abs() < 1e-9, "{span}");
        assert!(newest["added"].as_u64().unwrap() > 1_600_000_000, "{span}");
    }
    assert_eq!(world.rest.refusal("/v1/statistics/5y").0, 404);
    assert_eq!(world.rest.get("/api/v1/statistics/2h").status, 200);
}
