//! Versions of a transaction that was replaced, and transactions that left the mempool.

use birdhouse_chain::{Replacements, Snapshot};
use birdhouse_esplora::{Answer, Cache, Failure, Question, Reply};
use bitcoin::Txid;

use super::spending::spending;
use crate::views::gone::{Gone, Wanted, page};
use crate::views::versions::{Fate, Version};

/// Versions of a transaction on a page.
const VERSIONS_MAX: usize = 100;
/// Outputs that a dropped transaction wanted to spend, on its page.
const WANTED_MAX: usize = 50;

/// Returns the versions of a transaction, the last one first; none if it replaced nothing and nothing replaced it.
pub(super) fn versions(at: &Snapshot, txid: &Txid) -> Result<Vec<Version>, Failure> {
    let known = at.mempool().replacements();
    let latest = known.latest(txid);
    let mut all = tree(known, latest);
    // One of them is in the mempool or in a block, nearly always the last one.
    if at.mempool().get(&latest).is_some() {
        all.iter_mut().filter(|one| one.txid == latest).for_each(|one| one.fate = Fate::Waiting);
        return Ok(all);
    }
    for one in &mut all {
        if let Some(block) = at.transaction_block(one.txid)? {
            one.fate = Fate::Mined(block.height.0);
            break;
        }
    }
    Ok(all)
}

fn tree(known: &Replacements, latest: Txid) -> Vec<Version> {
    let (mut all, mut next) = (Vec::new(), vec![latest]);
    while let Some(txid) = next.pop() {
        let Some(found) = known.version(&txid) else { continue };
        if all.len() == VERSIONS_MAX {
            break;
        }
        let by = known.replacement(&txid).and_then(|by| known.version(&by));
        let fate = by.map_or(Fate::Left, |by| Fate::Replaced {
            by: by.txid,
            after_s: by.first_seen.saturating_sub(found.first_seen),
        });
        all.push(Version { txid, fee: found.fee, vsize: found.vsize, first_seen: found.first_seen, fate });
        next.extend(known.of(&txid));
    }
    all
}

/// Answers about a transaction that neither a block nor the mempool has.
pub(super) fn gone(question: &Question<'_>, txid: Txid) -> Answer {
    let at = question.at;
    let known = at.mempool().replacements();
    let dropped = known.dropped(&txid);
    let own = known.version(&txid).copied().or(dropped.as_ref().map(|dropped| dropped.version)).ok_or_else(unknown)?;
    let outpoints = dropped.map(|dropped| dropped.spent).unwrap_or_default();
    let wanted = outpoints.iter().take(WANTED_MAX).map(|outpoint| {
        let is_known = at.confirmation(outpoint.txid)?.is_some();
        Ok(Wanted { outpoint: *outpoint, spending: is_known.then(|| spending(at, *outpoint)) })
    });
    let values = Gone {
        network: question.network(),
        tip: at.tip(),
        own,
        stale: question.stale_block_with(&txid),
        versions: versions(at, &txid)?,
        wanted: wanted.collect::<Result<_, Failure>>()?,
        wanted_count: outpoints.len(),
    };
    Reply::html(page(&values), Cache::Private)
}

fn unknown() -> Failure {
    Failure::not_found(
        "neither a block nor the mempool of this server's node has this transaction. It was never broadcast, has not \
         come here yet, was refused, or was dropped so long ago that nothing is known of it",
    )
}
