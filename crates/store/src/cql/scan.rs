//! Scans of one generation of a table, in both directions.
//!
//! A range inside one bucket is read from its partition. For others the names of the buckets are read first, then
//! several buckets at once.

use std::sync::Arc;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use super::cluster::{Link, REQUESTS_AT_ONCE};
use super::layout;
use super::rows::{TableRef, rows_of};
use crate::error::Result;
use crate::range::{Direction, KeyRange, Page, PageBuilder, PageLimit, Row};

/// Rows in one answer of the cluster.
const FETCHED_ROWS_MAX: usize = 1000;
/// Buckets that are read at once.
const BUCKETS_AT_ONCE: usize = 16;
/// Names of buckets in one answer of the cluster.
const NAMES_MAX: i32 = 1000;

/// The part of a range in one bucket: keys inside it, from `start` (included) to `end` (excluded).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Slice {
    bucket: Vec<u8>,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
}

/// Rows of a bucket with their whole keys, and the rest of the slice if there may be more.
type Fetched = (Vec<Row>, Option<Slice>);

/// Buckets from `first` to `last`, both included; without `last` to the end of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Span {
    first: Vec<u8>,
    last: Option<Vec<u8>>,
}

// === impl TableRef ===

impl TableRef {
    /// Scans ranges, one page each.
    pub(super) async fn scan_many(self, link: Arc<Link>, ranges: Vec<KeyRange>, limit: PageLimit) -> Result<Vec<Page>> {
        let scan = |range: KeyRange| {
            let (table, link) = (&self, &link);
            async move { table.scan(link, &range, limit).await }
        };
        stream::iter(ranges.into_iter().map(scan)).buffered(REQUESTS_AT_ONCE).try_collect().await
    }

    async fn scan(&self, link: &Link, range: &KeyRange, limit: PageLimit) -> Result<Page> {
        let mut page = PageBuilder::new(range, limit);
        if range.is_empty() {
            return Ok(page.finish());
        }
        // One row more than the page takes tells that there is a rest.
        let rows = limit.rows.max(1).saturating_add(1).min(FETCHED_ROWS_MAX);
        let mut left = Some(Span::of(range, self.bucket_bytes));
        while let Some(span) = left.take() {
            let (buckets, rest) = self.buckets(link, span, range.direction).await?;
            left = rest;
            let fetch = |bucket| self.fetch(link, slice(range, bucket, self.bucket_bytes), range.direction, rows);
            let mut fetched = stream::iter(buckets.into_iter().map(fetch)).buffered(BUCKETS_AT_ONCE);
            while let Some((some, mut more)) = fetched.try_next().await? {
                let mut some = some;
                loop {
                    if !some.iter().all(|(key, value)| page.offer(key, value)) {
                        return Ok(page.finish());
                    }
                    let Some(slice) = more else { break };
                    (some, more) = self.fetch(link, slice, range.direction, rows).await?;
                }
            }
        }
        Ok(page.finish())
    }

    /// Returns the buckets of a span that may have rows, in the direction of the scan, and the rest of the span.
    async fn buckets(&self, link: &Link, span: Span, direction: Direction) -> Result<(Vec<Vec<u8>>, Option<Span>)> {
        if span.last.as_ref() == Some(&span.first) {
            return Ok((vec![span.first], None));
        }
        let (statements, name, generation) = (&link.statements, &*self.name, self.generation);
        let (within, open) = match direction {
            Direction::Forward => (&statements.buckets_between, &statements.buckets_from),
            Direction::Backward => (&statements.buckets_back_between, &statements.buckets_back_from),
        };
        let found = match &span.last {
            Some(last) => link.send("list buckets", within, (name, generation, &span.first, last, NAMES_MAX)).await?,
            None => link.send("list buckets", open, (name, generation, &span.first, NAMES_MAX)).await?,
        };
        let buckets: Vec<Vec<u8>> = rows_of::<(Vec<u8>,)>(found)?.into_iter().map(|(bucket,)| bucket).collect();
        let is_whole = buckets.len() < usize::try_from(NAMES_MAX).expect("positive");
        let rest = buckets.last().filter(|_| !is_whole).and_then(|bucket| span.after(bucket, direction));
        Ok((buckets, rest))
    }

    /// Reads the first rows of a slice.
    async fn fetch(&self, link: &Link, slice: Slice, direction: Direction, rows: usize) -> Result<Fetched> {
        let (statements, name, generation) = (&link.statements, &*self.name, self.generation);
        let (within, open) = match direction {
            Direction::Forward => (&statements.rows_between, &statements.rows_from),
            Direction::Backward => (&statements.rows_back_between, &statements.rows_back_from),
        };
        let limit = i32::try_from(rows).expect("a bounded number");
        let Slice { bucket, start, end } = &slice;
        let found = match end {
            Some(end) => link.send("scan rows", within, (name, generation, bucket, start, end, limit)).await?,
            None => link.send("scan rows", open, (name, generation, bucket, start, limit)).await?,
        };
        let found: Vec<Row> = rows_of(found)?;
        let rest = found.last().filter(|_| found.len() == rows).map(|(last, _)| slice.after(last, direction));
        let whole = |(key, value): Row| ([&slice.bucket[..], &key].concat(), value);
        Ok((found.into_iter().map(whole).collect(), rest))
    }

