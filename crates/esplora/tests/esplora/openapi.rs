//! Answers of many kinds against the forms that `/openapi.json` has for them.

use birdhouse_testkit::openapi::OpenApi;
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use bitcoin::consensus::encode::serialize_hex;
use serde_json::{Value, json};

use crate::world::World;

#[test]
fn answers_with_every_member_have_the_forms_of_the_document() {
    let mut world = World::small(178);
    let parent = world.live.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, 5), 90_000)]).unwrap();
    let coins = world.live.coins();
    let coin = coins.into_iter().find(|coin| coin.outpoint.txid == parent.compute_txid()).unwrap();
    let child = world.live.pay_from(&[coin], &[Payment::to_lock(Lock::new(Form::P2wpkh, 6), 30_000)], 9_000).unwrap();
    let [first, _, last] = world.versions();
    world.sync();
    assert!(world.rest.server.record_mempool());
    let document = OpenApi::new(world.rest.json("/openapi.json"));
    let check = |verb: &str, path: &str, answer: &Value| {
        assert_eq!(document.check(verb, path, answer), Ok(()), "{path}");
    };
    let (confirmed, child) = (world.live.ledger().chain()[2].txids[0], child.compute_txid());
    for (path, asked) in [
        ("/v1/cpfp/{txid}", format!("/v1/cpfp/{child}")),
        ("/v1/cpfp/{txid}", format!("/v1/cpfp/{}", parent.compute_txid())),
        ("/v1/cpfp/{txid}", format!("/v1/cpfp/{confirmed}")),
        ("/v1/tx/{txid}/rbf", format!("/v1/tx/{}/rbf", first.compute_txid())),
        ("/v1/tx/{txid}/rbf", format!("/v1/tx/{}/rbf", last.compute_txid())),
        ("/v1/tx/{txid}/rbf", format!("/v1/tx/{child}/rbf")),
        ("/v1/replacements", "/v1/replacements".into()),
        ("/v1/fullrbf/replacements", "/v1/fullrbf/replacements".into()),
        ("/v1/transaction-times", format!("/v1/transaction-times?txId[]={child}&txId[]={confirmed}")),
        ("/v1/difficulty-adjustment", "/v1/difficulty-adjustment".into()),
        ("/v1/validate-address/{address}", "/v1/validate-address/bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080".into()),
        ("/v1/validate-address/{address}", "/v1/validate-address/bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt081".into()),
        ("/v1/validate-address/{address}", "/v1/validate-address/nothing".into()),
        ("/v1/statistics/{span}", "/v1/statistics/1m".into()),
        ("/v1/fees/mempool-blocks", "/v1/fees/mempool-blocks".into()),
        ("/mempool", "/mempool".into()),
        ("/mempool/recent", "/mempool/recent".into()),
        ("/tx/{txid}", format!("/tx/{child}")),
        ("/tx/{txid}", format!("/tx/{confirmed}")),
    ] {
        check("GET", path, &world.rest.json(&asked));
    }
    let spent_twice = json!([serialize_hex(&first)]).to_string();
    let package = json!([serialize_hex(&parent)]).to_string();
    for (path, body) in [("/txs/test", &spent_twice), ("/txs/test", &package), ("/txs/package", &package)] {
        let got = world.rest.post(path, body);
        assert_eq!(got.status, 200, "{path}: {}", got.text());
        check("POST", path, &serde_json::from_str(&got.text()).unwrap());
    }
}
