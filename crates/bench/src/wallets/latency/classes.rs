//! Classes of scripts by a count, such as that of their transactions, and their rows in the table of a curve.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::machine::server_at::Turns;
use crate::report::durations::Durations;
use crate::report::record::{Cell, Table};

/// The scripts of one class: their counts and indexes, the least first.
#[derive(Debug)]
pub(crate) struct Class(Vec<(u64, usize)>);

impl Class {
    /// Returns the classes of scripts with these counts, the least first. A script without a count is in none, and
    /// neither is one with 0, which a logarithmic axis does not have.
    pub(crate) fn by_count(counts: impl IntoIterator<Item = Option<u64>>) -> Vec<Self> {
        let mut classes: BTreeMap<_, Vec<(u64, usize)>> = BTreeMap::new();
        for (index, count) in counts.into_iter().enumerate() {
            if let Some(count) = count.filter(|count| *count > 0) {
                classes.entry(class(count)).or_default().push((count, index));
            }
        }
        let sorted = |mut members: Vec<_>| {
            members.sort_unstable();
            Self(members)
        };
        classes.into_values().map(sorted).collect()
    }

    /// Adds its row to the table of a curve. `times` returns those of one script among the figures of a server.
    pub(crate) fn add_row<T>(&self, table: &mut Table, all: &[Turns<T>], times: impl Fn(&T, usize) -> &[Duration]) {
        let [least, middle, most] = [0, self.0.len() / 2, self.0.len() - 1].map(|at| self.0[at].0);
        let cells = all.iter().map(|one| match &one.figures {
            Ok(figures) => {
                let mut all = Durations::default();
                for (_, index) in &self.0 {
                    all.add_all(times(figures, *index));
                }
                all.with_p99()
            }
            Err(error) => Cell::failed(error),
        });
        table.push_at(middle, span(least, most), cells);
    }
}

/// Returns the title of a row for counts from the least to the greatest one.
pub(crate) fn span(least: u64, most: u64) -> String {
    if least == most { least.to_string() } else { format!("{least} to {most}") }
}

/// Returns the least and the greatest count of a count's class. Classes begin at 1, 2 and 5 of each decade; 0 has its
/// own.
pub(crate) fn class(count: u64) -> (u64, u64) {
    let mut least = u64::from(count > 0);
    for next in (0..19).flat_map(|decade| [1, 2, 5].map(|digit| digit * 10u64.pow(decade))) {
        if next > count {
            return (least, next - 1);
        }
        least = next;
    }
    (least, u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_begin_at_one_two_and_five() {
        let classes = [0, 1, 4, 10, 19, 20, 999, 127_972].map(class);
        let wanted = [(0, 0), (1, 1), (2, 4), (10, 19), (10, 19), (20, 49), (500, 999), (100_000, 199_999)];
        assert_eq!(classes, wanted);
    }
}
