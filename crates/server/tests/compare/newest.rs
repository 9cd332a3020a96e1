//! Protocol 1.7, compared with the server of its authors: scripts by their bytes, outpoints, the mempool.

use std::time::{Duration, Instant};

use birdhouse_testkit::Options;
use birdhouse_testkit::client::{Client, Notification};
use birdhouse_testkit::mix::Size;
use birdhouse_testkit::peers::{ElectrumX, Peer, part};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{ScriptBuf, Transaction};
use serde_json::{Value, json};

use crate::world::World;

const TINY: Size = Size { blocks: 20, block_txs: 6, scripts_per_form: 30, busy: &[10, 300] };
const BATCH: usize = 100;
/// `ElectrumX` polls the mempool every five seconds.
const PATIENCE: Duration = Duration::from_mins(1);
/// Requested outputs of one transaction: `ElectrumX` sends two requests to the node for each.
const VOUTS: usize = 4;
const PAID: u64 = 100_000;

/// Birdhouse and `ElectrumX`, each with a client that speaks 1.7.
struct Both {
    ours: Side,
    theirs: Side,
}

struct Side {
    name: &'static str,
    client: Client,
    /// Notifications received and not consumed yet.
    heard: Vec<Notification>,
}

impl Both {
    fn of(ours: &Peer, theirs: &Peer) -> Self {
        let side = |name, peer: &Peer| {
            let client = Client::greet_with(peer.port(), "1.7").unwrap();
            Side { name, client, heard: Vec::new() }
        };
        Self { ours: side("Birdhouse", ours), theirs: side("ElectrumX", theirs) }
    }

    /// Asks both, and returns their common answers.
    fn ask(&mut self, method: &str, params: &[Value]) -> Vec<Value> {
        let ours = ask(&mut self.ours.client, method, params);
        let theirs = ask(&mut self.theirs.client, method, params);
        for ((params, ours), theirs) in params.iter().zip(&ours).zip(&theirs) {
            assert_eq!(ours, theirs, "{method} {params}");
        }
        ours
    }

