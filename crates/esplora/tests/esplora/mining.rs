//! Sizes, fee rates and order of the mempool against those of the node that mines it.

use std::collections::{BTreeSet, HashSet};

use birdhouse_esplora::Projection;
use birdhouse_testkit::rng::{Rng, rounds};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment, signed_as};
use bitcoin::consensus::encode::serialize_hex;
use bitcoin::{OutPoint, ScriptBuf, Transaction, Txid, transaction};
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

/// Cf. `prioritisetransaction`: the node mines such a transaction first.
#[test]
fn a_fee_that_the_operator_adds_is_in_the_projected_blocks_at_once() {
    let mut world = World::small(163);
    let cheap = world.live.pay(&[Payment::to_lock(Lock::new(Form::P2wpkh, 805_000), 30_000)]).unwrap().compute_txid();
    world.sync();
    let dearest = |world: &World| {
        let blocks = world.rest.json("/v1/fees/mempool-blocks");
        blocks[0]["feeRange"].as_array().unwrap().last().unwrap().as_f64().unwrap()
    };
    let before = dearest(&world);
    world.live.node().rpc("prioritisetransaction", json!([cheap.to_string(), 0, 1_000_000])).unwrap();
    world.sync();
    let entry = world.live.node().rpc("getmempoolentry", json!([cheap.to_string()])).unwrap();
    let rate = entry["fees"]["chunk"].as_f64().unwrap() * SAT * 4.0 / entry["chunkweight"].as_f64().unwrap();
    assert!((dearest(&world) - rate).abs() < 1e-6 && rate > before, "{before}, {rate}");
}

/// Families of a parent and its children that fill more than a block, and of these the ones that pay more.
const FAMILIES: usize = 12;
const DEARER_FAMILIES: usize = 8;
/// Children of each parent.
const CHILDREN: u64 = 10;
/// Bytes of the data that each child carries. A cluster has at most 101 000 virtual bytes (`-limitclustersize`).
const CHILD_BYTES: usize = 9_000;

/// A parent that pays little with ten children that pay much: the node mines all of them for the rate of all, where
/// the parent with one child pays half of that.
#[test]
fn a_payment_of_the_recommended_rate_is_mined_beside_parents_with_many_paying_children() {
    let mut world = World::small(165);
    let lock = |number: usize| Lock::new(Form::P2wpkh, 870_000 + u32::try_from(number).unwrap());
    let coin = world.live.confirmed_coins().into_iter().max_by_key(Coin::sat).unwrap();
    let funds: Vec<Payment> = (0..FAMILIES).map(|family| Payment::to_lock(lock(family), 20_000_000)).collect();
    let funding = world.live.pay_from(&[coin], &funds, 20_000).unwrap();
    world.live.mine().unwrap();
    let data = ScriptBuf::new_op_return(bitcoin::script::PushBytesBuf::try_from(vec![7; CHILD_BYTES]).unwrap());
    for (family, coin) in made(&world, &funding)[..FAMILIES].iter().enumerate() {
        let payments: Vec<Payment> = (0..CHILDREN).map(|_| Payment::to_lock(lock(family), 1_900_000)).collect();
        let parent = world.live.pay_from(std::slice::from_ref(coin), &payments, 600).unwrap();
        let fee = if family < DEARER_FAMILIES { 90_000 } else { 70_000 };
        for coin in &made(&world, &parent)[..payments.len()] {
            let child = [Payment::to_script(data.clone(), 0)];
            world.live.pay_from(std::slice::from_ref(coin), &child, fee).unwrap();
        }
    }
    world.sync();
    let mined = template(&mut world);
    let mut rates: Vec<f64> = mined.iter().map(|one| node_rate(&world, &one["txid"])).collect();
    rates.sort_unstable_by(f64::total_cmp);
    let (lowest, median) = (rates[0], rates[rates.len() / 2]);
    assert!(lowest > 7.0 && median > lowest, "{rates:?}");
    // mempool's server recommends the median of a full block, rounded up.
    let recommended = &world.rest.json("/api/v1/fees/recommended")["fastestFee"];
    assert!((recommended.as_f64().unwrap() - median.ceil()).abs() < 1e-9, "{recommended}, {median}");
    let block = &world.rest.json("/api/v1/fees/mempool-blocks")[0];
    assert!((block["feeRange"][0].as_f64().unwrap() - lowest).abs() < 1e-9, "{block}");
    assert!((block["medianFee"].as_f64().unwrap() - median).abs() < 1e-9, "{block}");
}

/// Returns the coins that a transaction has made, in the order of its outputs.
pub(crate) fn made(world: &World, tx: &Transaction) -> Vec<Coin> {
    let txid = tx.compute_txid();
    world.live.coins().into_iter().filter(|coin| coin.outpoint.txid == txid).collect()
}

