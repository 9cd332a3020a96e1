//! Figures of a watch for pages and tables: its scripts, sums, transactions and unspent outputs, with their labels.

use birdhouse_chain::{Confirmation, Height, ScriptHash, Snapshot, Unspent};
use bitcoin::{Address, Network, OutPoint, Txid};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::api::failure::Failure;
use crate::api::history::Entry;
use crate::api::parts::{height_of, inputs};
use crate::api::wallets::{Book, Branch};
use crate::invoice::{Label, LabelKind};
use crate::limits::SCRIPT_HISTORY_MAX;
use crate::state::{State, labels};

/// A transaction of a watch in short.
pub(super) struct Line {
    pub(super) txid: Txid,
    pub(super) height: Option<u32>,
    pub(super) time: Option<u32>,
    pub(super) received: u64,
    pub(super) spent: u64,
    pub(super) label: Option<String>,
}

/// An unspent output of a watch.
pub(super) struct Coin {
    pub(super) outpoint: OutPoint,
    pub(super) value: u64,
    pub(super) height: Option<u32>,
    /// Its own label, or else that of its address.
    pub(super) label: Option<String>,
    /// The label says that the wallet is not to spend it.
    pub(super) is_frozen: bool,
}

/// Sums of unspent outputs, in satoshis.
#[derive(Default)]
pub(super) struct Sums {
    pub(super) confirmed: u64,
    pub(super) unconfirmed: u64,
}

/// Returns the branches of a watch.
pub(super) fn branches_of<'a>(book: &'a Book<'_>, name: &str) -> Result<Vec<&'a Branch>, Failure> {
    let branches: Vec<&Branch> = book.branches.iter().filter(|branch| branch.watch.as_str() == name).collect();
    if branches.is_empty() { Err(Failure::not_found("There is no such watch")) } else { Ok(branches) }
}

/// Returns the hashes of a watch's scripts.
pub(super) fn scripts_of(book: &Book<'_>, name: &str) -> Result<Vec<ScriptHash>, Failure> {
    branches_of(book, name)?;
    Ok(book.scripthashes().into_iter().filter(|script| book.is_of(script, name)).collect())
}

/// Returns the unspent outputs of scripts, the newest first.
pub(super) fn unspent(at: &Snapshot, scripts: &[ScriptHash]) -> Result<Vec<(ScriptHash, Unspent)>, Failure> {
    let mut unspent = Vec::new();
    for script in scripts {
        at.charge_step()?;
        unspent.extend(at.up_to(SCRIPT_HISTORY_MAX).unspent(script)?.into_iter().map(|output| (*script, output)));
    }
    unspent.sort_by_key(|(_, output)| std::cmp::Reverse(height_of(output.confirmation).unwrap_or(u32::MAX)));
    Ok(unspent)
}

impl Sums {
    pub(super) fn of<'a>(unspent: impl IntoIterator<Item = &'a Unspent>) -> Self {
        let mut sums = Self::default();
        for output in unspent {
            match output.confirmation {
                Confirmation::Confirmed(_) => sums.confirmed += output.value,
                Confirmation::Unconfirmed { .. } => sums.unconfirmed += output.value,
            }
        }
        sums
    }
}

/// Returns an unspent output with its label.
pub(super) fn coin(book: &Book<'_>, state: &State, script: ScriptHash, output: &Unspent) -> Result<Coin, Failure> {
    let outpoint = OutPoint { txid: output.txid, vout: output.vout };
    let own = label(state, LabelKind::Output, &outpoint.to_string())?;
    let is_frozen = own.as_ref().is_some_and(|label| label.spendable == Some(false));
    let text = match own.and_then(|label| label.label) {
        Some(text) => Some(text),
        None => match address_of(book, &script) {
            Some(address) => label(state, LabelKind::Addr, &address)?.and_then(|label| label.label),
            None => None,
        },
    };
    Ok(Coin { outpoint, value: output.value, height: height_of(output.confirmation), label: text, is_frozen })
}

/// Returns the address of a watched script, if it has one.
fn address_of(book: &Book<'_>, script: &ScriptHash) -> Option<String> {
    let origin = book.origin(script)?;
    let is_own = |branch: &&Branch| branch.watch == origin.watch && branch.number == origin.branch;
    let script = book.branches.iter().find(is_own)?.script(origin.index)?;
    address(&script, book.network)
}

/// Returns the address of a script, if it has one.
pub(super) fn address(script: &bitcoin::Script, network: Network) -> Option<String> {
    Address::from_script(script, network).ok().map(|address| address.to_string())
}

fn label(state: &State, kind: LabelKind, reference: &str) -> Result<Option<Label>, Failure> {
    Ok(state.read(|transaction| labels::get(transaction, kind, reference))??)
}

/// Returns a transaction with its label, and its sums of these scripts.
pub(super) fn line(at: &Snapshot, state: &State, scripts: &[ScriptHash], entry: &Entry) -> Result<Line, Failure> {
    let (mut received, mut spent) = (0, 0);
    if let Some(found) = at.resolved(entry.txid)? {
        for output in &found.transaction.output {
            if scripts.contains(&ScriptHash::of(output.script_pubkey.as_bytes())) {
                received += output.value.to_sat();
            }
        }
        spent = inputs(at, &found)?
            .iter()
            .filter(|input| scripts.contains(&input.scripthash))
            .map(|input| input.value)
            .sum();
    }
    let height = entry.height();
    Ok(Line {
        txid: entry.txid,
        height,
        time: height.and_then(|height| at.block_time(Height(height))),
        received,
        spent,
        label: label(state, LabelKind::Tx, &entry.txid.to_string())?.and_then(|label| label.label),
    })
}

/// Writes a time as RFC 3339 has it.
pub(super) fn written(time: u32) -> String {
    let time = OffsetDateTime::from_unix_timestamp(time.into()).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}
