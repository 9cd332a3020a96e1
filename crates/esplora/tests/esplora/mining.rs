//! Sizes, fee rates and order of the mempool against those of the node that mines it.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use serde_json::{Value, json};

use crate::world::World;

/// Seconds after which the node makes another template.
const TEMPLATE_S: u64 = 6;

/// The node's template of the next block.
fn template(world: &mut World) -> Vec<Value> {
    world.live.advance_clock(TEMPLATE_S).unwrap();
    let template = world.live.node().rpc("getblocktemplate", json!([{ "rules": ["segwit"] }])).unwrap();
    template["transactions"].as_array().unwrap().clone()
}

/// Bare multisig weighs more than its bytes, and so does much of it in witness and redeem scripts.
#[test]
fn signature_operations_weigh_as_in_the_node() {
    let mut world = World::small(161);
    let pay = |form| Payment::to_lock(Lock::new(form, 800_000), 30_000);
    let paid = Form::SPENDABLE.map(pay);
    let two = [pay(Form::BareMultisig), pay(Form::BareMultisig)];
    for payments in [&paid[..], &two] {
        let payment = world.live.pay(payments).unwrap();
        let script = |coin: &Coin| coin.outpoint.txid == payment.compute_txid() && coin.sat() == 30_000;
        let coins: Vec<Coin> = world.live.coins().into_iter().filter(script).collect();
        world.live.pay_from(&coins, &[], 20_000).unwrap();
    }
    world.sync();
    let templates = template(&mut world);
    assert_eq!(templates.len(), 4);
    let (mut sum, mut heavier) = (0, 0);
    for transaction in &templates {
        let txid = transaction["txid"].as_str().unwrap();
        let entry = world.live.node().rpc("getmempoolentry", json!([txid])).unwrap();
        let cpfp = world.rest.json(&format!("/v1/cpfp/{txid}"));
        assert_eq!(cpfp["sigops"], transaction["sigops"], "{cpfp}");
        let adjusted = cpfp["adjustedVsize"].as_f64().unwrap();
        assert_eq!(Some(adjusted.ceil()), entry["vsize"].as_f64(), "{cpfp}");
        sum += entry["vsize"].as_u64().unwrap();
        heavier += usize::from(adjusted * 4.0 > entry["weight"].as_f64().unwrap());
    }
    assert!(heavier >= 1, "a transaction that pays bare multisig weighs more");
    assert_eq!(world.rest.json("/v1/fees/mempool-blocks")[0]["blockVSize"], json!(sum));
    let plain: u64 = templates.iter().map(|transaction| transaction["weight"].as_u64().unwrap().div_ceil(4)).sum();
    assert_eq!(world.rest.json("/mempool")["vsize"], json!(plain), "Esplora has plain sizes");
}
