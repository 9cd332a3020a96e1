//! Payments, and the signed transactions that make them.

use bitcoin::{Amount, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, absolute, transaction};

pub use crate::coin::Coin;
use crate::script::Lock;
use crate::wallet::Wallet;

/// An output to make.
#[derive(Debug, Clone)]
pub struct Payment {
    /// The recipient.
    pub to: Payee,
    /// The value in satoshi.
    pub sat: u64,
}

/// Recipient of a payment.
#[derive(Debug, Clone)]
pub enum Payee {
    /// A script of the chain's own wallet, which can spend it.
    Lock(Lock),
    /// Any other script; the chain never spends it.
    Script(ScriptBuf),
}

impl Payment {
    /// Makes a payment to a lock of the chain's wallet.
    pub fn to_lock(lock: Lock, sat: u64) -> Self {
        Self { to: Payee::Lock(lock), sat }
    }

    /// Makes a payment to another script, for example an address of a wallet under test.
    pub fn to_script(script: ScriptBuf, sat: u64) -> Self {
        Self { to: Payee::Script(script), sat }
    }

    /// Returns the output that makes this payment.
    pub fn output(&self, wallet: &Wallet) -> TxOut {
        let script_pubkey = match &self.to {
            Payee::Lock(lock) => wallet.script_pubkey(*lock),
            Payee::Script(script) => script.clone(),
        };
        TxOut { value: Amount::from_sat(self.sat), script_pubkey }
    }

    /// Returns the lock, if the wallet can spend the output.
    pub fn lock(&self) -> Option<Lock> {
        match self.to {
            Payee::Lock(lock) if lock.form.is_spendable() => Some(lock),
            _ => None,
        }
    }
}

/// Makes a signed transaction that spends `coins` and makes `payments`; the rest of the value is the fee.
pub fn signed(wallet: &Wallet, coins: &[Coin], payments: &[Payment]) -> Transaction {
    signed_as(transaction::Version::TWO, wallet, coins, payments)
}

/// Makes the transaction of [`signed`] in another version. In version 3
/// ([BIP431](https://github.com/bitcoin/bips/blob/master/bip-0431.mediawiki)) a parent may pay no fee when its child
/// pays for both.
pub fn signed_as(version: transaction::Version, wallet: &Wallet, coins: &[Coin], payments: &[Payment]) -> Transaction {
    let input = |coin: &Coin| TxIn {
        previous_output: coin.outpoint,
        script_sig: ScriptBuf::new(),
        sequence: Sequence::ENABLE_RBF_NO_LOCKTIME,
        witness: Witness::new(),
    };
    let mut tx = Transaction {
        version,
        lock_time: absolute::LockTime::ZERO,
        input: coins.iter().map(input).collect(),
        output: payments.iter().map(|payment| payment.output(wallet)).collect(),
    };
    wallet.sign(&mut tx, coins);
    tx
}
