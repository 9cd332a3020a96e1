//! Beside a node that has removed the blocks which funded a wallet.

use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::{Coin, Payment};
use birdhouse_watch::channel::Priority;
use birdhouse_watch::outbox::render;
use birdhouse_watch::{Notice, NoticeKind};
use bitcoin::Transaction;

use crate::world::World;

/// Two confirmed coins of one script.
fn coins(world: &mut World) -> [Coin; 2] {
    let large = world.live.confirmed_coins().into_iter().max_by_key(Coin::sat).unwrap();
    let lock = Lock::new(Form::P2wpkh, 970_001);
    let paid = [Payment::to_lock(lock, 70_000), Payment::to_lock(lock, 80_000)];
    let paid = world.live.pay_from(&[large], &paid, 1_000).unwrap();
    world.live.mine().unwrap();
    let coin = |vout| {
        let outpoint = bitcoin::OutPoint { txid: paid.compute_txid(), vout };
        world.live.confirmed_coins().into_iter().find(|coin| coin.outpoint == outpoint).unwrap()
    };
    [coin(0), coin(1)]
}

fn spend(world: &mut World, coin: &Coin) -> Transaction {
    let elsewhere = world.live.wallet().foreign_address(9).script_pubkey();
    world.live.sign(std::slice::from_ref(coin), &[Payment::to_script(elsewhere, coin.sat() - 1_000)])
}

/// Asserts that a notice is the alarm of a spend of a coin.
fn is_alarm(notice: &Notice, spend: &Transaction, coin: &Coin) {
    assert_eq!((notice.txid, notice.amounts.spent), (Some(spend.compute_txid()), coin.sat()), "{notice:?}");
    assert_eq!((notice.inputs.len(), notice.inputs[0].outpoint.as_str()), (1, coin.outpoint.to_string().as_str()));
    assert_eq!(notice.inputs[0].script.script, coin.output.script_pubkey.to_hex_string());
    let message = render(notice, None);
    assert_eq!((message.priority, message.title.as_str()), (Priority::Alarm, "vault was spent from"));
}

#[test]
fn a_spend_from_a_cold_wallet_alarms_without_the_block_that_funded_it() {
    let mut world = World::pruned(941);
    let coins = coins(&mut world);
    let funded = world.live.ledger().height();
    let script = coins[0].output.script_pubkey.to_hex_string();
    world.watch("vault", &format!("script = \"{script}\"\ncold = true"));
    let kept = world.prune();
    assert!(kept > funded, "the block at {funded} is still there");
    assert!(world.restart().is_empty());

    // In the mempool, then in a block.
    let first = spend(&mut world, &coins[0]);
    world.live.send(&first).unwrap();
    let seen = world.sync();
    assert_eq!((seen.len(), &seen[0].kind), (1, &NoticeKind::Seen));
    is_alarm(&seen[0], &first, &coins[0]);
    world.live.mine().unwrap();
    let confirmed = world.sync();
    assert_eq!((confirmed.len(), &confirmed[0].kind), (1, &NoticeKind::Confirmed { confirmations: 1 }));
    is_alarm(&confirmed[0], &first, &coins[0]);

    // In a block that came while nobody watched.
    let second = spend(&mut world, &coins[1]);
    world.live.mine_these(vec![second.clone()]).unwrap();
    world.index.sync(world.core()).unwrap();
    let found = world.restart();
    assert_eq!(found.len(), 1);
    is_alarm(&found[0], &second, &coins[1]);
}
