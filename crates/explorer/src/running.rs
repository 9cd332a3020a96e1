//! Running balances along the pages of a history.
//!
//! A page in the middle of a history cannot know its balance without everything before or after it. So the links to the
//! next pages carry the balance at their cursor, signed by this process for this script and cursor. A link without a
//! valid one opens a page without balances.

use birdhouse_chain::ScriptHash;
use birdhouse_esplora::Question;
use bitcoin::Txid;

/// A transaction from which a page goes on, to one side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Cursor {
    pub(crate) side: Side,
    pub(crate) txid: Txid,
}

/// The side of a cursor for which a page asks, and on which its balance counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// Older transactions; the balance before the cursor's transaction.
    Before,
    /// Newer transactions; the balance after it.
    After,
}

impl Side {
    /// Its name in a query.
    fn name(self) -> &'static str {
        match self {
            Self::Before => "before",
            Self::After => "after",
        }
    }
}

/// Returns the query of the page of a script beyond a cursor.
pub(crate) fn query(question: &Question<'_>, script: &ScriptHash, cursor: Cursor, balance: Option<u64>) -> String {
    let query = format!("?{}={}", cursor.side.name(), cursor.txid);
    match balance {
        None => query,
        Some(balance) => format!("{query}&balance={balance}-{:016x}", seal(question, script, cursor, balance)),
    }
}

/// Reads a balance out of the query of such a page.
pub(crate) fn balance(question: &Question<'_>, script: &ScriptHash, cursor: Cursor) -> Option<u64> {
    let text = question.params.query("balance")?;
    let (balance, signed) = text.split_once('-')?;
    let (balance, signed) = (balance.parse().ok()?, u64::from_str_radix(signed, 16).ok()?);
    (signed == seal(question, script, cursor, balance)).then_some(balance)
}

fn seal(question: &Question<'_>, script: &ScriptHash, cursor: Cursor, balance: u64) -> u64 {
    question.sign(&(script.0, cursor, balance))
}
