//! Answers over chain and mempool together.
//!
//! A transaction is in one of the two: the publish of a block takes what it confirms out of the mempool. A snapshot
//! holds one state of both, so history, status, balance and unspent outputs agree.

use bitcoin::hashes::Hash as _;
use bitcoin::{Amount, OutPoint, TxOut, Txid};

use crate::block::output_of;
use crate::error::{Error, Result};
use crate::names::{Hash256, ScriptHash, TxNum};
use crate::outside::Node;
use crate::query::spending::{Funding, Spending};
use crate::state::{Balance, Confirmation, FoundOutput, Pay, Snapshot, UnconfirmedEntry, Unspent};

impl Snapshot {
    /// Returns the transactions of a script that are in the mempool, in the order in which they follow its history.
    pub fn unconfirmed(&self, scripthash: &ScriptHash) -> Vec<UnconfirmedEntry> {
        self.mempool.of_script(scripthash)
    }

    /// Returns the balance of a script.
    pub fn balance(&self, scripthash: &ScriptHash) -> Result<Balance> {
        let confirmed = self.confirmed_balance(scripthash)?;
        Ok(Balance { confirmed, unconfirmed: self.mempool.balance_change(scripthash) })
    }

    /// Returns the outputs of a script that nothing spends: those in blocks in chain order, then those in the mempool.
    pub fn unspent(&self, scripthash: &ScriptHash) -> Result<Vec<Unspent>> {
        self.up_to(usize::MAX).unspent(scripthash)
    }

    /// Takes the outputs that the mempool spends out of `unspent`, and adds those that it funds.
    pub(super) fn with_unconfirmed(&self, mut unspent: Vec<Unspent>, scripthash: &ScriptHash) -> Vec<Unspent> {
        if self.mempool.is_empty() {
            return unspent;
        }
        unspent.retain(|coin| self.mempool.spender(&OutPoint { txid: coin.txid, vout: coin.vout }).is_none());
        let more = self.mempool.unspent_of(scripthash).into_iter();
        unspent.extend(more.map(|(OutPoint { txid, vout }, value, confirmation)| Unspent {
            txid,
            vout,
            confirmation,
            value,
        }));
        unspent
    }

    /// Returns the first transaction of a script and its confirmation.
    pub fn first_use(&self, scripthash: &ScriptHash) -> Result<Option<(Txid, Confirmation)>> {
        if let Some(entry) = self.first_confirmed(scripthash)? {
            return Ok(Some((entry.txid, Confirmation::Confirmed(entry.height))));
        }
        let first = self.unconfirmed(scripthash).into_iter().next();
        Ok(first.map(|UnconfirmedEntry { txid, has_unconfirmed_inputs, .. }| {
            (txid, Confirmation::Unconfirmed { has_unconfirmed_inputs })
        }))
    }

    /// Returns the confirmation of a transaction; `None` if neither chain nor mempool holds it.
    pub fn confirmation(&self, txid: Txid) -> Result<Option<Confirmation>> {
        if let Some(confirmation) = self.mempool.confirmation(&txid) {
            return Ok(Some(confirmation));
        }
        Ok(self.transaction_block(txid)?.map(|block| Confirmation::Confirmed(block.height)))
    }

    /// Returns the bytes of a transaction, with witness; `None` if neither chain nor mempool holds it.
    pub fn transaction_bytes(&self, txid: Txid) -> Result<Option<Vec<u8>>> {
        match self.mempool.get(&txid) {
            Some(transaction) => {
                self.budget.charge_transaction(transaction.raw.len())?;
                Ok(Some(transaction.raw.to_vec()))
            }
            None => Ok(self.transaction(txid)?.map(|transaction| transaction.raw)),
        }
    }

    /// Returns an output and its spender; `None` if neither chain nor mempool has it, or if it can never be spent.
    ///
    /// There is no index of spenders: for an output that a block spends, transactions of its script are searched.
    pub fn output(&self, outpoint: OutPoint) -> Result<Option<FoundOutput>> {
        if let Some(pay) = self.mempool.output(&outpoint) {
            let Some(scripthash) = pay.scripthash else { return Ok(None) };
            let funding = self.mempool.confirmation(&outpoint.txid).expect("its output was found");
            let spender = self.mempool.spender(&outpoint);
            return Ok(Some(FoundOutput { outpoint, scripthash, value: pay.value, funding, spender }));
        }
        let Some(txnum) = self.find_txnums(&[outpoint.txid.to_byte_array()])?[0] else { return Ok(None) };
        let Some(output) = self.output_in(txnum, outpoint.vout)? else { return Ok(None) };
        let Pay { scripthash: Some(scripthash), value, .. } = Pay::of_output(&output) else { return Ok(None) };
        let funding = Confirmation::Confirmed(self.height_of(txnum)?);
        let spender = match self.mempool.spender(&outpoint) {
            None => self.confirmed_spender(outpoint, txnum, &scripthash)?,
            spender => spender,
        };
        Ok(Some(FoundOutput { outpoint, scripthash, value, funding, spender }))
    }

    /// Outputs in blocks that no block spends, in the order of `outpoints`; `None` where there is no such output. Those
    /// of blocks that the node has removed come from its own list of unspent outputs.
    pub(crate) fn outputs(&self, outpoints: &[OutPoint], node: &dyn Node) -> Result<Vec<Option<TxOut>>> {
        let txids: Vec<Hash256> = outpoints.iter().map(|outpoint| outpoint.txid.to_byte_array()).collect();
        let (mut outputs, mut removed) = (vec![None; outpoints.len()], Vec::new());
        for (at, txnum) in self.find_txnums(&txids)?.into_iter().enumerate() {
            let Some(txnum) = txnum else { continue };
            match self.output_in(txnum, outpoints[at].vout) {
                Err(error) if error.is_removed() => removed.push(at),
                output => outputs[at] = output?,
            }
        }
        if !removed.is_empty() {
            let wanted: Vec<OutPoint> = removed.iter().map(|at| outpoints[*at]).collect();
            for (at, output) in removed.into_iter().zip(node.unspent_outputs(&wanted)?) {
                outputs[at] = output;
            }
        }
        Ok(outputs)
    }

    fn output_in(&self, txnum: TxNum, vout: u32) -> Result<Option<TxOut>> {
        let raw = self.raw_of(txnum)?;
        let output = output_of(&raw, vout).map_err(Error::unreadable_block)?;
        let tx_out = |(script, sats): (&[u8], u64)| TxOut {
            script_pubkey: script.to_vec().into(),
            value: Amount::from_sat(sats),
        };
        Ok(output.map(tx_out))
    }

    fn confirmed_spender(
        &self,
        outpoint: OutPoint,
        funding: TxNum,
        scripthash: &ScriptHash,
    ) -> Result<Option<(Txid, Confirmation)>> {
        let funding = Funding { txid: outpoint.txid, txnum: funding, key: self.shared.keyer.script(scripthash) };
        let spending = self.spendings(funding, [outpoint.vout].into())?.pop();
        let found = |Spending { txnum, .. }| {
            let txid = Txid::from_byte_array(self.txids_of(&[txnum])?[0]);
            Ok((txid, Confirmation::Confirmed(self.height_of(txnum)?)))
        };
        spending.map(found).transpose()
    }
}
