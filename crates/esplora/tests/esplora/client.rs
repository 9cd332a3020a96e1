//! The crate `esplora-client`, which BDK, LDK and others use: every method of its blocking and of its async client.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use bitcoin::{Address, Amount, FeeRate, Network, ScriptBuf, Transaction};
use esplora_client::Builder;

use crate::world::World;

/// A payment in the newest block, and one that spends from it in the mempool.
struct Case {
    world: World,
    script: ScriptBuf,
    address: Address,
    confirmed: Transaction,
    unconfirmed: Transaction,
    /// Two transactions, a parent and its child, that nobody has seen.
    package: Vec<Transaction>,
}

fn case(seed: u64) -> Case {
    let mut world = World::small(seed);
    let lock = Lock::new(Form::P2wpkh, 123_456);
    let script = world.live.wallet().script_pubkey(lock);
    let confirmed = world.live.pay(&[Payment::to_lock(lock, 300_000)]).unwrap();
    world.live.mine().unwrap();
    let coin = world.live.coins().into_iter().find(|coin| coin.output.script_pubkey == script).unwrap();
    let unconfirmed = world.live.pay_from(&[coin], &[Payment::to_lock(lock, 100_000)], 1000).unwrap();
    world.sync();
    let coin = world.live.confirmed_coins().into_iter().max_by_key(birdhouse_testkit::tx::Coin::sat).unwrap();
    let parent_lock = Lock::new(Form::P2wpkh, 123_457);
    let parent = world.live.sign(std::slice::from_ref(&coin), &[Payment::to_lock(parent_lock, coin.sat() - 500)]);
    let outpoint = bitcoin::OutPoint { txid: parent.compute_txid(), vout: 0 };
    let own = birdhouse_testkit::tx::Coin {
        outpoint,
        output: parent.output[0].clone(),
        lock: parent_lock,
        spendable_from: 0,
    };
    let child = world.live.sign(std::slice::from_ref(&own), &[Payment::to_lock(lock, own.sat() - 500)]);
    let address = Address::from_script(&script, Network::Regtest).unwrap();
    Case { world, script, address, confirmed, unconfirmed, package: vec![parent, child] }
}

