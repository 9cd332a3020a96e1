//! A watch, as operators see it.

use birdhouse_chain::Balance;

use crate::file::WatchName;

/// A watch, for operators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchView {
    /// Its name.
    pub name: WatchName,
    /// Kind of its source.
    pub kind: &'static str,
    /// Scripts that are watched.
    pub scripts: usize,
    /// The number after the last used script, of each branch.
    pub used: Vec<u32>,
    /// Scripts of each branch that are watched.
    pub derived: Vec<u32>,
    /// Its balance.
    pub balance: Balance,
    /// Transactions that may still change.
    pub open: usize,
    /// The reason why it says less than it should.
    pub fault: Option<String>,
}