    /// Waits until the answers of both satisfy `wanted`.
    fn wait_for(&mut self, method: &str, params: &Value, wanted: impl Fn(&Value) -> bool) {
        for Side { client, .. } in [&mut self.ours, &mut self.theirs] {
            let start = Instant::now();
            while !wanted(&client.call(method, params.clone()).unwrap()) {
                assert!(start.elapsed() < PATIENCE, "{method} {params}");
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    /// Returns the next `count` notifications of this method from both, in any order. (`ElectrumX` also sends pings.)
    fn notifications(&mut self, method: &str, count: usize) -> Vec<Value> {
        let [ours, theirs] = [&mut self.ours, &mut self.theirs].map(|side| {
            let mut found: Vec<Value> = (0..count).map(|_| side.notification(method)).collect();
            found.sort_by_key(ToString::to_string);
            found
        });
        assert_eq!(ours, theirs, "{method}");
        ours
    }
}

impl Side {
    fn notification(&mut self, method: &str) -> Value {
        loop {
            if let Some(index) = self.heard.iter().position(|heard| heard.method == method) {
                return self.heard.remove(index).params;
            }
            let next = self.client.notification(PATIENCE).unwrap();
            self.heard.push(next.unwrap_or_else(|| panic!("{} sends no notification of {method}", self.name)));
        }
    }
}

fn ask(client: &mut Client, method: &str, params: &[Value]) -> Vec<Value> {
    let mut answers = Vec::new();
    for chunk in params.chunks(BATCH) {
        let requests: Vec<_> = chunk.iter().map(|params| (method, params.clone())).collect();
        answers.extend(client.batch(&requests).unwrap().into_iter().map(|answer| in_one_order(answer.unwrap())));
    }
    answers
}

/// Sorts an answer: the order of unspent outputs is not fixed, nor that of new mempool transactions.
fn in_one_order(mut answer: Value) -> Value {
    let list = if answer.is_array() { Some(&mut answer) } else { answer.get_mut("utxos") };
    if let Some(Value::Array(entries)) = list {
        entries.sort_by_key(ToString::to_string);
    }
    answer
}

fn lock(number: u32) -> Lock {
    Lock::new(Form::P2wpkh, 800_000 + number)
}

#[test]
fn the_newest_protocol_equals_that_of_electrumx() {
    let mut world = World::new(15, TINY, 5, Options::default().with_indexes());
    world.start("at 1.7", "full", &[]);
    world.reorg(3);
    let Some(electrumx) = part::start_if_asked(part::ELECTRUMX, || ElectrumX::start(&world.node)) else { return };
    let mut both = Both::of(&world.servers[0].peer, &electrumx);
    of_blocks(&world, &mut both);
    of_the_mempool(&mut world, &mut both);
}

fn of_blocks(world: &World, both: &mut Both) {
    let scripts: Vec<Value> = world.paid.iter().map(|script| json!([script.to_hex_string()])).collect();
    for verb in ["get_history", "get_balance", "get_mempool", "listunspent", "subscribe", "unsubscribe"] {
        both.ask(&format!("blockchain.scriptpubkey.{verb}"), &scripts);
    }
    let mut outpoints = vec![json!(["ab".repeat(32), 0, "51"])];
    for tx in world.chain.blocks()[1..].iter().flat_map(|block| &block.txdata).step_by(3) {
        let txid = tx.compute_txid().to_string();
        for (vout, output) in tx.output.iter().enumerate().take(VOUTS) {
            outpoints.push(json!([txid, vout, output.script_pubkey.to_hex_string()]));
        }
        outpoints.push(json!([txid, tx.output.len(), "51"]));
    }
    eprintln!("{} scripts, {} outpoints", scripts.len(), outpoints.len());
    let statuses = both.ask("blockchain.outpoint.get_status", &outpoints);
    for members in [0, 1, 3] {
        assert!(statuses.iter().any(|status| status.as_object().unwrap().len() == members), "{members}");
    }
}

/// A payment, its spending, and their block: equal notifications.
fn of_the_mempool(world: &mut World, both: &mut Both) {
    let (parent, child) = payment_and_spending(world);
    let script = |number| -> ScriptBuf { world.chain.wallet().script_pubkey(lock(number)) };
    let (one, two) = (script(1).to_hex_string(), script(2).to_hex_string());
    let paid = &child.input[0].previous_output;
    let outpoint = json!([paid.txid.to_string(), paid.vout, one]);
    let raws = json!([[serialize_hex(&parent), serialize_hex(&child)]]);
    both.ask("blockchain.transaction.testmempoolaccept", &[raws, json!([[serialize_hex(&child)]])]);
    both.ask("blockchain.outpoint.subscribe", std::slice::from_ref(&outpoint));
    both.ask("blockchain.scriptpubkey.subscribe", &[json!([two])]);

    for tx in [&parent, &child] {
        world.node.rpc("sendrawtransaction", json!([serialize_hex(tx)])).unwrap();
        let entries = if tx == &parent { 1 } else { 2 };
        both.wait_for("blockchain.scriptpubkey.get_mempool", &json!([one]), |mempool| {
            mempool["history"].as_array().unwrap().len() == entries
        });
        both.notifications("blockchain.outpoint.subscribe", 1);
    }
    both.notifications("blockchain.scriptpubkey.subscribe", 1);
    let scripts = [json!([one]), json!([two])];
    for verb in ["get_history", "get_balance", "get_mempool", "listunspent", "subscribe"] {
        both.ask(&format!("blockchain.scriptpubkey.{verb}"), &scripts);
    }
    let child_outpoint = json!([child.compute_txid().to_string(), 0, two]);
    both.ask("blockchain.outpoint.get_status", &[outpoint.clone(), child_outpoint]);
    both.ask("mempool.recent", &[json!([])]);
    both.ask("server.ping", &[json!([]), json!([7]), json!([3, "abc"])]);

    world.chain.submit_to(&world.node).unwrap();
    let spent = both.notifications("blockchain.outpoint.subscribe", 1);
    assert_eq!(spent[0][2]["spender_height"], json!(world.chain.height()));
    both.notifications("blockchain.scriptpubkey.subscribe", 2);
    both.ask("blockchain.outpoint.unsubscribe", &[json!([outpoint[0], outpoint[1]]), json!([outpoint[0], 9])]);
}

/// Two transactions of the next block that no node has yet: the second spends the first's payment to our lock 1.
fn payment_and_spending(world: &mut World) -> (Transaction, Transaction) {
    let parent = world.chain.pay(&[Payment::to_lock(lock(1), PAID)]);
    let coin = world.chain.coins().find(|coin| coin.lock == lock(1)).unwrap().clone();
    let child = world.chain.spend(&[coin], &[Payment::to_lock(lock(2), PAID - 700)]);
    let block = world.chain.mine_block().clone();
    let find = |txid| block.txdata.iter().find(|tx| tx.compute_txid() == txid).unwrap().clone();
    (find(parent), find(child))
}
