//! Work: how much an answer may cost, when it lets others go first, and work on several threads.

mod budget;
pub(crate) mod give_way;
pub(crate) mod parallel;

pub(crate) use self::budget::WorkBudget;
pub(crate) use self::give_way::OverBudget;
pub use self::give_way::{Pace, giving_way, paced};
