//! An address or a script: balance, history, unspent outputs, and its history as a file.

use std::fmt::Write as _;

use birdhouse_chain::{Confirmation, ResolvedTransaction, ScriptHash, ScriptStats};
use birdhouse_esplora::script::type_of;
use birdhouse_esplora::{Answer, Cache, Failure, Lane, Question, Reply, Route, script_of_hash};
use bitcoin::{OutPoint, TxOut, Txid};

use super::changes::balances_of;
use super::page_part::part_of;
use super::refusal::own_address;
use super::sides::sides;
use super::silent_payment;
use crate::running::{self, Cursor, Side};
use crate::times;
use crate::views::chart::BalanceChart;
use crate::views::script::{Coin, Coins, Entry, Figures, Links, Names, Script, Unspent, page, unspent_page};

/// Confirmed transactions on a page.
const PAGE: usize = 25;
/// Unconfirmed transactions on a page.
const UNCONFIRMED: usize = 50;
/// Unspent outputs on a page.
const UNSPENT_PAGE: usize = 100;
/// Unspent outputs of a script of which pages are made; each page reads them all.
const UNSPENT_MAX: usize = 10_000;
/// Lines of a file that are made together.
const LINES_TOGETHER: usize = 200;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/address/{address}", Lane::Blocks, history, "An address."),
    Route::get("/address/{address}/unspent", Lane::Blocks, unspent, "Its unspent outputs."),
    Route::get("/address/{address}/history.csv", Lane::Blocks, csv, "Its confirmed history as a file."),
    Route::get("/scripthash/{scripthash}", Lane::Blocks, history, "A script, by its hash."),
    Route::get("/scripthash/{scripthash}/unspent", Lane::Blocks, unspent, "Its unspent outputs."),
    Route::get("/scripthash/{scripthash}/history.csv", Lane::Blocks, csv, "Its confirmed history as a file."),
];

/// Reads the script that the path names.
fn script(question: &Question<'_>) -> Result<(ScriptHash, Names), Failure> {
    let text = question.params.text("address");
    if text.is_empty() {
        let text = question.params.text("scripthash").to_lowercase();
        let hash = script_of_hash(&text).map_err(|_| Failure::bad_request("this is no script hash"))?;
        return Ok((hash, Names::of_hash(text)));
    }
    let address = own_address(question, text)?;
    let script = address.script_pubkey();
    Ok((ScriptHash::of(script.as_bytes()), Names::of_address(address.to_string(), type_of(&script), &script)))
}

/// The change of a script's balance by a transaction, in satoshis; `None` if what it spends is unknown.
pub(super) fn change(found: &ResolvedTransaction, is_own: impl Fn(&ScriptHash) -> bool) -> Option<i64> {
    let sum = |outputs: &[TxOut]| -> i64 {
        let own = outputs.iter().filter(|output| is_own(&ScriptHash::of(output.script_pubkey.as_bytes())));
        own.map(|output| i64::try_from(output.value.to_sat()).unwrap_or_default()).sum()
    };
    (!found.is_unresolved()).then(|| sum(&found.transaction.output) - sum(&found.prevouts))
}

/// Values of a transaction in a history, without balance.
pub(super) fn entry(
    question: &Question<'_>,
    found: &ResolvedTransaction,
    is_own: impl Fn(&ScriptHash) -> bool,
) -> Entry {
    let at = question.at;
    Entry {
        txid: found.txid,
        block: found.block.map(|block| (block.height.0, at.block_time(block.height).unwrap_or_default())),
        change: change(found, &is_own),
        balance: None,
        sides: sides(found, question.network(), is_own),
    }
}

fn figures(question: &Question<'_>, hash: &ScriptHash) -> Result<Figures, Failure> {
    let at = question.at;
    Ok(Figures { tip: at.tip(), chain: at.confirmed_stats(hash)?, mempool: at.unconfirmed_stats(hash) })
}

fn balance_of(stats: &ScriptStats) -> u64 {
    stats.funded_sum.saturating_sub(stats.spent_sum)
}

// === history ===

/// The part of the confirmed history that the query asks for.
enum Wanted {
    Newest,
    Oldest,
    Next(Cursor),
}

impl Wanted {
    fn of(question: &Question<'_>) -> Result<Self, Failure> {
        let cursor = |name: &str| -> Result<Option<Txid>, Failure> {
            let text = question.params.query(name);
            text.map(|text| text.parse().map_err(|_| Failure::bad_request("the cursor is no txid"))).transpose()
        };
        if let Some(txid) = cursor("before")? {
            return Ok(Self::Next(Cursor { side: Side::Before, txid }));
        }
        if let Some(txid) = cursor("after")? {
            return Ok(Self::Next(Cursor { side: Side::After, txid }));
        }
        Ok(if question.params.query("oldest").is_some() { Self::Oldest } else { Self::Newest })
    }
}

