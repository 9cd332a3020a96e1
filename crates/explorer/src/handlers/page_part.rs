//! Pages of lists that are in memory.

use birdhouse_esplora::{Failure, Question};

use crate::views::parts::ListPart;

/// Returns the part of a list that the query asks for by the index of its first entry.
///
/// # Errors
/// It is no number, or beyond the list.
pub(super) fn part_of(question: &Question<'_>, name: &str, count: usize, most: usize) -> Result<ListPart, Failure> {
    let start = match question.params.query(name) {
        None => 0,
        Some(start) => start.parse().map_err(|_| Failure::bad_request("the start is no number"))?,
    };
    if start > 0 && start >= count {
        return Err(Failure::not_found("the list is shorter"));
    }
    Ok(ListPart { start, end: count.min(start.saturating_add(most)), count, most })
}
