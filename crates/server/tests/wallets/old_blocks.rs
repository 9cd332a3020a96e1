//! Wallets with old transactions are restored beside a pruned node, whose peer is near or far.
//!
//! The long form prints a line for each wallet: `OLD_TXS=500 ROUND_TRIP_MS=160 PREFETCH=on cargo test --workspace
//! --test wallets -- --ignored --nocapture old_blocks`.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use bdk_electrum::BdkElectrumClient;
use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::electrum::{Addresses, ElectrumWallet};
use birdhouse_testkit::http_client::HttpClient;
use birdhouse_testkit::peers::{Home, Peer};
use birdhouse_testkit::slow_link::SlowLink;
use birdhouse_testkit::tx::Payment;
use birdhouse_testkit::{Bitcoind, ChainBuilder, Options, mix};
use bitcoin::address::NetworkUnchecked;
use bitcoin::{Address, Network, ScriptBuf};
use electrum_client::raw_client::RawClient;
use serde_json::json;

use crate::electrum_wallet::{SEED, confirmed};
use crate::sparrow::Sparrow;
use crate::{bdk, serve};

/// Blocks above the old ones: more than a node keeps, and some block files of 64 KiB.
const RECENT: u32 = 400;
/// Scripts that the replay of Sparrow uses.
const SCRIPTS: u32 = 100;
const PATIENCE: Duration = Duration::from_mins(15);

struct World {
    server: Peer,
    ops: String,
    _node: Bitcoind,
    _peer: Bitcoind,
}

impl World {
    /// Pays each list of scripts in turn, `payments` times, each time in a block of its own, which the node deletes.
    fn new(wallets: &[Vec<ScriptBuf>], payments: u32, round_trip: Duration, prefetch: &str) -> Self {
        let mut chain = ChainBuilder::new(488);
        mix::mature(&mut chain);
        for number in 0..payments {
            for scripts in wallets {
                let script = scripts[number as usize % scripts.len()].clone();
                chain.pay(&[Payment::to_script(script, 10_000 + u64::from(number))]);
                chain.mine(1);
            }
        }
        let last_old = chain.height();
        for _ in 0..RECENT {
            mix::random_traffic(&mut chain, 8, 6);
            chain.mine(1);
        }
        let port = free_port().unwrap();
        let node = Bitcoind::start(Options::default().arg("-prune=1").arg("-fastprune")).unwrap();
        let bind = format!("-bind=127.0.0.1:{port}");
        let peer = Bitcoind::start(Options::default().arg("-listen=1").arg(bind)).unwrap();
        chain.submit_to(&node).unwrap();
        chain.submit_to(&peer).unwrap();
        let ops = format!("127.0.0.1:{}", free_port().unwrap());
        let flags = [format!("--ops-addr={ops}"), format!("--prefetch-removed-blocks={prefetch}")];
        let server = serve(&node, Home::Temporary, &flags.each_ref().map(String::as_str));
        let first = node.prune(chain.height()).unwrap();
        assert!(first > last_old, "{first} {last_old}");
        let link = SlowLink::open(port, round_trip).unwrap();
        node.meet(link.port()).unwrap();
        Self { server, ops, _node: node, _peer: peer }
    }

    /// Returns the number of blocks that were fetched, and of those that were not sent.
    fn fetches(&self) -> [u64; 2] {
        let page = HttpClient::connect(&self.ops).unwrap().text("/metrics").unwrap();
        ["birdhouse_fetched_blocks_total ", "birdhouse_failed_fetches_total "]
            .map(|name| page.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).unwrap())
    }

    /// Restores a wallet twice: all of its blocks are fetched once. Prints seconds and fetches.
    fn restores_twice(&self, wallet: &str, blocks: u32, restore: impl Fn(u16)) {
        let before = self.fetches();
        let mut took = [0.0; 2];
        for (took, fetched) in took.iter_mut().zip([blocks, 0]) {
            let (began, before) = (Instant::now(), self.fetches());
            restore(self.server.port());
            *took = began.elapsed().as_secs_f64();
            assert_eq!(self.fetches()[0] - before[0], u64::from(fetched), "{wallet}");
        }
        let [first, second] = took;
        let failed = self.fetches()[1] - before[1];
        println!("{wallet}: {first:.1} s, {blocks} blocks fetched, {failed} not sent; again: {second:.1} s, none");
    }
}