/// A page of the confirmed history, newest first, and what is beyond it.
#[derive(Default)]
struct Confirmed {
    entries: Vec<Entry>,
    has_newer: bool,
    has_older: bool,
}

fn history(question: &Question<'_>) -> Answer {
    if let Some(page) = silent_payment::page_of(question, question.params.text("address")) {
        return page;
    }
    let (hash, names) = script(question)?;
    let at = question.at;
    let figures = figures(question, &hash)?;
    let newest_balance = balance_of(&figures.chain);
    let wanted = Wanted::of(question)?;
    let confirmed = confirmed(question, &hash, &wanted, newest_balance)?;
    let unconfirmed = match wanted {
        Wanted::Newest => unconfirmed(question, &hash, newest_balance)?,
        _ => Vec::new(),
    };
    let links = links(question, &hash, &names, &confirmed);
    let is_newest = matches!(wanted, Wanted::Newest);
    let balances = if is_newest { balances_of(at, &hash, figures.chain.txs)? } else { BalanceChart::Elsewhere };
    let values = Script {
        network: question.network(),
        names,
        figures,
        balances,
        tip_time: at.block_time(at.tip().height).unwrap_or_default(),
        unconfirmed,
        links,
        entries: confirmed.entries,
    };
    Reply::html(page(&values), Cache::Private)
}

fn confirmed(
    question: &Question<'_>,
    hash: &ScriptHash,
    wanted: &Wanted,
    newest_balance: u64,
) -> Result<Confirmed, Failure> {
    let at = question.at;
    // One more than the page has shows if there is another page.
    let read = |found: Vec<ResolvedTransaction>| -> (Vec<Entry>, bool) {
        let is_more = found.len() > PAGE;
        (found.iter().take(PAGE).map(|found| entry(question, found, |script| script == hash)).collect(), is_more)
    };
    let unknown = || Failure::not_found("the script has no such transaction, or nothing beyond it");
    Ok(match wanted {
        Wanted::Newest => {
            let (mut entries, has_older) = read(at.history_page(hash, None, PAGE + 1)?);
            count_down(&mut entries, Some(newest_balance));
            Confirmed { entries, has_newer: false, has_older }
        }
        Wanted::Oldest => {
            let (entries, has_newer) = read(at.history_page_after(hash, None, PAGE + 1)?);
            Confirmed { entries: count_up(entries, Some(0)), has_newer, has_older: false }
        }
        Wanted::Next(cursor @ Cursor { side: Side::Before, txid }) => {
            let (mut entries, has_older) = read(at.history_page(hash, Some(*txid), PAGE + 1)?);
            let balance = running::balance(question, hash, *cursor);
            count_down(&mut entries, balance);
            let entries = if entries.is_empty() { return Err(unknown()) } else { entries };
            Confirmed { entries, has_newer: true, has_older }
        }
        Wanted::Next(cursor @ Cursor { side: Side::After, txid }) => {
            let (entries, has_newer) = read(at.history_page_after(hash, Some(*txid), PAGE + 1)?);
            let entries = if entries.is_empty() { return Err(unknown()) } else { entries };
            let balance = running::balance(question, hash, *cursor);
            Confirmed { entries: count_up(entries, balance), has_newer, has_older: true }
        }
    })
}

/// Sets the balances of entries, newest first, from the balance after the first.
fn count_down(entries: &mut [Entry], mut balance: Option<u64>) {
    for entry in entries {
        entry.balance = balance;
        balance = balance.zip(entry.change).and_then(|(balance, change)| balance.checked_add_signed(-change));
    }
}

/// Sets the balances of entries, oldest first, from the balance before the first; returns them newest first.
fn count_up(mut entries: Vec<Entry>, mut balance: Option<u64>) -> Vec<Entry> {
    for entry in &mut entries {
        balance = balance.zip(entry.change).and_then(|(balance, change)| balance.checked_add_signed(change));
        entry.balance = balance;
    }
    entries.reverse();
    entries
}

/// The newest transactions in the mempool. The last that came decides the balance that is shown first.
fn unconfirmed(question: &Question<'_>, hash: &ScriptHash, confirmed: u64) -> Result<Vec<Entry>, Failure> {
    let at = question.at;
    let found = at.mempool_page(hash, UNCONFIRMED)?;
    let mut entries: Vec<Entry> = found.iter().map(|found| entry(question, found, |script| script == hash)).collect();
    let all = at.balance(hash)?.unconfirmed;
    count_down(&mut entries, confirmed.checked_add_signed(all));
    Ok(entries)
}