    /// Returns true if the generation has no row.
    pub(super) async fn has_no_row(self, link: Arc<Link>) -> Result<bool> {
        let all = KeyRange::prefix(&[], Direction::Forward);
        Ok(self.scan(&link, &all, PageLimit { rows: 1, bytes: 1 }).await?.rows.is_empty())
    }

    /// Returns all buckets that may have rows.
    pub(super) async fn all_buckets(&self, link: &Link) -> Result<Vec<Vec<u8>>> {
        let (mut all, mut left) = (Vec::new(), Some(Span { first: Vec::new(), last: None }));
        while let Some(span) = left.take() {
            let (some, rest) = self.buckets(link, span, Direction::Forward).await?;
            all.extend(some);
            left = rest;
        }
        Ok(all)
    }
}

// === impl Span ===

impl Span {
    /// The buckets that have keys of a range.
    fn of(range: &KeyRange, bucket_bytes: usize) -> Self {
        let first = layout::split(&range.start, bucket_bytes).0.to_vec();
        let is_one = first.len() == bucket_bytes && range.end == KeyRange::prefix(&first, range.direction).end;
        let last = match range.end.as_slice() {
            _ if is_one => Some(first.clone()),
            [] => None,
            end => Some(layout::split(end, bucket_bytes).0.to_vec()),
        };
        Self { first, last }
    }

    /// The rest of the span after `bucket`; `None` if there can be none.
    fn after(self, bucket: &[u8], direction: Direction) -> Option<Self> {
        let rest = match direction {
            Direction::Forward => Self { first: [bucket, &[0]].concat(), ..self },
            Direction::Backward => Self { last: Some(below(bucket)?), ..self },
        };
        rest.last.as_ref().is_none_or(|last| rest.first <= *last).then_some(rest)
    }
}

/// Returns a key below `bucket` and above every bucket below it; `None` if there is no such bucket. Buckets have at
/// most three bytes, so four high bytes lie above all that begin with the same byte.
fn below(bucket: &[u8]) -> Option<Vec<u8>> {
    let (last, before) = bucket.split_last()?;
    match last.checked_sub(1) {
        Some(less) => Some([before, &[less], &[u8::MAX; 4]].concat()),
        None => Some(before.to_vec()),
    }
}

// === impl Slice ===

/// The part of a range in a bucket.
fn slice(range: &KeyRange, bucket: Vec<u8>, bucket_bytes: usize) -> Slice {
    let (first, start) = layout::split(&range.start, bucket_bytes);
    let (last, end) = layout::split(&range.end, bucket_bytes);
    let start = if first == bucket { start.to_vec() } else { Vec::new() };
    let end = (!range.end.is_empty() && last == bucket).then(|| end.to_vec());
    Slice { bucket, start, end }
}

impl Slice {
    /// The rest of the slice after the row of `key`.
    fn after(&self, key: &[u8], direction: Direction) -> Self {
        match direction {
            Direction::Forward => Self { start: [key, &[0]].concat(), ..self.clone() },
            Direction::Backward => Self { end: Some(key.to_vec()), ..self.clone() },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(start: &[u8], end: &[u8]) -> KeyRange {
        KeyRange { start: start.to_vec(), end: end.to_vec(), direction: Direction::Forward }
    }

    #[test]
    fn a_range_inside_a_bucket_needs_no_list_of_buckets() {
        let is_one = |start: &[u8], end: &[u8]| {
            let span = Span::of(&range(start, end), 2);
            span.last == Some(span.first)
        };
        assert!(is_one(b"ab", b"ac"));
        assert!(is_one(b"ab1", b"ab7"));
        assert!(is_one(&[1, 255, 9], &[2]));
        assert!(!is_one(b"ab", b"ad"));
        assert!(!is_one(b"a", b"b"));
        assert!(!is_one(b"ab", b""));
    }

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop::sample::select(vec![0, 1, 254, 255_u8]), 0..5)
    }

    proptest! {
        #[test]
        fn spans_and_slices_have_exactly_the_keys_of_a_range(start in key(), end in key(), key in key(), bytes in 1..4_usize) {
            let range = range(&start, &end);
            prop_assume!(!range.is_empty());
            let (bucket, inside) = layout::split(&key, bytes);
            let span = Span::of(&range, bytes);
            let is_in_span = span.first.as_slice() <= bucket && span.last.is_none_or(|last| bucket <= last.as_slice());
            let slice = slice(&range, bucket.to_vec(), bytes);
            let is_in_slice = slice.start.as_slice() <= inside && slice.end.is_none_or(|end| inside < end.as_slice());
            prop_assert_eq!(is_in_span && is_in_slice, range.contains(&key));
        }

        #[test]
        fn a_rest_of_a_span_has_the_buckets_after_one(one in key(), other in key()) {
            let (one, other) = (layout::split(&one, 3).0, layout::split(&other, 3).0);
            let all = Span { first: Vec::new(), last: None };
            let has = |span: Option<Span>| span.is_some_and(|span| {
                span.first.as_slice() <= other && span.last.is_none_or(|last| other <= last.as_slice())
            });
            prop_assert_eq!(has(all.clone().after(one, Direction::Forward)), other > one);
            prop_assert_eq!(has(all.after(one, Direction::Backward)), other < one);
        }
    }
}
