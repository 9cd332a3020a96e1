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

/// The changes of a wallet's balance, or the reason for which they are not read.
pub(super) enum Changes {
    /// In the order of the chain.
    Read(Vec<Change>),
    /// The histories have more entries than [`CHANGES_MAX`].
    TooLong,
    /// The node has removed the block of one of them.
    Removed,
}

/// Reads the changes of the balance of these scripts together.
pub(super) fn changes(at: &Snapshot, members: &[Member]) -> Result<Changes, Failure> {
    if members.iter().map(|member| member.chain.txs).sum::<u64>() > CHANGES_MAX as u64 {
        return Ok(Changes::TooLong);
    }
    let mut sums = BTreeMap::<(u32, u32), i64>::new();
    for member in members {
        let found = match at.balance_changes(&member.hash, None, CHANGES_MAX) {
            Err(error) if error.is_removed() => return Ok(Changes::Removed),
            found => found?,
        };
        for change in found {
            *sums.entry((change.height.0, change.index)).or_default() += change.value;
        }
    }
    Ok(Changes::Read(sums.into_iter().map(|((height, _), value)| Change { height, value }).collect()))
}

/// Returns the balance of one script over time, unless that takes more than a few reads.
pub(super) fn balances_of(at: &Snapshot, script: &ScriptHash, txs: u64) -> Result<BalanceChart, Failure> {
    if txs > CHANGES_MAX as u64 {
        return Ok(BalanceChart::TooLong(CHANGES_MAX));
    }
    let found = match at.within_budget(|at| at.balance_changes(script, None, CHANGES_MAX)) {
        Err(error) if error.is_removed() => return Ok(BalanceChart::Removed),
        found => found?,
    };
    let change = |change: &BalanceChange| Change { height: change.height.0, value: change.value };
    let changes = found.map(|found| found.iter().rev().map(change).collect::<Vec<_>>());
    Ok(changes.map_or(BalanceChart::Costly, |changes| BalanceChart::Points(points(at, &changes))))
}

/// Returns the balance over time of [`changes`].
pub(super) fn balances(at: &Snapshot, changes: &Changes) -> BalanceChart {
    match changes {
        Changes::Read(changes) => BalanceChart::Points(points(at, changes)),
        Changes::TooLong => BalanceChart::TooLong(CHANGES_MAX),
        Changes::Removed => BalanceChart::Removed,
    }
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

/// Returns the sum of what came from others, without change that came back; `None` if it is not known.
pub(super) fn received(changes: &Changes) -> Option<u64> {
    let Changes::Read(changes) = changes else { return None };
    Some(changes.iter().filter_map(|change| u64::try_from(change.value).ok()).sum())
}
