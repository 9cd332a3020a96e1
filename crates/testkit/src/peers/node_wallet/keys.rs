//! The keys of one wallet, and the coins that they own in a ledger.

use std::collections::HashMap;

use birdhouse_regtest::script::{Form, Lock};
use birdhouse_regtest::tx::Coin;
use birdhouse_regtest::wallet::Wallet;
use bitcoin::{Address, OutPoint, ScriptBuf, Transaction};

use crate::chains::ledger::{Ledger, Output, SpentState};

/// Keys made from a wallet's name, as many as addresses were given out.
#[derive(Debug)]
pub(super) struct Keys {
    wallet: Wallet,
    locks: HashMap<ScriptBuf, Lock>,
}

/// A spendable coin and its state.
#[derive(Debug)]
pub(super) struct Owned {
    pub(super) coin: Coin,
    /// Height of its block; `None` in the mempool.
    pub(super) height: Option<u32>,
    /// True if it is confirmed, or made by a transaction of this wallet.
    pub(super) is_trusted: bool,
}

impl Keys {
    pub(super) fn of(name: &str) -> Self {
        let seed = name.bytes().fold(0_u64, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
        Self { wallet: Wallet::new(seed), locks: HashMap::new() }
    }

    /// Returns the lock of the next key, which belongs to the wallet from now on.
    pub(super) fn next_lock(&mut self) -> Lock {
        let number = u32::try_from(self.locks.len()).expect("fewer than 2^32 keys");
        let lock = Lock::new(Form::P2wpkh, number);
        self.locks.insert(self.wallet.script_pubkey(lock), lock);
        lock
    }

    pub(super) fn next_address(&mut self) -> Address {
        let lock = self.next_lock();
        self.wallet.address(lock).expect("P2WPKH has addresses")
    }

    pub(super) fn wallet(&self) -> &Wallet {
        &self.wallet
    }

    pub(super) fn owns(&self, script: &ScriptBuf) -> bool {
        self.locks.contains_key(script)
    }

    /// Returns the spendable coins, by outpoint. Like the wallet of Core, it waits one block too long for a coinbase.
    pub(super) fn coins(&self, ledger: &Ledger) -> Vec<Owned> {
        let (outputs, height) = (ledger.outputs(), ledger.height());
        let spendable = outputs.values().filter(|output| output.spent == SpentState::No && output.is_ripe(height));
        let mut owned: Vec<Owned> =
            spendable.filter_map(|output| self.owned(ledger, &outputs, output, self.coin(output)?)).collect();
        owned.sort_unstable_by_key(|owned| owned.coin.outpoint);
        owned
    }

    fn owned(
        &self,
        ledger: &Ledger,
        outputs: &HashMap<OutPoint, Output>,
        output: &Output,
        coin: Coin,
    ) -> Option<Owned> {
        let is_trusted = match output.height {
            Some(_) => true,
            None => self.inputs(outputs, &ledger.mempool().get(&output.outpoint.txid)?.tx).is_some(),
        };
        Some(Owned { coin, height: output.height, is_trusted })
    }

    /// Returns the coins that a transaction spends; `None` if one is not the wallet's.
    pub(super) fn inputs(&self, outputs: &HashMap<OutPoint, Output>, tx: &Transaction) -> Option<Vec<Coin>> {
        tx.input.iter().map(|input| self.coin(outputs.get(&input.previous_output)?)).collect()
    }

    fn coin(&self, output: &Output) -> Option<Coin> {
        let lock = *self.locks.get(&output.output.script_pubkey)?;
        Some(Coin { outpoint: output.outpoint, output: output.output.clone(), lock, spendable_from: 0 })
    }
}
