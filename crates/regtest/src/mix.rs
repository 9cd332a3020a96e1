//! Shapes of chains on which indexes have failed, each a function that adds it to a [`ChainBuilder`].
//!
//! The functions fill and mine blocks. The chain must have spendable coins, which [`mature`] makes. [`sample`] makes a
//! chain with all of the shapes.

use crate::chain::{ChainBuilder, FEE_SAT};
use crate::script::{Form, Lock};
use crate::tx::{Coin, Payment};

/// Smallest coin, in satoshi, that random traffic spends.
const COIN_SAT_MIN: u64 = 10_000;
/// Number of small transactions that fit into a block with room to spare.
const BLOCK_TXS: u32 = 2000;
// Numbers of the special scripts; those of random traffic are smaller.
const REPEATED: u32 = 700_001;
const TWINS: u32 = 700_002;
const DEEP: u32 = 700_003;
const FAR: u32 = 700_004;
const BUSY: u32 = 710_000;

/// Size of a [`sample`].
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// Blocks of random traffic.
    pub blocks: u32,
    /// Transactions in each.
    pub block_txs: u32,
    /// Scripts of each kind that random traffic pays.
    pub scripts_per_form: u32,
    /// Transactions of each busy script, one entry a script.
    pub busy: &'static [u32],
}

impl Size {
    /// A few hundred blocks, made in a second: for the demo and quick tests.
    pub const SMALL: Self = Self { blocks: 60, block_txs: 8, scripts_per_form: 30, busy: &[10, 100] };
    /// A few thousand scripts: for comparisons with other servers.
    pub const MEDIUM: Self =
        Self { blocks: 120, block_txs: 40, scripts_per_form: 300, busy: &[1, 2, 10, 64, 65, 100, 1000, 3000] };
    /// Up to a script with 20 000 transactions: for longer comparisons.
    pub const LARGE: Self =
        Self { blocks: 600, block_txs: 80, scripts_per_form: 2000, busy: &[1, 2, 63, 64, 65, 128, 1000, 5000, 20_000] };
}

/// Makes a chain with every shape of this module; the same seed and size give the same chain.
pub fn sample(seed: u64, size: Size) -> ChainBuilder {
    let mut chain = ChainBuilder::new(seed);
    mature(&mut chain);
    every_form(&mut chain);
    repeats_in_one_tx(&mut chain);
    chain_in_one_block(&mut chain, 30);
    twins_in_one_block(&mut chain, 5);
    for (number, &txs) in (BUSY..).zip(size.busy) {
        busy_script(&mut chain, number, txs);
    }
    large_vouts(&mut chain);
    for _ in 0..size.blocks {
        random_traffic(&mut chain, size.block_txs, size.scripts_per_form);
        let empty = u32::from(chain.rng().per_mille(50));
        chain.mine(1 + empty);
    }
    chain
}

/// Mines empty blocks until coinbases of every kind can be spent.
pub fn mature(chain: &mut ChainBuilder) {
    chain.mine(120);
}

/// Pays every kind of script, one output with no value among them, and spends the spendable ones in the next block.
pub fn every_form(chain: &mut ChainBuilder) {
    let forms = Form::SPENDABLE.iter().chain(&Form::UNSPENDABLE);
    let payments: Vec<Payment> = forms
        .flat_map(|&form| [50_000, 0, 40_000].map(|sat| Payment::to_lock(Lock::new(form, 700_000), sat)))
        .collect();
    let txid = chain.pay(&payments);
    chain.mine_block();
    let coins: Vec<Coin> = chain.coins().filter(|coin| coin.outpoint.txid == txid).cloned().collect();
    for coin in coins.iter().filter(|coin| coin.sat() == 50_000) {
        chain.spend(std::slice::from_ref(coin), &[Payment::to_lock(coin.lock, coin.sat() - FEE_SAT)]);
    }
    // One transaction with an input of every kind, the coins without value among them.
    let rest: Vec<Coin> = coins.into_iter().filter(|coin| coin.sat() < 50_000 && coin.lock.number == 700_000).collect();
    let total = rest.iter().map(Coin::sat).sum::<u64>();
    chain.spend(&rest, &[Payment::to_lock(Lock::new(Form::P2tr, 700_000), total - FEE_SAT)]);
    chain.mine_block();
}

/// Pays one script several times in one transaction, then spends and pays it several times in another.
pub fn repeats_in_one_tx(chain: &mut ChainBuilder) {
    for form in [Form::P2wpkh, Form::P2pkh, Form::P2shMultisig] {
        let lock = Lock::new(form, REPEATED);
        let txid = chain.pay(&[1, 2, 2, 3].map(|factor| Payment::to_lock(lock, factor * 20_000)));
        chain.mine_block();
        let coins: Vec<Coin> =
            chain.coins().filter(|coin| coin.outpoint.txid == txid && coin.lock == lock).take(3).cloned().collect();
        let total = coins.iter().map(Coin::sat).sum::<u64>() - FEE_SAT;
        chain.spend(&coins, &[Payment::to_lock(lock, total / 2), Payment::to_lock(lock, total - total / 2)]);
        chain.mine_block();
    }
}