/// Calls every method of a client; the last argument is `await` for the async one.
macro_rules! call_every_method {
    ($case:ident, $client:ident $(, $wait:tt)?) => {{
        let Case { world, script, address, confirmed, unconfirmed, package } = &$case;
        let ledger = world.live.ledger();
        let (height, tip) = (ledger.height(), ledger.chain().last().unwrap());
        let (confirmed_id, unconfirmed_id) = (confirmed.compute_txid(), unconfirmed.compute_txid());

        assert_eq!($client.get_height()$(.$wait)?.unwrap(), height);
        assert_eq!($client.get_tip_hash()$(.$wait)?.unwrap(), tip.hash);
        assert_eq!($client.get_block_hash(height)$(.$wait)?.unwrap(), tip.hash);
        assert_eq!($client.get_header_by_hash(&tip.hash)$(.$wait)?.unwrap(), tip.block.header);
        assert_eq!($client.get_block_by_hash(&tip.hash)$(.$wait)?.unwrap(), Some(tip.block.clone()));
        let status = $client.get_block_status(&tip.hash)$(.$wait)?.unwrap();
        assert_eq!((status.in_best_chain, status.height, status.next_best), (true, Some(height), None));
        let info = $client.get_block_info(&tip.hash)$(.$wait)?.unwrap();
        assert_eq!((info.id, info.height, info.tx_count), (tip.hash, height, tip.txids.len() as u64));
        assert_eq!($client.get_block_infos(None)$(.$wait)?.unwrap()[0].id, tip.hash);
        assert_eq!($client.get_block_infos(Some(5))$(.$wait)?.unwrap().len(), 6);
        assert_eq!($client.get_block_txids(&tip.hash)$(.$wait)?.unwrap(), tip.txids);
        assert_eq!($client.get_block_txs(&tip.hash, None)$(.$wait)?.unwrap().len(), tip.txids.len());
        assert!($client.get_block_txs(&tip.hash, Some(1))$(.$wait)?.is_err());
        assert_eq!($client.get_txid_at_block_index(&tip.hash, 1)$(.$wait)?.unwrap(), Some(confirmed_id));
        assert_eq!($client.get_txid_at_block_index(&tip.hash, 99)$(.$wait)?.unwrap(), None);

        assert_eq!($client.get_tx(&confirmed_id)$(.$wait)?.unwrap().as_ref(), Some(confirmed));
        assert_eq!($client.get_tx_no_opt(&unconfirmed_id)$(.$wait)?.unwrap(), *unconfirmed);
        let unknown = bitcoin::hashes::Hash::all_zeros();
        assert_eq!($client.get_tx(&unknown)$(.$wait)?.unwrap(), None);
        assert_eq!($client.get_tx_status(&confirmed_id)$(.$wait)?.unwrap().block_height, Some(height));
        assert!(!$client.get_tx_status(&unconfirmed_id)$(.$wait)?.unwrap().confirmed);
        let info = $client.get_tx_info(&unconfirmed_id)$(.$wait)?.unwrap().unwrap();
        assert_eq!((info.to_tx(), info.fee.to_sat(), info.weight), (unconfirmed.clone(), 1000, unconfirmed.weight()));
        let spends = $client.get_tx_outspends(&confirmed_id)$(.$wait)?.unwrap();
        assert_eq!(spends.len(), confirmed.output.len());
        assert_eq!((spends[0].spent, spends[0].txid, spends[0].vin), (true, Some(unconfirmed_id), Some(0)));
        let spend = $client.get_output_status(&confirmed_id, 1)$(.$wait)?.unwrap().unwrap();
        assert!(!spend.spent);
        let proof = $client.get_merkle_proof(&confirmed_id)$(.$wait)?.unwrap().unwrap();
        assert_eq!((proof.block_height, proof.pos), (height, 1));
        assert!($client.get_merkle_proof(&unconfirmed_id)$(.$wait)?.unwrap().is_none());
        let proof = $client.get_merkle_block(&confirmed_id)$(.$wait)?.unwrap().unwrap();
        let (mut found, mut indexes) = (Vec::new(), Vec::new());
        assert_eq!(proof.extract_matches(&mut found, &mut indexes).unwrap(), ());
        assert_eq!((found, indexes), (vec![confirmed_id], vec![1]));

        let stats = $client.get_address_stats(address)$(.$wait)?.unwrap();
        assert_eq!(stats.chain_stats.funded_txo_sum, Amount::from_sat(300_000));
        assert_eq!(stats.mempool_stats.spent_txo_sum, Amount::from_sat(300_000));
        assert_eq!($client.get_scripthash_stats(script)$(.$wait)?.unwrap().chain_stats, stats.chain_stats);
        let txids = |transactions: Vec<esplora_client::EsploraTx>| -> Vec<bitcoin::Txid> {
            transactions.iter().map(|transaction| transaction.txid).collect()
        };
        let both = vec![unconfirmed_id, confirmed_id];
        assert_eq!(txids($client.get_address_txs(address, None)$(.$wait)?.unwrap()), both);
        assert_eq!(txids($client.get_scripthash_txs(script, None)$(.$wait)?.unwrap()), both);
        assert!($client.get_address_txs(address, Some(confirmed_id))$(.$wait)?.unwrap().is_empty());
        assert_eq!(txids($client.get_mempool_address_txs(address)$(.$wait)?.unwrap()), both[..1]);
        assert_eq!(txids($client.get_mempool_scripthash_txs(script)$(.$wait)?.unwrap()), both[..1]);
        let coins = $client.get_address_utxos(address)$(.$wait)?.unwrap();
        assert_eq!((coins.len(), coins[0].txid, coins[0].value.to_sat()), (1, unconfirmed_id, 100_000));
        assert_eq!($client.get_scripthash_utxos(script)$(.$wait)?.unwrap(), coins);

        let mempool = $client.get_mempool_stats()$(.$wait)?.unwrap();
        assert_eq!((mempool.count, mempool.total_fee), (1, Amount::from_sat(1000)));
        assert_eq!($client.get_mempool_txids()$(.$wait)?.unwrap(), [unconfirmed_id]);
        assert_eq!($client.get_mempool_recent_txs()$(.$wait)?.unwrap()[0].txid, unconfirmed_id);
        assert!($client.get_fee_estimates()$(.$wait)?.unwrap().is_empty());

        let rate = FeeRate::from_sat_per_vb(100);
        let sent = $client.submit_package(package, rate, Some(Amount::from_sat(0)))$(.$wait)?.unwrap();
        assert_eq!((sent.package_msg.as_str(), sent.tx_results.len()), ("success", 2));
        let refused = $client.broadcast(confirmed)$(.$wait)?.unwrap_err();
        assert!(refused.to_string().contains("-27"), "{refused}");
    }};
}

#[test]
fn the_blocking_client_of_rust_gets_every_answer() {
    let case = case(61);
    let client = Builder::new(&case.world.rest.url()).build_blocking();
    call_every_method!(case, client);
    assert_eq!(client.broadcast(&case.unconfirmed).unwrap(), case.unconfirmed.compute_txid());
}

#[test]
fn the_async_client_of_rust_gets_every_answer() {
    let case = case(62);
    let client = Builder::new(&case.world.rest.url()).build_async().unwrap();
    tokio::runtime::Runtime::new().unwrap().block_on(async { call_every_method!(case, client, await) });
}
