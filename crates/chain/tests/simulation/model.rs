//! The naive model: all answers at one tip with one mempool, found by looking at every transaction that touches a
//! script. It shares no code with the index.

mod of_script;

use std::collections::BTreeMap;
use std::sync::Arc;

use birdhouse_chain::source::BlockId;
use birdhouse_chain::{Confirmation, Height, Snapshot, Spender, UnconfirmedEntry};
use bitcoin::{OutPoint, ScriptBuf, Txid};

use self::of_script::{Coin, OfScript};
use crate::tree::{BlockNumber, Known, Path, Tree, is_indexed};

/// One branch and one mempool.
#[derive(Debug, Clone)]
pub(crate) struct Moment {
    pub(crate) path: Path,
    pub(crate) pool: BTreeMap<Txid, Arc<Known>>,
}

impl Moment {
    /// The branch and the mempool that a snapshot claims to answer for.
    pub(crate) fn of(snapshot: &Snapshot, tree: &Tree) -> Result<Self, String> {
        let tip = snapshot.tip();
        let number = tree.find(&tip.hash).ok_or_else(|| format!("the tip {} is no block of the network", tip.hash))?;
        let path = tree.path(number);
        if path.len() != tip.height.0 as usize + 1 {
            return Err(format!("the tip at height {} has height {}", path.len() - 1, tip.height));
        }
        let mut pool = BTreeMap::new();
        for txid in snapshot.mempool().txids() {
            let known = tree.tx(txid).ok_or_else(|| format!("unconfirmed {txid} is no transaction of the network"))?;
            pool.insert(*txid, Arc::clone(known));
        }
        Ok(Self { path, pool })
    }

    fn tip(&self) -> BlockNumber {
        *self.path.last().expect("a branch has a genesis block")
    }
}

/// The model at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) at: &'a Moment,
}

/// A transaction in the chain: its height, its position in the block, and itself.
type Placed<'a> = (u32, u32, &'a Arc<Known>);

