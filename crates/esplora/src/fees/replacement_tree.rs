//! Versions of a transaction that was replaced, as mempool's server shows them: a tree with the last version at its
//! root.

use birdhouse_chain::{Replacements, Result, Snapshot, Version};
use bitcoin::Txid;
use serde::Serialize;

use crate::fees::block_fees::quotient;
use crate::limits::VERSIONS_SHOWN;

/// A version and those that it replaced.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TreeJson {
    tx: VersionJson,
    time: u64,
    /// Seconds until it was replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    interval: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mined: Option<bool>,
    /// True if a version in this tree was replaced that did not signal that it may be.
    pub(crate) full_rbf: bool,
    replaces: Vec<Self>,
}

/// One version.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct VersionJson {
    txid: Txid,
    fee: u64,
    vsize: u64,
    value: u64,
    rate: f64,
    time: u64,
    rbf: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    full_rbf: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mined: Option<bool>,
}

/// Returns the tree of a transaction; `None` if it replaced nothing and nothing replaced it.
pub(crate) fn tree_of(at: &Snapshot, txid: &Txid) -> Result<Option<TreeJson>> {
    unmarked_tree(at, txid).map(|tree| tree.marked(at)).transpose()
}

/// Returns the same without a lookup in the blocks for each version.
fn unmarked_tree(at: &Snapshot, txid: &Txid) -> Option<TreeJson> {
    let known = at.mempool().replacements();
    build(known, &known.latest(txid), None, &mut { VERSIONS_SHOWN })
}

/// Returns the trees with the newest replacements, at most `count`.
pub(crate) fn newest(at: &Snapshot, count: usize, is_wanted: impl Fn(&TreeJson) -> bool) -> Result<Vec<TreeJson>> {
    let (mut trees, mut last): (Vec<TreeJson>, Option<Txid>) = (Vec::new(), None);
    for root in at.mempool().replacements().newest() {
        // A transaction that replaced several is named once for each, without another one between.
        if last.replace(root) == Some(root) {
            continue;
        }
        if let Some(tree) = unmarked_tree(at, &root).filter(&is_wanted) {
            trees.push(tree.marked(at)?);
        }
        if trees.len() == count {
            break;
        }
    }
    Ok(trees)
}

/// The tree below a version, of `left` versions at most.
fn build(known: &Replacements, txid: &Txid, replaced_at: Option<u64>, left: &mut usize) -> Option<TreeJson> {
    let version = known.version(txid)?;
    *left = left.checked_sub(1)?;
    let older = known.of(txid).map_while(|older| build(known, &older, Some(version.first_seen), left));
    let replaces: Vec<TreeJson> = older.collect();
    let is_forced = replaces.iter().any(|older| !older.tx.rbf);
    let full_rbf =
        is_forced || replaces.iter().any(|older| older.full_rbf) || replaced_at.is_some() && !version.is_replaceable;
    Some(TreeJson {
        tx: VersionJson { full_rbf: (!replaces.is_empty()).then_some(is_forced), ..VersionJson::of(version) },
        time: version.first_seen,
        interval: replaced_at.map(|at| at.saturating_sub(version.first_seen)),
        mined: None,
        full_rbf,
        replaces,
    })
}

impl TreeJson {
    /// Returns the tree with the version that a block has marked as mined, unless the last one is unconfirmed.
    fn marked(mut self, at: &Snapshot) -> Result<Self> {
        if at.mempool().get(&self.tx.txid).is_none() {
            let is_mined = self.mark_mined(at)?;
            self.mined = is_mined.then_some(true);
        }
        Ok(self)
    }

    /// Marks the version that a block has; nearly always it is the last one.
    fn mark_mined(&mut self, at: &Snapshot) -> Result<bool> {
        if at.transaction_block(self.tx.txid)?.is_some() {
            self.tx.mined = Some(true);
            return Ok(true);
        }
        for older in &mut self.replaces {
            if older.mark_mined(at)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl VersionJson {
    /// A version that replaces none.
    fn of(version: &Version) -> Self {
        Self {
            txid: version.txid,
            fee: version.fee,
            vsize: version.vsize,
            value: version.paid,
            rate: quotient(version.fee, version.vsize),
            time: version.first_seen,
            rbf: version.is_replaceable,
            full_rbf: None,
            mined: None,
        }
    }
}
