//! Plans and costs of queries, in words and numbers. They never contain a value that a client asked for.

use std::fmt;

use crate::filter::Filter;
use crate::query::plan::{Merge, Plan, SCAN_PER_EVENT, Scan};

/// Work that a query has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Cost {
    /// Entries read from posting lists.
    pub postings: u64,
    /// Events read.
    pub events: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Events returned.
    pub rows: u64,
}

/// Plan of a query, and the cost of its first rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// Steps of the plan, in order.
    pub steps: Vec<String>,
    /// Cost of the rows.
    pub cost: Cost,
}

/// Form of a filter without its values, such as `kinds:2 authors:500 #e:76 since limit:100`.
#[derive(Debug, Clone, Copy)]
pub struct Shape<'a>(&'a Filter);

impl Filter {
    /// Returns the filter's form, for a log.
    pub fn shape(&self) -> Shape<'_> {
        Shape(self)
    }
}

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(filter) = self;
        let mut is_first = true;
        let mut write = |part: fmt::Arguments<'_>| {
            let space = if std::mem::take(&mut is_first) { "" } else { " " };
            f.write_fmt(format_args!("{space}{part}"))
        };
        for (letter, values) in &filter.tags {
            write(format_args!("#{letter}:{}", values.len()))?;
        }
        let counts = [
            ("ids", filter.ids.as_ref().map(Vec::len)),
            ("kinds", filter.kinds.as_ref().map(Vec::len)),
            ("authors", filter.authors.as_ref().map(Vec::len)),
            ("limit", filter.limit),
        ];
        for (name, count) in counts {
            if let Some(count) = count {
                write(format_args!("{name}:{count}"))?;
            }
        }
        for (name, is_asked) in [("since", filter.since.is_some()), ("until", filter.until.is_some())] {
            if is_asked {
                write(format_args!("{name}"))?;
            }
        }
        if let Some(search) = &filter.search {
            write(format_args!("search:{}", search.words.len()))?;
        }
        if is_first { f.write_str("everything") } else { Ok(()) }
    }
}

impl Plan {
    /// Returns the steps in the order in which they run.
    pub(super) fn steps(&self, filter: &Filter) -> Vec<String> {
        match self {
            Self::Nothing => vec!["nothing can match".to_owned()],
            Self::Ids(ids) => vec![format!("look up {} ids", ids.len())],
            Self::Merge(merge) => merge.steps(filter),
        }
    }
}

impl Merge {
    fn steps(&self, filter: &Filter) -> Vec<String> {
        let mut steps = Vec::new();
        if let Some(scan) = &self.scan {
            let Scan { budget, .. } = scan;
            steps.push(format!(
                "scan the newest {budget} postings of all events, and {SCAN_PER_EVENT} more for each event found"
            ));
        }
        let count = self.lists.ranges.len();
        let of = match &self.lists.tag {
            Some((letter, _)) => format!("of tag {letter}"),
            None if self.check.authors.is_some() => "of authors".to_owned(),
            None => "of all events".to_owned(),
        };
        steps.push(format!("merge {count} ranges of lists {of}, newest first"));
        let decided = [("kind", self.check.kinds.is_some()), ("author", self.check.authors.is_some())];
        for (name, _) in decided.into_iter().filter(|(_, is_checked)| *is_checked) {
            steps.push(format!("filter postings by {name}"));
        }
        let chosen = self.lists.tag.as_ref().map(|(letter, _)| *letter);
        for (letter, _) in filter.tags.iter().filter(|(letter, _)| Some(*letter) != chosen) {
            steps.push(format!("read the event to test tag {letter}"));
        }
        steps
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::filter::FilterLimits;

    #[test]
    fn a_shape_has_counts_and_no_values() {
        let shape = |json: &str| Filter::from_json(json, &FilterLimits::default()).unwrap().shape().to_string();
        let key = "ab".repeat(32);
        let filter = format!(
            r##"{{"kinds":[1,6],"authors":["{key}"],"#e":["{key}"],"#t":["secret","words"],"since":5,"limit":7,"search":"two words"}}"##
        );
        assert_eq!(shape(&filter), "#e:1 #t:2 kinds:2 authors:1 limit:7 since search:2");
        assert_eq!(shape("{}"), "everything");
    }
}
