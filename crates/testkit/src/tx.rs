//! Transactions before they are signed, and the coins they spend.

use bitcoin::{Amount, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Witness, absolute, transaction};

use crate::script::Lock;
use crate::wallet::Wallet;

/// An output that the wallet can spend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coin {
    /// Where it was made.
    pub outpoint: OutPoint,
    /// What was made.
    pub output: TxOut,
    /// How it is spent.
    pub lock: Lock,
    /// The first height at which it may be spent (coinbases ripen).
    pub spendable_from: u32,
}

impl Coin {
    /// Its value in satoshi.
    pub fn sat(&self) -> u64 {
        self.output.value.to_sat()
    }
}

/// An output to make.
#[derive(Debug, Clone)]
pub struct Payment {
    /// To one of our locks, or to somebody else's script.
    pub to: Payee,
    /// In satoshi.
    pub sat: u64,
}

/// Who is paid.
#[derive(Debug, Clone)]
pub enum Payee {
    /// A script of the chain's own wallet, which spends it again.
    Lock(Lock),
    /// Any script; never spent by the chain.
    Script(ScriptBuf),
}

impl Payment {
    /// To one of our locks.
    pub fn to_lock(lock: Lock, sat: u64) -> Self {
        Self { to: Payee::Lock(lock), sat }
    }

    /// To somebody else's script, for example an address of a wallet under test.
    pub fn to_script(script: ScriptBuf, sat: u64) -> Self {
        Self { to: Payee::Script(script), sat }
    }

    pub(crate) fn output(&self, wallet: &Wallet) -> TxOut {
        let script_pubkey = match &self.to {
            Payee::Lock(lock) => wallet.script_pubkey(*lock),
            Payee::Script(script) => script.clone(),
        };
        TxOut { value: Amount::from_sat(self.sat), script_pubkey }
    }

    pub(crate) fn lock(&self) -> Option<Lock> {
        match self.to {
            Payee::Lock(lock) if lock.form.is_spendable() => Some(lock),
            _ => None,
        }
    }
}

/// A signed transaction that spends `coins` and makes `payments`; what is left over is the fee.
pub fn signed(wallet: &Wallet, coins: &[Coin], payments: &[Payment]) -> Transaction {
    signed_as(transaction::Version::TWO, wallet, coins, payments)
}

/// The same in another version; in version 3 (BIP431) a parent may pay no fee when its child pays for both.
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
