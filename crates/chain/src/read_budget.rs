//! Read budget: the bounds of an answer that is made on a thread that others wait for.
//!
//! The size of an answer is known only while it is made. So every [`Reader`](crate::reader::Reader) carries a budget
//! and charges each read to it before or as it happens; a read beyond the budget fails with [`OverBudget`], and the
//! caller asks again on another thread, which may [give way](crate::giving_way) to others meanwhile. What fits the
//! small budget takes some tens of microseconds with everything in memory, and rarely some hundred.

use birdhouse_store::{Page, PageLimit};

use crate::give_way::give_way;

/// Transactions or unspent outputs of one answer within the small budget. They take some 200 microseconds; handing the
/// request to another thread costs two wake-ups, 100 microseconds.
const ENTRIES_MAX: usize = 1024;
/// Bytes of a transaction within the small budget: it is hashed to prove it.
const TRANSACTION_BYTES_MAX: usize = 16 << 10;
/// Inputs and outputs of a script's transactions in the mempool within the small budget: an answer visits each of them.
const UNCONFIRMED_MAX: usize = 256;
/// Transactions that are looked up and read, one by one, within the small budget: some 15 microseconds each.
const LOOKUPS_MAX: usize = 8;
/// The one page of a scan within the small budget.
const SMALL_PAGE: PageLimit = PageLimit { rows: 256, bytes: 16 << 10 };
/// One page of an unlimited scan.
const PAGE: PageLimit = PageLimit { rows: 4096, bytes: 4 << 20 };

/// The bound on the reads of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadBudget {
    /// As much as the answer takes.
    Unlimited,
    /// Some lookups and some kilobytes: the constants of this file.
    Small,
}

/// A read that the budget does not cover. [`Snapshot::within_budget`](crate::Snapshot::within_budget) ends its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OverBudget;

impl ReadBudget {
    /// Charges an answer of `count` transactions or outputs.
    pub(crate) fn charge_entries(self, count: usize) -> Result<(), OverBudget> {
        self.at_most(count, ENTRIES_MAX)
    }

    /// Charges a transaction of `bytes`.
    pub(crate) fn charge_transaction(self, bytes: usize) -> Result<(), OverBudget> {
        self.at_most(bytes, TRANSACTION_BYTES_MAX)
    }

    /// Charges the transactions that are looked up and read, one by one.
    pub(crate) fn charge_lookups(self, count: usize) -> Result<(), OverBudget> {
        self.at_most(count, LOOKUPS_MAX)
    }

    /// Charges a read whose cost has no bound, such as one from the node: only an unlimited budget covers it.
    pub(crate) fn charge_unbounded(self) -> Result<(), OverBudget> {
        self.at_most(1, 0)
    }

    /// Charges the inputs and outputs of a script's transactions in the mempool. `size` counts them, up to its
    /// argument.
    pub(crate) fn charge_unconfirmed(self, size: impl FnOnce(usize) -> usize) -> Result<(), OverBudget> {
        match self {
            Self::Unlimited => Ok(()),
            Self::Small => self.at_most(size(UNCONFIRMED_MAX), UNCONFIRMED_MAX),
        }
    }

    /// The bounds of one page of a scan.
    pub(crate) fn page_limit(self) -> PageLimit {
        match self {
            Self::Unlimited => PAGE,
            Self::Small => SMALL_PAGE,
        }
    }

    /// Charges a page. The small budget covers one that is the last of its scan; a single row may be larger than the
    /// page limit, and is then not covered.
    pub(crate) fn charge_page(self, page: &Page) -> Result<(), OverBudget> {
        if self == Self::Unlimited {
            return Ok(());
        }
        self.at_most(usize::from(page.rest.is_some()), 0)?;
        self.charge_rows(page)
    }

    /// Charges a page that may be followed by others.
    pub(crate) fn charge_rows(self, page: &Page) -> Result<(), OverBudget> {
        self.at_most(page.rows.iter().map(|(_, value)| value.len()).sum(), SMALL_PAGE.bytes)
    }

    fn at_most(self, count: usize, max: usize) -> Result<(), OverBudget> {
        match self {
            Self::Unlimited => give_way(),
            Self::Small if count > max => return Err(OverBudget),
            Self::Small => {}
        }
        Ok(())
    }
}
