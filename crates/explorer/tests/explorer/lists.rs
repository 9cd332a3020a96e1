//! Lists of transactions with their inputs and outputs, projected blocks, and what the first page says of the schedule.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use bitcoin::{Address, Amount, Network};
use serde_json::{Value, json};

use crate::pages::{btc, linked, page, places, text};
use crate::world::World;

/// Parties that a list shows of one side of a transaction.
const PARTIES: usize = 6;

#[test]
fn a_projected_block_has_the_transactions_of_the_nodes_template() {
    let mut world = World::small(151);
    places(&mut world);
    let template = world.live.node().rpc("getblocktemplate", json!([{ "rules": ["segwit"] }])).unwrap();
    let transactions = template["transactions"].as_array().unwrap();
    let txids: Vec<String> = transactions.iter().map(|tx| tx["txid"].as_str().unwrap().to_owned()).collect();
    assert!(txids.len() > 2, "{template}");
    let markup = page(&world, "/mempool-block/0");
    assert_eq!(linked(&markup).iter().map(ToString::to_string).collect::<Vec<_>>(), txids);
    let fees: u64 = transactions.iter().map(|tx| tx["fee"].as_u64().unwrap()).sum();
    assert!(text(&markup).contains(&format!("Fees{}", btc(fees))), "{}", text(&markup));
    assert!(page(&world, "/").contains("href=\"/mempool-block/0\""));
    assert_eq!((world.rest.get("/mempool-block/9").status, world.rest.get("/mempool-block/x").status), (404, 400));
}

#[test]
fn transactions_of_a_list_have_their_inputs_and_outputs() {
    let mut world = World::small(152);
    let places = places(&mut world);
    let ledger = world.live.ledger();
    let outputs = ledger.outputs();
    let mined = ledger.chain().last().unwrap();
    let markup = page(&world, &format!("/block/{}", mined.hash));
    let rows: Vec<&str> = markup.split("<tr>").skip(2).collect();
    for (row, tx) in rows.iter().zip(&mined.block.txdata) {
        let spent = tx.input.iter().filter_map(|input| outputs.get(&input.previous_output));
        let parties =
            spent.map(|output| output.output.clone()).take(PARTIES).chain(tx.output.iter().take(PARTIES).cloned());
        let plain = text(row);
        for output in parties {
            assert!(plain.contains(&btc(output.value.to_sat())), "{plain}");
            if let Ok(address) = Address::from_script(&output.script_pubkey, Network::Regtest) {
                assert!(row.contains(&format!("href=\"/address/{address}\"")), "{plain}");
            }
        }
    }
    let history = text(&page(&world, &format!("/address/{}", places.fresh)));
    assert!(history.contains("1 input, 3 outputs") && history.contains("this page's own"), "{history}");
}

#[test]
fn the_first_page_knows_the_subsidy_and_its_next_halving() {
    let mut world = World::small(153);
    let height = world.live.ledger().height();
    let subsidy = |world: &World| -> u64 {
        let stats = world.live.node().rpc("getblockstats", json!([world.live.ledger().height(), ["subsidy"]])).unwrap();
        stats["subsidy"].as_u64().unwrap()
    };
    let plain = text(&page(&world, "/"));
    assert!(plain.contains(&format!("Subsidy{}", btc(subsidy(&world)))), "{plain}");
    assert!(plain.contains(&format!("{} blocks, about", 149 - height)), "{plain}");
    // The block after this one has the first half.
    world.live.mine_empty(usize::try_from(149 - height).unwrap()).unwrap();
    world.sync();
    let plain = text(&page(&world, "/"));
    world.live.mine_empty(1).unwrap();
    assert_eq!(subsidy(&world), 2_500_000_000);
    assert!(plain.contains(&format!("Subsidy{}", btc(2_500_000_000))), "{plain}");
}

#[test]
fn an_unconfirmed_transaction_was_first_seen_when_it_came() {
    let mut world = World::small(154);
    let began = birdhouse_esplora::clock::now();
    let paid = world.live.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, 93), 50_000)]).unwrap().compute_txid();
    world.sync();
    let markup = page(&world, &format!("/tx/{paid}"));
    let (_, seen) = markup.split_once("First seen</dt><dd><time datetime=\"").unwrap();
    let seen = seen.get(..20).unwrap();
    let times = began..=birdhouse_esplora::clock::now();
    let iso = |time: u64| birdhouse_esplora::clock::iso(u32::try_from(time).unwrap()).replace(".000Z", "Z");
    assert!(times.clone().any(|time| iso(time) == seen), "{seen} {times:?}");
    let entry = world.live.node().rpc("getmempoolentry", json!([paid])).unwrap();
    let fee = Amount::from_btc(entry["fees"]["base"].as_f64().unwrap()).unwrap().to_sat();
    assert!(text(&markup).contains(&btc(fee)), "{entry}");
    assert_ne!(entry["time"], Value::Null);
}
