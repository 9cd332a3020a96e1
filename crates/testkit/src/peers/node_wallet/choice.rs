//! Choice of the coins that a payment spends.
//!
//! Suites rely on three habits of Core's wallet: it spends a coin that leaves no change if there is one, confirmed
//! coins before others, and its own unconfirmed change if nothing else is left.

use birdhouse_regtest::tx::Coin;

/// Virtual size of a transaction without inputs and outputs, rounded up.
const EMPTY_VB: u64 = 11;
/// Virtual size of an input that spends a P2WPKH output.
const INPUT_VB: u64 = 68;
/// Virtual size of a P2WPKH output.
const CHANGE_VB: u64 = 31;
/// Core's dust limit of a P2WPKH output, at the default `-dustrelayfee`.
const DUST_SAT: u64 = 294;

/// An output to pay.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// Its value in satoshi.
    pub(super) sat: u64,
    /// Its virtual size.
    pub(super) vsize: u64,
    /// The fee rate in satoshi per virtual byte.
    pub(super) rate_sat_vb: u64,
}

/// The coins to spend, and the value of the change, if it is worth an output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) coins: Vec<Coin>,
    pub(super) change_sat: Option<u64>,
}

/// Chooses from the confirmed coins, else from all; `None` when they do not suffice.
pub(super) fn choose(confirmed: &[Coin], unconfirmed: &[Coin], wanted: Wanted) -> Option<Choice> {
    from_pool(confirmed, wanted).or_else(|| from_pool(&[confirmed, unconfirmed].concat(), wanted))
}

fn from_pool(pool: &[Coin], wanted: Wanted) -> Option<Choice> {
    let mut pool = pool.to_vec();
    pool.sort_unstable_by_key(|coin| (coin.sat(), coin.outpoint));
    let mut singles = pool.iter().filter_map(|coin| spend(std::slice::from_ref(coin), wanted));
    // The smallest sufficient coin leaves the least: if any coin leaves no change, this one does.
    singles.next().or_else(|| largest(&pool, wanted))
}

/// Takes the largest coins of a sorted pool until they suffice.
fn largest(pool: &[Coin], wanted: Wanted) -> Option<Choice> {
    (0..pool.len()).rev().find_map(|first| spend(&pool[first..], wanted))
}

fn spend(coins: &[Coin], wanted: Wanted) -> Option<Choice> {
    let total: u64 = coins.iter().map(Coin::sat).sum();
    let vsize = EMPTY_VB + INPUT_VB * coins.len() as u64 + wanted.vsize;
    let rest = total.checked_sub(wanted.sat + wanted.rate_sat_vb * vsize)?;
    let change_sat = rest.checked_sub(wanted.rate_sat_vb * CHANGE_VB).filter(|sat| *sat >= DUST_SAT);
    Some(Choice { coins: coins.to_vec(), change_sat })
}

#[cfg(test)]
mod tests {
    use birdhouse_regtest::script::{Form, Lock};
    use bitcoin::hashes::Hash;
    use bitcoin::{Amount, OutPoint, ScriptBuf, TxOut, Txid};

    use super::*;

    const WANTED: Wanted = Wanted { sat: 10_000, vsize: 43, rate_sat_vb: 10 };

    fn coin(vout: u32, sat: u64) -> Coin {
        let output = TxOut { value: Amount::from_sat(sat), script_pubkey: ScriptBuf::new() };
        let outpoint = OutPoint { txid: Txid::all_zeros(), vout };
        Coin { outpoint, output, lock: Lock::new(Form::P2wpkh, vout), spendable_from: 0 }
    }

    fn chosen(confirmed: &[Coin], unconfirmed: &[Coin]) -> Option<(Vec<u32>, Option<u64>)> {
        let choice = choose(confirmed, unconfirmed, WANTED)?;
        Some((choice.coins.iter().map(|coin| coin.outpoint.vout).collect(), choice.change_sat))
    }

    #[test]
    fn coin_that_leaves_no_change_is_spent_before_larger_ones() {
        let coins = [coin(0, 5_000_000), coin(1, 11_650), coin(2, 3_000)];
        assert_eq!(chosen(&coins, &[]), Some((vec![1], None)));
    }

    #[test]
    fn change_is_what_fee_and_its_own_output_leave() {
        let fee = 10 * (11 + 68 + 43 + 31);
        assert_eq!(chosen(&[coin(0, 50_000)], &[]), Some((vec![0], Some(50_000 - 10_000 - fee))));
    }

    #[test]
    fn unconfirmed_coins_are_spent_only_if_confirmed_ones_do_not_suffice() {
        assert_eq!(chosen(&[coin(0, 50_000)], &[coin(1, 20_000)]).map(|(coins, _)| coins), Some(vec![0]));
        assert_eq!(chosen(&[coin(0, 5_000)], &[coin(1, 20_000)]).map(|(coins, _)| coins), Some(vec![1]));
        assert_eq!(chosen(&[coin(0, 8_000)], &[coin(1, 8_000)]).map(|(coins, _)| coins), Some(vec![0, 1]));
        assert_eq!(chosen(&[coin(0, 5_000)], &[coin(1, 5_000)]), None);
    }
}