/// Returns the rate in sat/vB at which the node mines a transaction of its mempool.
pub(crate) fn node_rate(world: &World, txid: &Value) -> f64 {
    let entry = world.live.node().rpc("getmempoolentry", json!([txid])).unwrap();
    (entry["fees"]["chunk"].as_f64().unwrap() * SAT).round() * 4.0 / entry["chunkweight"].as_f64().unwrap()
}

/// Confirmed coins with which the random mempools begin.
const COINS: usize = 600;
/// Transactions of a mempool after which it is mined.
const TRANSACTIONS_MAX: usize = 350;
/// Fee rates in thousandths of a sat/vB, so that several clusters have the same.
const RATES: [u64; 8] = [100, 500, 1000, 1000, 2000, 5000, 20_000, 60_000];
/// Transactions of a cluster, at most: `-limitclustercount`.
const CLUSTER_MAX: u64 = 64;
/// Rounds of which one has a cluster as large as that.
const FILLED_EVERY: u64 = 4;
/// Refusals by the node after which a cluster takes nothing more. Fees below the node's minimum are refused, too.
const REFUSALS_MAX: u32 = 12;
const SAT: f64 = 100_000_000.0;

/// The random changes of a node's mempool.
struct Pool {
    world: World,
    rng: Rng,
    /// Coins that nothing spends, by the cluster that made them.
    clusters: Vec<Vec<Coin>>,
    /// Transactions that may be replaced, with their coins and fee.
    sent: Vec<(Vec<Coin>, u64)>,
    txids: Vec<Txid>,
    next_lock: u32,
}

impl Pool {
    fn start(seed: u64) -> Self {
        let world = World::small(seed);
        let mut pool =
            Self { world, rng: Rng::new(seed), clusters: vec![], sent: vec![], txids: vec![], next_lock: 820_000 };
        pool.forget();
        pool
    }

    /// Begins anew with confirmed coins.
    fn forget(&mut self) {
        let is_usable = |coin: &Coin| coin.sat() > 100_000 && coin.lock.form == Form::P2wpkh;
        let live = &mut self.world.live;
        let mut coins: Vec<Coin> = live.confirmed_coins().into_iter().filter(is_usable).collect();
        if coins.len() < COINS / 3 {
            let payment = Payment::to_lock(Lock::new(Form::P2wpkh, 810_000), 1_000_000);
            let coin = live.confirmed_coins().into_iter().max_by_key(Coin::sat).unwrap();
            live.pay_from(&[coin], &vec![payment; COINS], 100_000).unwrap();
            live.mine().unwrap();
            coins = live.confirmed_coins().into_iter().filter(is_usable).collect();
        }
        self.clusters = coins.into_iter().map(|coin| vec![coin]).collect();
        (self.sent, self.txids) = (vec![], vec![]);
    }

    fn send(&mut self, tx: &Transaction) -> bool {
        self.world.live.node().rpc("sendrawtransaction", json!([serialize_hex(tx), 0, "21000000"])).is_ok()
    }

    /// A transaction that spends coins and makes some, bare multisig now and then among them.
    fn transaction(&mut self, version: i32, coins: &[Coin], rate: u64) -> (Transaction, Vec<Coin>, u64) {
        let outputs = 1 + self.rng.index(4);
        let total: u64 = coins.iter().map(Coin::sat).sum();
        let vsize = 11 + 70 * coins.len() as u64 + 31 * outputs as u64;
        let fee = (rate * vsize).div_ceil(1000).min(total / 2);
        let payments: Vec<Payment> = (0..outputs)
            .map(|_| {
                let form = if self.rng.per_mille(60) { Form::BareMultisig } else { Form::P2wpkh };
                self.next_lock += u32::from(self.rng.per_mille(300));
                Payment::to_lock(Lock::new(form, self.next_lock), (total - fee) / outputs as u64)
            })
            .collect();
        let wallet = self.world.live.wallet().clone();
        let tx = signed_as(transaction::Version(version), &wallet, coins, &payments);
        let txid = tx.compute_txid();
        let made = (0..).zip(&payments).map(|(vout, payment)| Coin {
            outpoint: OutPoint { txid, vout },
            output: payment.output(&wallet),
            lock: payment.lock().unwrap(),
            spendable_from: 0,
        });
        (tx, made.collect(), fee)
    }

