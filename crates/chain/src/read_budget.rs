//! Short answers: what may be made on a thread that others wait for.
//!
//! The length of an answer is known only while it is made. So a snapshot can be asked with a budget: as soon as it turns
//! out that an answer takes more than the bounds of this file, making it ends with [`Error::Long`]. What is left, with
//! everything in memory, takes some tens of microseconds, and seldom some hundred.

use birdhouse_store::{Page, PageLimit};

use crate::query::{PAGE, Snapshot};
use crate::scripthash::ScriptHash;
use crate::{Error, Result};

/// Transactions, or unspent outputs, of a short answer. So many take some 200 microseconds; to have another thread read
/// them, two wake-ups, takes 100.
pub(crate) const ENTRIES_MAX: usize = 1024;
/// Bytes of a transaction, which is hashed to prove it.
pub(crate) const TRANSACTION_BYTES_MAX: usize = 16 << 10;
/// Inputs and outputs of a script's transactions in the mempool: each is looked at.
const UNCONFIRMED_MAX: usize = 256;
/// Rows of one scan, which must be all there are.
const SHORT_PAGE: PageLimit = PageLimit { rows: 256, bytes: 16 << 10 };

/// How far a snapshot goes for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadBudget {
    /// As far as it takes.
    Whole,
    /// To the bounds of this file.
    Short,
}

impl Snapshot {
    /// Asks for an answer if it is a short one, for which some rows are looked up and some kilobytes read. `None`: it
    /// would be longer, and nothing is known of it.
    ///
    /// # Errors
    /// Those of `ask`, but for [`Error::Long`].
    pub fn within_budget<T>(&self, ask: impl FnOnce(&Self) -> Result<T>) -> Result<Option<T>> {
        match ask(&Self { budget: ReadBudget::Small, ..self.clone() }) {
            Err(Error::Long) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// A short answer has no more than `max` of something.
    pub(crate) fn within(&self, count: usize, max: usize) -> Result<()> {
        if self.budget == ReadBudget::Small && count > max { Err(Error::Long) } else { Ok(()) }
    }

    /// No short answer needs this.
    pub(crate) fn only_whole(&self) -> Result<()> {
        self.within(1, 0)
    }

    /// What the mempool adds to the answers about a script is in the bounds, too.
    pub(crate) fn within_mempool(&self, scripthash: &ScriptHash) -> Result<()> {
        match self.budget {
            ReadBudget::Unlimited => Ok(()),
            ReadBudget::Small => self.within(self.mempool.size_of_script(scripthash, UNCONFIRMED_MAX), UNCONFIRMED_MAX),
        }
    }

    /// One page of a scan.
    pub(crate) fn page_limit(&self) -> PageLimit {
        match self.budget {
            ReadBudget::Unlimited => PAGE,
            ReadBudget::Small => SHORT_PAGE,
        }
    }

    /// The page of a short answer is the last, and its one row, if that is larger than a page, is too large.
    pub(crate) fn within_page(&self, page: &Page) -> Result<()> {
        if self.budget == ReadBudget::Unlimited {
            return Ok(());
        }
        self.within(usize::from(page.rest.is_some()), 0)?;
        self.within(page.rows.iter().map(|(_, value)| value.len()).sum(), SHORT_PAGE.bytes)
    }
}
