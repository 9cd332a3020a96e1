//! Work budget: the bounds of one answer.
//!
//! The size of an answer is known only while it is made. So every `Reader` of a snapshot carries a budget and charges
//! each read to it before or as it happens; computations that read nothing are charged by
//! [`Snapshot::charge_step`](crate::Snapshot::charge_step). Work beyond the budget fails with [`OverBudget`].
//!
//! An answer that is made on a thread that others wait for has the small budget, and is asked for again on another
//! thread if it needs more. What fits the small budget takes some tens of microseconds with everything in memory, and
//! rarely some hundred. On the other thread the answer [gives way](crate::giving_way) to others, and its
//! [`Pace`](crate::Pace), if it has one, decides whether it goes on.

use birdhouse_store::{Page, PageLimit};

use crate::work::give_way::{OverBudget, give_way};

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
/// One page of a scan beyond it.
const PAGE: PageLimit = PageLimit { rows: 4096, bytes: 4 << 20 };

/// The bound on the work of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WorkBudget {
    /// As much as the answer takes, at the pace of its thread.
    Paced,
    /// Some lookups and some kilobytes: the constants of this file.
    Small,
}

impl WorkBudget {
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

    /// Charges a read whose cost has no bound, such as one from the node: the small budget does not cover it.
    pub(crate) fn charge_unbounded(self) -> Result<(), OverBudget> {
        self.at_most(1, 0)
    }

    /// Charges a step of a computation that reads nothing and may be long.
    pub(crate) fn charge_step(self) -> Result<(), OverBudget> {
        self.charge_unbounded()
    }

    /// Charges the inputs and outputs of a script's transactions in the mempool. `size` counts them, up to its
    /// argument.
    pub(crate) fn charge_unconfirmed(self, size: impl FnOnce(usize) -> usize) -> Result<(), OverBudget> {
        match self {
            Self::Paced => Ok(()),
            Self::Small => self.at_most(size(UNCONFIRMED_MAX), UNCONFIRMED_MAX),
        }
    }

    /// The bounds of one page of a scan.
    pub(crate) fn page_limit(self) -> PageLimit {
        match self {
            Self::Paced => PAGE,
            Self::Small => SMALL_PAGE,
        }
    }

    /// Charges a page. The small budget covers one that is the last of its scan; a single row may be larger than the
    /// page limit, and is then not covered.
    pub(crate) fn charge_page(self, page: &Page) -> Result<(), OverBudget> {
        if self == Self::Paced {
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
            Self::Paced => return give_way(),
            Self::Small if count > max => return Err(OverBudget),
            Self::Small => {}
        }
        Ok(())
    }
}