    /// Spends coins of one cluster, or of two that become one.
    fn grow(&mut self) {
        let at = if self.rng.per_mille(700) {
            self.rng.index(self.clusters.len().min(12))
        } else {
            self.rng.index(self.clusters.len())
        };
        if self.rng.per_mille(150) {
            let other = self.rng.index(self.clusters.len());
            let mut coins = std::mem::take(&mut self.clusters[other]);
            self.clusters[at].append(&mut coins);
        }
        self.spend_in(at);
        self.clusters.retain(|cluster| !cluster.is_empty());
    }

    /// Spends some coins of a cluster; returns the transaction, unless the node refuses it.
    fn spend_in(&mut self, at: usize) -> Option<Txid> {
        let mut cluster = std::mem::take(&mut self.clusters[at]);
        let mut coins = Vec::new();
        for _ in 0..=self.rng.below(3) {
            if !cluster.is_empty() {
                coins.push(cluster.swap_remove(self.rng.index(cluster.len())));
            }
        }
        let mut sent = None;
        if !coins.is_empty() {
            let rate = *self.rng.pick(&RATES);
            let (tx, made, fee) = self.transaction(2, &coins, rate);
            if self.send(&tx) {
                sent = Some(tx.compute_txid());
                self.txids.extend(sent);
                self.sent.push((coins, fee));
                cluster.extend(made);
            } else {
                cluster.append(&mut coins);
            }
        }
        self.clusters[at] = cluster;
        sent
    }

    /// Lets a cluster grow until the node takes no more into it; returns one of its transactions.
    fn fill(&mut self) -> Option<Txid> {
        let at = self.rng.index(self.clusters.len());
        let (mut last, mut refusals) = (None, 0);
        while refusals < REFUSALS_MAX {
            match self.spend_in(at) {
                Some(sent) => last = Some(sent),
                None => refusals += 1,
            }
        }
        self.clusters.retain(|cluster| !cluster.is_empty());
        last
    }

    /// The number of transactions of a cluster at the node.
    fn size(&self, txid: Txid) -> u64 {
        let cluster = self.world.live.node().rpc("getmempoolcluster", json!([txid.to_string()])).unwrap();
        cluster["txcount"].as_u64().unwrap()
    }

    /// Pays more for the coins of a transaction; what spent from it goes.
    fn replace(&mut self) {
        if self.sent.is_empty() {
            return;
        }
        let (coins, fee) = self.sent.swap_remove(self.rng.index(self.sent.len()));
        let total: u64 = coins.iter().map(Coin::sat).sum();
        let more = (fee * (2 + self.rng.below(20)) + 1000).min(total / 2);
        let (tx, made, fee) = self.transaction(2, &coins, more * 1000 / (11 + 70 * coins.len() as u64));
        if self.send(&tx) {
            self.txids.push(tx.compute_txid());
            self.sent.push((coins, fee));
            self.clusters.push(made);
        }
    }

    /// A TRUC parent without a fee, and its child that pays for both.
    fn package(&mut self) {
        let at = self.rng.index(self.clusters.len());
        let Some(coin) = self.clusters[at].pop().filter(|coin| !self.txids.contains(&coin.outpoint.txid)) else {
            return;
        };
        let (parent, made, _) = self.transaction(3, &[coin], 0);
        let rate = *self.rng.pick(&RATES) + 1000;
        let (child, _, _) = self.transaction(3, &made[..1], 2 * rate);
        let raw: Vec<String> = [&parent, &child].map(serialize_hex).into();
        if self.world.live.node().rpc("submitpackage", json!([raw, 0, "21000000"])).is_ok() {
            self.txids.extend([parent.compute_txid(), child.compute_txid()]);
        }
        self.clusters.retain(|cluster| !cluster.is_empty());
    }

    fn prioritise(&mut self) {
        if !self.txids.is_empty() {
            let txid = *self.rng.pick(&self.txids);
            let delta = i64::try_from(self.rng.below(30_000)).unwrap() - 5000;
            self.world.live.node().rpc("prioritisetransaction", json!([txid.to_string(), 0, delta])).unwrap();
        }
    }

    fn change(&mut self) {
        match self.rng.below(100) {
            ..82 => self.grow(),
            82..90 => self.replace(),
            90..95 => self.package(),
            _ => self.prioritise(),
        }
    }