fn links(question: &Question<'_>, hash: &ScriptHash, names: &Names, confirmed: &Confirmed) -> Links {
    let target = |query: String| Some(format!("{}{query}#history", names.path));
    let newer = confirmed.entries.first().filter(|_| confirmed.has_newer);
    let older = confirmed.entries.last().filter(|_| confirmed.has_older);
    let beyond = |side, entry: &Entry, balance| {
        target(running::query(question, hash, Cursor { side, txid: entry.txid }, balance))
    };
    Links {
        newest: newer.and_then(|_| target(String::new())),
        newer: newer.and_then(|entry| beyond(Side::After, entry, entry.balance)),
        older: older.and_then(|entry| {
            let before =
                entry.balance.zip(entry.change).and_then(|(balance, change)| balance.checked_add_signed(-change));
            beyond(Side::Before, entry, before)
        }),
        oldest: older.and_then(|_| target("?oldest".into())),
    }
}

// === unspent outputs ===

fn unspent(question: &Question<'_>) -> Answer {
    let (hash, names) = script(question)?;
    let figures = figures(question, &hash)?;
    let listed = if figures.unspent() > UNSPENT_MAX as u64 { None } else { Some(listed(question, &hash)?) };
    let values = Unspent { network: question.network(), names, figures, listed };
    Reply::html(unspent_page(&values), Cache::Private)
}

/// The page of unspent outputs that the query asks for, the newest first.
fn listed(question: &Question<'_>, hash: &ScriptHash) -> Result<Coins, Failure> {
    let found = question.at.up_to(UNSPENT_MAX).unspent(hash)?;
    let page = part_of(question, "start", found.len(), UNSPENT_PAGE)?;
    let newest_first: Vec<_> = found.iter().rev().collect();
    let coins = page.slice(&newest_first).map(|(_, coin)| Coin {
        outpoint: OutPoint { txid: coin.txid, vout: coin.vout },
        value: coin.value,
        height: match coin.confirmation {
            Confirmation::Confirmed(height) => Some(height.0),
            Confirmation::Unconfirmed { .. } => None,
        },
    });
    Ok(Coins { coins: coins.collect(), page })
}

// === the history as a file ===

/// The confirmed history, newest first, in pieces. The client's reading decides how much of it is made.
fn csv(question: &Question<'_>) -> Answer {
    let (hash, names) = script(question)?;
    let mut balance = balance_of(&question.at.confirmed_stats(&hash)?);
    let (mut cursor, mut is_begun) = (None, false);
    let name = format!("{}.csv", names.text);
    Ok(Reply::csv(name, move |at| {
        let changes = at.balance_changes(&hash, cursor, LINES_TOGETHER)?;
        let Some(last) = changes.last() else {
            return Ok((!std::mem::replace(&mut is_begun, true)).then(|| HEAD.into()));
        };
        cursor = Some(last.txid);
        let mut text = if std::mem::replace(&mut is_begun, true) { String::new() } else { HEAD.to_owned() };
        for change in &changes {
            let time = times::iso(at.block_time(change.height).unwrap_or_default());
            let (txid, height, value) = (change.txid, change.height.0, change.value);
            write!(text, "{time},{height},{txid},{value},{balance}\r\n").expect("writing to memory never fails");
            balance = balance.saturating_add_signed(-value);
        }
        Ok(Some(text.into_bytes()))
    }))
}

/// The names of the columns ([RFC 4180](https://www.rfc-editor.org/rfc/rfc4180)).
const HEAD: &str = "time,height,txid,change_sat,balance_sat\r\n";

#[cfg(test)]
mod tests {
    use bitcoin::hashes::Hash as _;

    use super::*;
    use crate::views::sides::{Side, Sides};

    #[test]
    fn balances_run_down_from_the_newest_and_up_from_the_oldest() {
        let side = || Side { parties: Vec::new(), count: 0 };
        let sides = || Sides { inputs: side(), outputs: side() };
        let of = |change| Entry { txid: Txid::all_zeros(), block: None, change, balance: None, sides: sides() };
        let entry = |change| of(Some(change));
        let mut newest_first = vec![entry(-30), entry(50), entry(10)];
        count_down(&mut newest_first, Some(30));
        let balances = |entries: &[Entry]| entries.iter().map(|entry| entry.balance).collect::<Vec<_>>();
        assert_eq!(balances(&newest_first), [Some(30), Some(60), Some(10)]);
        let oldest_first = vec![entry(10), entry(50), entry(-30)];
        assert_eq!(balances(&count_up(oldest_first, Some(0))), balances(&newest_first));
        assert_eq!(balances(&count_up(vec![entry(10)], None)), [None]);
        // A change that is unknown leaves the balances beyond it unknown.
        assert_eq!(balances(&count_up(vec![entry(10), of(None), entry(1)], Some(0))), [None, None, Some(10)]);
    }
}
