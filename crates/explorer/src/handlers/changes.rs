//! Changes of a wallet's confirmed balance, from the histories of its scripts.

use std::collections::BTreeMap;

use birdhouse_chain::{BalanceChange, Height, ScriptHash, Snapshot};
use birdhouse_esplora::Failure;

use crate::views::chart::{BalanceChart, Point};
use crate::views::several::Member;

/// Entries of histories that are read for the changes of one wallet.
const CHANGES_MAX: usize = 1_000;

/// The change of a wallet's balance by one transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// The height of its block.
    pub(super) height: u32,
    /// In satoshis; payments between scripts of the wallet are left out.
    pub(super) value: i64,
}

/// Returns the changes in the order of the chain; `None` if the histories are too long to be read.
pub(super) fn changes(at: &Snapshot, members: &[Member]) -> Result<Option<Vec<Change>>, Failure> {
    if members.iter().map(|member| member.chain.txs).sum::<u64>() > CHANGES_MAX as u64 {
        return Ok(None);
    }
    let mut sums = BTreeMap::<(u32, u32), i64>::new();
    for member in members {
        for change in at.balance_changes(&member.hash, None, CHANGES_MAX)? {
            *sums.entry((change.height.0, change.index)).or_default() += change.value;
        }
    }
    Ok(Some(sums.into_iter().map(|((height, _), value)| Change { height, value }).collect()))
}

/// Returns the balance of one script over time, unless that takes more than a few reads.
pub(super) fn balances_of(at: &Snapshot, script: &ScriptHash, txs: u64) -> Result<BalanceChart, Failure> {
    if txs > CHANGES_MAX as u64 {
        return Ok(BalanceChart::TooLong(CHANGES_MAX));
    }
    let found = at.within_budget(|at| at.balance_changes(script, None, CHANGES_MAX))?;
    let change = |change: &BalanceChange| Change { height: change.height.0, value: change.value };
    let changes = found.map(|found| found.iter().rev().map(change).collect::<Vec<_>>());
    Ok(changes.map_or(BalanceChart::Costly, |changes| BalanceChart::Points(points(at, &changes))))
}

/// Returns the balance over time of [`changes`].
pub(super) fn balances(at: &Snapshot, changes: Option<&[Change]>) -> BalanceChart {
    changes.map_or(BalanceChart::TooLong(CHANGES_MAX), |changes| BalanceChart::Points(points(at, changes)))
}

/// Returns the balance after each change.
fn points(at: &Snapshot, changes: &[Change]) -> Vec<Point> {
    let mut balance = 0_u64;
    let point = |change: &Change| {
        balance = balance.saturating_add_signed(change.value);
        Point { time: at.block_time(Height(change.height)).unwrap_or_default(), value: balance }
    };
    changes.iter().map(point).collect()
}

/// Returns the sum of what came from others, without change that came back.
pub(super) fn received(changes: &[Change]) -> u64 {
    changes.iter().filter_map(|change| u64::try_from(change.value).ok()).sum()
}