    /// Compares every rate and the order with the node's; returns true if the node knows that its order is optimal.
    fn check(&mut self) -> bool {
        self.world.sync();
        let template: Vec<Txid> =
            template(&mut self.world).iter().map(|one| one["txid"].as_str().unwrap().parse().unwrap()).collect();
        let node = self.world.live.node();
        let is_optimal = node.rpc("getmempoolinfo", json!([])).unwrap()["optimal"] == json!(true);
        let entries = node.rpc("getrawmempool", json!([true])).unwrap();
        let projection = Projection::of(&self.world.rest.index.snapshot().unwrap());
        for (txid, entry) in entries.as_object().unwrap() {
            let place = projection.place(&txid.parse().unwrap()).unwrap();
            let fee = (entry["fees"]["chunk"].as_f64().unwrap() * SAT).round();
            let rate = fee * 4.0 / entry["chunkweight"].as_f64().unwrap();
            let is_equal = (place.rate - rate).abs() <= 1e-9 * rate.abs().max(1.0);
            assert!(is_equal || !is_optimal, "{txid}: {} for {rate}", place.rate);
        }
        if is_optimal {
            let mined: Vec<Txid> = projection.transactions(0).to_vec();
            // The node mines nothing below its own minimum for blocks.
            let mined = &mined[..template.len().min(mined.len())];
            // Inside a chunk the node keeps an older order where its rate does not change.
            let by_chunk = |txids: &[Txid]| {
                let of = |txid: &Txid| {
                    let entry = &entries[&txid.to_string()];
                    (entry["fees"]["chunk"].to_string(), entry["chunkweight"].to_string())
                };
                let groups = txids.chunk_by(|left, right| of(left) == of(right));
                groups.map(|group| group.iter().copied().collect()).collect::<Vec<BTreeSet<Txid>>>()
            };
            assert_eq!(by_chunk(mined), by_chunk(&template), "the order of chunks");
        }
        is_optimal
    }

    /// Compares the answers about a transaction of the mempool.
    fn check_any(&mut self) {
        let all = self.world.live.node().rpc("getrawmempool", json!([])).unwrap();
        let Some(txid) = all.as_array().filter(|all| !all.is_empty()).map(|all| self.rng.pick(all)) else { return };
        self.check_one(txid);
    }

    fn check_one(&self, txid: &Value) {
        let node = self.world.live.node();
        let cluster = node.rpc("getmempoolcluster", json!([txid])).unwrap();
        let cpfp = self.world.rest.json(&format!("/v1/cpfp/{}", txid.as_str().unwrap()));
        let chunks = cluster["chunks"].as_array().unwrap();
        if cluster["txcount"] == json!(1) {
            assert_eq!(cpfp["cluster"], Value::Null);
            return;
        }
        let theirs: Vec<HashSet<&Value>> =
            chunks.iter().map(|chunk| chunk["txs"].as_array().unwrap().iter().collect()).collect();
        let (txs, ours) = (&cpfp["cluster"]["txs"], cpfp["cluster"]["chunks"].as_array().unwrap());
        let named = |chunk: &Value| -> HashSet<&Value> {
            chunk["txs"].as_array().unwrap().iter().map(|at| &txs[index(at)]["txid"]).collect()
        };
        let ours_named: Vec<HashSet<&Value>> = ours.iter().map(named).collect();
        assert_eq!(ours_named, theirs, "{cluster}");
        let own = index(&cpfp["cluster"]["chunkIndex"]);
        assert!(theirs[own].contains(&txid));
        assert_eq!(ours[own]["feerate"], cpfp["effectiveFeePerVsize"]);
    }
}

fn index(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

/// `BIRDHOUSE_ROUNDS=1000` checks that many mempools, `BIRDHOUSE_FROM` chooses others.
#[test]
fn random_mempools_are_ranked_as_the_node_mines_them() {
    let rounds = rounds(8);
    let (first, count) = (rounds.start, rounds.end - rounds.start);
    let mut pool = Pool::start(162 + first);
    let (mut optimal, mut largest, mut largest_cluster) = (0, 0, 0);
    for round in rounds {
        for _ in 0..20 + pool.rng.below(60) {
            pool.change();
        }
        let full = if round % FILLED_EVERY == 0 { pool.fill() } else { None };
        let full = full.map(|txid| (txid, pool.size(txid)));
        largest_cluster = largest_cluster.max(full.map_or(0, |(_, size)| size));
        if pool.check() {
            optimal += 1;
            pool.check_any();
            if let Some((txid, _)) = full {
                pool.check_one(&json!(txid.to_string()));
            }
        }
        let size = pool.world.rest.index.snapshot().unwrap().mempool().len();
        largest = largest.max(size);
        if size > TRANSACTIONS_MAX {
            pool.world.live.refresh().unwrap();
            pool.world.live.mine().unwrap();
            pool.forget();
        }
        println!("mempool {round} from {first} on: {size} transactions, {optimal} optimal");
    }
    assert!(optimal * 10 >= count * 9, "{optimal} of {count} mempools were optimal at the node");
    assert_eq!(largest_cluster, CLUSTER_MAX);
    assert!(largest > 50, "{largest} transactions at most");
}