/// Mines a block with a chain of `length` transactions, each of which funds and spends the same script.
pub fn chain_in_one_block(chain: &mut ChainBuilder, length: u32) {
    let lock = Lock::new(Form::P2tr, DEEP);
    let mut txid = chain.pay(&[Payment::to_lock(lock, 1_000_000)]);
    for link in 0..length {
        let coin = chain.coins().find(|coin| coin.outpoint.txid == txid && coin.lock == lock).cloned();
        let coin = coin.expect("the transaction before paid it");
        let side = Payment::to_lock(Lock::new(Form::P2wpkh, DEEP + 10 + link), 600);
        txid = chain.spend(std::slice::from_ref(&coin), &[Payment::to_lock(lock, coin.sat() - 600 - FEE_SAT), side]);
    }
    chain.mine_block();
}

/// Mines a block with `count` transactions that pay the same value at the same vout to the same script.
pub fn twins_in_one_block(chain: &mut ChainBuilder, count: u32) {
    let lock = Lock::new(Form::P2wsh, TWINS);
    for _ in 0..count {
        chain.pay(&[Payment::to_lock(lock, 33_333)]);
    }
    chain.mine_block();
}

/// Gives a script `txs` transactions, up to 2000 a block; every fifth spends an earlier one's output.
pub fn busy_script(chain: &mut ChainBuilder, number: u32, txs: u32) {
    let busy = Lock::new(Form::P2wpkh, number);
    let funding = Lock::new(Form::AnyoneCanSpend, number);
    let mut left = txs;
    while left > 0 {
        let count = left.min(BLOCK_TXS);
        let txid = chain.pay(&vec![Payment::to_lock(funding, 3000); count as usize]);
        chain.mine_block();
        let coins: Vec<Coin> =
            chain.coins().filter(|coin| coin.outpoint.txid == txid && coin.lock == funding).cloned().collect();
        let mut paid = None;
        for (turn, coin) in coins.iter().enumerate() {
            let mut inputs = vec![coin.clone()];
            if turn % 5 == 4
                && let Some(txid) = paid
            {
                inputs.extend(chain.coins().find(|coin| coin.outpoint.txid == txid).cloned());
            }
            let total = inputs.iter().map(Coin::sat).sum::<u64>() - 100;
            paid = Some(chain.spend(&inputs, &[Payment::to_lock(busy, total)]));
        }
        chain.mine_block();
        left -= count;
    }
}

/// Mines transactions whose last outputs pay: one vout needs two bytes, another three.
pub fn large_vouts(chain: &mut ChainBuilder) {
    for (number, fillers) in (FAR..).zip([300, 66_000]) {
        // Scripts of one byte: no longer script fits 66 000 times into a block.
        let filler = Payment::to_script(bitcoin::ScriptBuf::from_bytes(vec![0x6a]), 0);
        let mut payments = vec![filler; fillers];
        payments.extend([Form::P2wpkh, Form::P2pkh].map(|form| Payment::to_lock(Lock::new(form, number), 30_000)));
        let txid = chain.pay(&payments);
        chain.mine_block();
        let coins: Vec<Coin> =
            chain.coins().filter(|coin| coin.outpoint.txid == txid && coin.lock.number == number).cloned().collect();
        chain.spend(&coins[..1], &[Payment::to_lock(coins[0].lock, coins[0].sat() - FEE_SAT)]);
        chain.mine_block();
    }
}

/// Adds `txs` random transactions to the block being filled: one to three inputs, one to four outputs, all kinds.
pub fn random_traffic(chain: &mut ChainBuilder, txs: u32, scripts_per_form: u32) {
    for _ in 0..txs {
        let mut coins: Vec<Coin> = Vec::new();
        for _ in 0..=chain.rng().below(3) {
            let coin = chain.random_coin(COIN_SAT_MIN);
            coins.extend(coin.filter(|coin| coins.iter().all(|other| other.outpoint != coin.outpoint)));
        }
        let total = coins.iter().map(Coin::sat).sum::<u64>();
        if total == 0 {
            return;
        }
        let payments = random_payments(chain, total - FEE_SAT, scripts_per_form);
        chain.spend(&coins, &payments);
    }
}

fn random_payments(chain: &mut ChainBuilder, total: u64, scripts_per_form: u32) -> Vec<Payment> {
    let count = 1 + chain.rng().below(4);
    let mut payments: Vec<Payment> =
        (0..count).map(|_| Payment::to_lock(random_lock(chain, scripts_per_form), total / count)).collect();
    if chain.rng().per_mille(30) {
        let form = *chain.rng().pick(&Form::UNSPENDABLE);
        payments.push(Payment::to_lock(Lock::new(form, 1), 0));
    }
    payments
}

/// Returns a random lock. Low numbers are more frequent: few scripts are used often, most once or twice.
fn random_lock(chain: &mut ChainBuilder, scripts_per_form: u32) -> Lock {
    let rng = chain.rng();
    let form = *rng.pick(&Form::SPENDABLE);
    let ceiling = if rng.per_mille(300) { (scripts_per_form / 20).max(1) } else { scripts_per_form };
    Lock::new(form, u32::try_from(rng.below(u64::from(ceiling))).expect("below a u32"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_is_the_same_for_the_same_seed() {
        assert_eq!(sample(3, Size::SMALL).tip(), sample(3, Size::SMALL).tip());
    }
}