fn restores(payments: u32, round_trip: Duration, prefetch: &str) {
    let script = |address: String| {
        let address: Address<NetworkUnchecked> = address.parse().unwrap();
        address.require_network(Network::Regtest).unwrap().script_pubkey()
    };
    let electrum = ElectrumWallet::restore(SEED).unwrap().addresses(Addresses::Receiving).unwrap();
    let electrum: Vec<ScriptBuf> = electrum.into_iter().map(script).collect();
    let wallet = bdk::wallet();
    let of_bdk: Vec<ScriptBuf> = (0..10).map(|index| bdk::script(&wallet, index)).collect();
    let of_sparrow: Vec<ScriptBuf> = {
        let keys = ChainBuilder::new(488);
        (0..SCRIPTS + 25).map(|number| keys.wallet().foreign_address(1000 + number).script_pubkey()).collect()
    };
    let used = SCRIPTS.min(payments) as usize;
    let world = World::new(&[electrum, of_bdk, of_sparrow[..used].to_vec()], payments, round_trip, prefetch);
    let count = payments as usize;

    world.restores_twice("electrum", payments, |port| {
        let mut electrum = ElectrumWallet::restore(SEED).unwrap().open(port).unwrap();
        let began = Instant::now();
        loop {
            let shown = electrum.until("a history", |command| {
                let is_whole = command("is_synchronized")? == json!(true);
                let history = confirmed(&command("onchain_history")?);
                Ok((is_whole && history.len() >= count || began.elapsed() > PATIENCE).then_some(history.len()))
            });
            match shown {
                Ok(shown) => break assert_eq!(shown, count),
                // The daemon has a time limit of its own.
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
        }
    });
    world.restores_twice("bdk", payments, |port| {
        let raw = RawClient::new(("127.0.0.1", port), Some(Duration::from_mins(2)), None).unwrap();
        let (client, mut wallet) = (BdkElectrumClient::new(raw), bdk::wallet());
        let scan = || client.full_scan(wallet.start_full_scan(), 10, 5, false);
        // BDK gives up at the first error, and the user tries again.
        let began = Instant::now();
        let update = loop {
            match scan() {
                Ok(update) => break update,
                Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
            }
        };
        wallet.apply_update(update).unwrap();
        assert_eq!(wallet.transactions().count(), count);
    });
    world.restores_twice("sparrow", payments, |port| {
        let began = Instant::now();
        let txids: BTreeSet<String> = loop {
            let mut sparrow = Sparrow::open(port, of_sparrow.clone());
            // It gives a page up that takes too long, as the replay does by a panic, and the user tries again.
            match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| sparrow.load_all())) {
                Ok(txids) => break txids,
                Err(_) => assert!(began.elapsed() < PATIENCE, "it never loads"),
            }
        };
        assert_eq!(txids.len(), count);
    });
}

#[test]
fn wallets_with_old_transactions_are_restored_and_their_blocks_fetched_once() {
    restores(6, Duration::from_millis(20), "off");
}

#[test]
#[ignore = "long: OLD_TXS transactions of each wallet, a peer ROUND_TRIP_MS away"]
fn wallets_with_many_old_transactions_are_restored_from_a_distant_peer() {
    let number = |name: &str, default: u32| {
        std::env::var(name).map_or(default, |text| text.parse().expect("the variable is a number"))
    };
    let (count, ms) = (number("OLD_TXS", 500), number("ROUND_TRIP_MS", 0));
    let prefetch = std::env::var("PREFETCH").unwrap_or_else(|_| "off".to_owned());
    println!("{count} transactions, {ms} ms, prefetch {prefetch}");
    restores(count, Duration::from_millis(ms.into()), &prefetch);
}
