//! Other servers start on a private node and agree with each other about a generated chain.
//!
//! electrs takes long to build, so its part runs only when it is asked for (`make test PEERS=e-x,electrs`). Its
//! differences are listed, and fail nothing.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use birdhouse_testkit::client::{Client, scripthash};
use birdhouse_testkit::mix::{self, Size};
use birdhouse_testkit::peers::{Electrs, ElectrumX, part};
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options};
use serde_json::{Value, json};

const BATCH: usize = 200;

fn grown() -> (Bitcoind, ChainBuilder) {
    let node = Bitcoind::start(Options::default().with_indexes()).unwrap();
    let chain = mix::sample(21, Size::SMALL);
    chain.submit_to(&node).unwrap();
    (node, chain)
}

/// Returns all script hashes except the genesis block's, whose output can never be spent: `ElectrumX` leaves it out.
fn scripthashes(chain: &ChainBuilder) -> Vec<String> {
    let outputs = chain.blocks().iter().skip(1).flat_map(|block| &block.txdata).flat_map(|tx| &tx.output);
    let scripts: BTreeSet<&[u8]> = outputs.map(|output| output.script_pubkey.as_bytes()).collect();
    scripts.into_iter().filter(|script| script.first() != Some(&0x6a)).map(scripthash).collect()
}

fn ask(client: &mut Client, method: &str, scripthashes: &[String]) -> Vec<Value> {
    let mut answers = Vec::new();
    for some in scripthashes.chunks(BATCH) {
        let requests: Vec<_> = some.iter().map(|scripthash| (method, json!([scripthash]))).collect();
        answers.extend(client.batch(&requests).unwrap().into_iter().map(Result::unwrap));
    }
    answers
}

/// Sorts a list, because the protocol leaves the order of `listunspent` open.
fn sorted(mut unspent: Value) -> Value {
    if let Value::Array(entries) = &mut unspent {
        entries.sort_by_key(ToString::to_string);
    }
    unspent
}

fn list_differences(method: &str, scripthashes: &[String], ours: &[Value], theirs: &[Value]) {
    for (scripthash, (ours, theirs)) in scripthashes.iter().zip(ours.iter().zip(theirs)) {
        if ours != theirs {
            part::fault(part::ELECTRS, &format!("{method} {scripthash}: {theirs} instead of {ours}"));
        }
    }
}

#[test]
fn peers_agree_about_every_script_and_follow_a_reorg() {
    let (node, mut chain) = grown();
    let Some(mut electrumx) = part::start_if_asked(part::ELECTRUMX, || ElectrumX::start(&node)) else { return };
    let mut electrs = part::start_if_asked(part::ELECTRS, || Electrs::start(&node));
    for round in 0..2 {
        let scripthashes = scripthashes(&chain);
        let mut client = electrumx.client().unwrap();
        let histories = ask(&mut client, "blockchain.scripthash.get_history", &scripthashes);
        assert!(histories.iter().all(|history| history.as_array().is_some_and(|list| !list.is_empty())));
        if let Some(electrs) = &mut electrs {
            electrs.wait_for_tip(&node).unwrap();
            let mut other = electrs.client().unwrap();
            let theirs = ask(&mut other, "blockchain.scripthash.get_history", &scripthashes);
            list_differences("get_history", &scripthashes, &histories, &theirs);
            let [ours, theirs] = [&mut client, &mut other].map(|client| {
                let unspent = ask(client, "blockchain.scripthash.listunspent", &scripthashes);
                unspent.into_iter().map(sorted).collect::<Vec<_>>()
            });
            list_differences("listunspent", &scripthashes, &ours, &theirs);
        }
        if round == 0 {
            chain.rollback_to(chain.height() - 5);
            for _ in 0..6 {
                mix::random_traffic(&mut chain, 8, 30);
                chain.mine_block();
            }
            chain.submit_to(&node).unwrap();
            electrumx.wait_for_tip(&node).unwrap();
        }
    }
}

#[test]
fn error_of_a_missing_program_says_how_to_install_it() {
    let error =
        birdhouse_regtest::Error::Missing { program: "electrs", script: "scripts/peers electrs", variable: "ELECTRS" };
    assert!(error.to_string().contains("run `scripts/peers electrs`"), "{error}");
}
