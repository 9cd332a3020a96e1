//! A wallet of the Bitcoin Dev Kit over `bdk_electrum`: a full scan, and syncs while its payments change.

use bdk_electrum::BdkElectrumClient;
use bdk_wallet::chain::ChainPosition;
use bdk_wallet::{KeychainKind, SignOptions, Wallet};
use birdhouse_testkit::tx::Payment;
use bitcoin::bip32::Xpriv;
use bitcoin::{Amount, FeeRate, Network, ScriptBuf, Transaction};
use electrum_client::raw_client::{ElectrumPlaintextStream, RawClient};
use std::time::{Duration, Instant};

use crate::LiveWorld;

/// BIP32's first test vector, as a key of test networks.
const KEY: &str =
    "tprv8ZgxMBicQKsPeDgjzdC36fs6bMjGApWDNLR9erAXMs5skhMv36j9MV5ecvfavji5khqjWaWSFhN3YcCUUdiKH6isR4Pwy3U5y5egddBr16m";
const STOP_GAP: usize = 10;
const BATCH: usize = 5;
const PATIENCE: Duration = Duration::from_mins(1);

pub(super) type Client = BdkElectrumClient<RawClient<ElectrumPlaintextStream>>;

/// Sums in satoshi, as the wallet counts them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shown {
    confirmed: u64,
    /// From other wallets.
    pending: u64,
    /// Its own change.
    own_pending: u64,
    /// Heights of its transactions; unconfirmed ones have none. Sorted.
    heights: Vec<Option<u32>>,
}

impl Shown {
    fn total(&self) -> u64 {
        self.confirmed + self.pending + self.own_pending
    }
}

#[test]
fn bdk_scans_and_syncs_confirmed_and_unconfirmed_coins() {
    let mut world = LiveWorld::start(52);
    let mut wallet = wallet();
    // Some addresses beyond the first batch; the last within the gap limit of the one before it.
    let scripts = [0, 3, 12].map(|index| script(&wallet, index));
    world.pay(&scripts[0], 100_000);
    world.live.mine().unwrap();
    world.pay(&scripts[1], 200_000);
    world.live.mine_empty(1).unwrap();
    world.live.mine().unwrap();
    let mined = world.live.ledger().height();
    let unconfirmed = world.pay(&scripts[2], 50_000);
    world.settle();

    let client = connect(&world);
    let update = client.full_scan(wallet.start_full_scan(), STOP_GAP, BATCH, true).unwrap();
    wallet.apply_update(update).unwrap();
    let heights = vec![None, Some(mined - 2), Some(mined)];
    assert_eq!(shown(&wallet), Shown { confirmed: 300_000, pending: 50_000, own_pending: 0, heights });
    let fee = wallet.calculate_fee(&unconfirmed).unwrap();
    assert_eq!(fee, Amount::from_sat(birdhouse_testkit::chain::FEE_SAT), "the previous outputs were fetched too");

    world.live.replace(&unconfirmed, &[Payment::to_script(scripts[0].clone(), 60_000)], 20_000).unwrap();
    world.settle();
    sync(&client, &mut wallet);
    let heights = vec![None, Some(mined - 2), Some(mined)];
    assert_eq!(shown(&wallet), Shown { confirmed: 300_000, pending: 60_000, own_pending: 0, heights });

    world.live.mine().unwrap();
    world.settle();
    sync(&client, &mut wallet);
    let heights = vec![Some(mined - 2), Some(mined), Some(mined + 1)];
    assert_eq!(shown(&wallet), Shown { confirmed: 360_000, pending: 0, own_pending: 0, heights });

    world.live.roll_back(1).unwrap();
    world.live.mine_empty(2).unwrap();
    world.settle();
    sync(&client, &mut wallet);
    let heights = vec![None, Some(mined - 2), Some(mined)];
    assert_eq!(shown(&wallet), Shown { confirmed: 300_000, pending: 60_000, own_pending: 0, heights });

    let paid = spend(&client, &mut wallet, &world.live.wallet().foreign_address(1).script_pubkey());
    // The wallet may have spent any of its coins.
    sync_until(&client, &mut wallet, |shown| shown.heights.len() == 4 && shown.total() == 360_000 - paid);
    world.live.refresh().unwrap();
    world.live.mine().unwrap();
    world.settle();
    sync(&client, &mut wallet);
    let tip = world.live.ledger().height();
    let heights = vec![Some(mined - 2), Some(mined), Some(tip), Some(tip)];
    assert_eq!(shown(&wallet), Shown { confirmed: 360_000 - paid, pending: 0, own_pending: 0, heights });
}

pub(super) fn wallet() -> Wallet {
    let [external, internal] = [0, 1].map(|chain| format!("wpkh({KEY}/84'/1'/0'/{chain}/*)"));
    Wallet::create(external, internal).network(Network::Regtest).create_wallet_no_persist().unwrap()
}

pub(super) fn script(wallet: &Wallet, index: u32) -> ScriptBuf {
    wallet.peek_address(KeychainKind::External, index).script_pubkey()
}

fn connect(world: &LiveWorld) -> Client {
    BdkElectrumClient::new(RawClient::new(("127.0.0.1", world.server.port()), Some(PATIENCE), None).unwrap())
}

fn sync(client: &Client, wallet: &mut Wallet) {
    let update = client.sync(wallet.start_sync_with_revealed_spks(), BATCH, true).unwrap();
    wallet.apply_update(update).unwrap();
}

fn sync_until(client: &Client, wallet: &mut Wallet, done: impl Fn(&Shown) -> bool) {
    let start = Instant::now();
    while !done(&shown(wallet)) {
        assert!(start.elapsed() < PATIENCE, "{:?}", shown(wallet));
        sync(client, wallet);
    }
}

fn shown(wallet: &Wallet) -> Shown {
    let balance = wallet.balance();
    let height = |position: ChainPosition<_>| position.confirmation_height_upper_bound();
    let mut heights: Vec<Option<u32>> = wallet.transactions().map(|tx| height(tx.chain_position)).collect();
    heights.sort_unstable();
    Shown {
        confirmed: balance.confirmed.to_sat(),
        pending: balance.untrusted_pending.to_sat(),
        own_pending: balance.trusted_pending.to_sat(),
        heights,
    }
}

/// Builds, signs and broadcasts a payment; returns the amount that leaves the wallet, in satoshi.
fn spend(client: &Client, wallet: &mut Wallet, to: &ScriptBuf) -> u64 {
    let mut builder = wallet.build_tx();
    builder.add_recipient(to.clone(), Amount::from_sat(40_000)).fee_rate(FeeRate::from_sat_per_vb(5).unwrap());
    let mut psbt = builder.finish().unwrap();
    psbt.sign(&KEY.parse::<Xpriv>().unwrap(), wallet.secp_ctx()).unwrap();
    assert!(wallet.finalize_psbt(&mut psbt, SignOptions::default()).unwrap());
    let fee = psbt.fee().unwrap();
    let tx: Transaction = psbt.extract_tx().unwrap();
    assert_eq!(client.transaction_broadcast(&tx).unwrap(), tx.compute_txid());
    40_000 + fee.to_sat()
}