impl<'a> Model<'a> {
    /// The confirmed transactions of a script in chain order.
    fn placed(&self, script: &ScriptBuf) -> Vec<Placed<'a>> {
        let mut placed = Vec::new();
        for txid in self.tree.of_script(script) {
            let known = self.tree.tx(txid).expect("listed under its script");
            for (block, position) in self.tree.confirmed(&self.at.path, txid) {
                // BIP 30: nobody can spend what an overwritten coinbase paid.
                if position > 0 || !self.tree.overwritten.contains(&block) {
                    placed.push((self.tree.block(block).height, position, known));
                }
            }
        }
        placed.sort_unstable_by_key(|(height, position, _)| (*height, *position));
        placed
    }

    /// The unconfirmed transactions of a script.
    fn waiting(&self, script: &ScriptBuf) -> impl Iterator<Item = &'a Arc<Known>> {
        self.tree.of_script(script).iter().filter_map(|txid| self.at.pool.get(txid))
    }

    fn has_unconfirmed_inputs(&self, known: &Known) -> bool {
        known.spends().any(|outpoint| self.at.pool.contains_key(&outpoint.txid))
    }

    fn unconfirmed(&self, script: &ScriptBuf) -> Vec<UnconfirmedEntry> {
        let entry = |known: &Arc<Known>| UnconfirmedEntry {
            txid: known.txid,
            fee: known.fee,
            has_unconfirmed_inputs: self.has_unconfirmed_inputs(known),
        };
        let mut entries: Vec<_> = self.waiting(script).map(entry).collect();
        entries.sort_by_key(|entry| (entry.has_unconfirmed_inputs, &self.at.pool[&entry.txid].hex));
        entries
    }

    /// Everything that chain and mempool have of a script.
    pub(crate) fn of_script(&self, script: &'a ScriptBuf) -> OfScript<'a> {
        let placed = self.placed(script);
        let mut coins = Vec::new();
        for (height, _, known) in &placed {
            for (outpoint, value) in paid(known, script) {
                let is_spent = self.tree.is_spent(&self.at.path, &outpoint);
                coins.push(Coin { height: Height(*height), outpoint, value, is_spent });
            }
        }
        OfScript { model: *self, script, placed, coins, unconfirmed: self.unconfirmed(script) }
    }

    /// A number that differs where the status does; `None` without a history.
    pub(crate) fn status_number(&self, script: &ScriptBuf) -> Option<u64> {
        use std::hash::{DefaultHasher, Hash as _, Hasher as _};
        let (placed, unconfirmed) = (self.placed(script), self.unconfirmed(script));
        let mut hasher = DefaultHasher::new();
        for (height, position, known) in &placed {
            (height, position, known.txid).hash(&mut hasher);
        }
        for entry in &unconfirmed {
            (entry.txid, entry.has_unconfirmed_inputs).hash(&mut hasher);
        }
        (!placed.is_empty() || !unconfirmed.is_empty()).then(|| hasher.finish())
    }

    /// True for an unconfirmed transaction with a parent that is neither in the chain nor in the mempool.
    pub(crate) fn is_orphan(&self, txid: &Txid) -> bool {
        let parents = self.at.pool.get(txid).into_iter().flat_map(|known| known.spends());
        parents.into_iter().any(|outpoint| self.confirmation(&outpoint.txid).is_none())
    }

    /// The block of a confirmed transaction; of several with one txid, the last.
    pub(crate) fn block_of(&self, txid: &Txid) -> Option<BlockId> {
        let blocks = self.tree.confirmed(&self.at.path, txid).map(|(block, _)| self.tree.block(block));
        let block = blocks.max_by_key(|block| block.height)?;
        Some(BlockId { height: Height(block.height), hash: block.hash })
    }

    pub(crate) fn confirmation(&self, txid: &Txid) -> Option<Confirmation> {
        if let Some(known) = self.at.pool.get(txid) {
            let has_unconfirmed_inputs = self.has_unconfirmed_inputs(known);
            return Some(Confirmation::Unconfirmed { has_unconfirmed_inputs });
        }
        self.block_of(txid).map(|block| Confirmation::Confirmed(block.height))
    }

    /// The input that spends an output that chain or mempool has.
    pub(crate) fn spender(&self, outpoint: &OutPoint) -> Option<Spender> {
        self.confirmation(&outpoint.txid)?;
        if let Some((txid, vin)) = self.pool_spender(outpoint) {
            return Some(Spender { txid, vin, block: None });
        }
        let mut spenders = self.tree.spenders(outpoint).iter();
        let found = spenders.find_map(|(txid, vin)| Some((*txid, *vin, self.block_of(txid)?)));
        found.map(|(txid, vin, block)| Spender { txid, vin, block: Some(block) })
    }

    fn pool_spender(&self, outpoint: &OutPoint) -> Option<(Txid, u32)> {
        let spenders = self.tree.spenders(outpoint).iter();
        spenders.copied().find(|(txid, _)| self.at.pool.contains_key(txid))
    }

    /// The reason why the mempool cannot be that of a node at this tip.
    pub(crate) fn contradiction(&self) -> Option<String> {
        for (txid, known) in &self.at.pool {
            if self.tree.is_confirmed(&self.at.path, txid) {
                return Some(format!("{txid} is confirmed and in the mempool"));
            }
            for outpoint in known.spends() {
                if self.tree.is_spent(&self.at.path, &outpoint) {
                    return Some(format!("{txid} of the mempool spends {outpoint}, which a block has spent"));
                }
                let spenders = self.tree.spenders(&outpoint).iter();
                if spenders.filter(|(spender, _)| self.at.pool.contains_key(spender)).count() > 1 {
                    return Some(format!("two transactions of the mempool spend {outpoint}"));
                }
            }
        }
        None
    }

    pub(crate) fn tip_height(&self) -> u32 {
        self.tree.block(self.at.tip()).height
    }
}

/// The outputs of a transaction that pay a script.
fn paid<'a>(known: &'a Known, script: &'a ScriptBuf) -> impl Iterator<Item = (OutPoint, u64)> + 'a {
    let outputs = (0..).zip(&known.tx.output);
    let own = outputs.filter(move |(_, output)| output.script_pubkey == *script && is_indexed(script));
    own.map(|(vout, output)| (OutPoint { txid: known.txid, vout }, output.value.to_sat()))
}

/// The values of the outputs of a script that a transaction spends.
fn spent<'a>(known: &'a Known, script: &'a ScriptBuf) -> impl Iterator<Item = u64> + 'a {
    known.prevouts.iter().filter(move |output| output.script_pubkey == *script).map(|output| output.value.to_sat())
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).expect("below 2^63")
}
