//! Counters of requests. Every count is an addition to a number that any thread may read; `server` decides the names
//! under which metrics show them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use birdhouse_clients::Slowest;
use birdhouse_net::Traffic;
use strum::{EnumCount as _, IntoEnumIterator as _};

use crate::error::RpcError;
use crate::request::{Lane, Request};

/// Upper bounds of the histogram's buckets, in microseconds; one more bucket takes longer durations.
const BOUNDS_US: [u64; 15] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    10_000_000,
];

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumCount, strum::EnumIter, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Outcome {
    /// The reply has a result.
    Answered,
    /// The request is wrong, or its subject does not exist.
    Rejected,
    /// A limit is reached, or the server is not ready for it.
    Refused,
    /// The server or the node has failed.
    Failed,
}

/// Counters of the whole server.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    requests: ByKind,
    /// Messages that are no requests: no JSON, no method, wrong parameters.
    invalid: AtomicU64,
    latencies: [Latencies; Lane::COUNT],
    pub(crate) slowest: Slowest,
    silent: [AtomicU64; Silent::COUNT],
}

/// Figures on silent payments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumCount)]
pub(crate) enum Silent {
    /// Transactions that were scanned for a key, in blocks and in the mempool.
    Scanned,
    /// Transactions that were found and sent.
    Found,
    /// Histories that were sent to their end.
    Histories,
}

/// Requests by kind and outcome.
#[derive(Debug)]
struct ByKind(HashMap<&'static str, [AtomicU64; Outcome::COUNT]>);

impl Default for ByKind {
    fn default() -> Self {
        Self(Request::kinds().map(|kind| (kind, Default::default())).collect())
    }
}

/// A histogram.
#[derive(Debug, Default)]
struct Latencies {
    buckets: [AtomicU64; BOUNDS_US.len() + 1],
    sum_us: AtomicU64,
}

/// The counts at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Counted {
    /// Requests by kind and outcome.
    pub requests: Vec<(&'static str, Outcome, u64)>,
    /// Messages, or items of batches, that are no requests.
    pub invalid_requests: u64,
    /// Time from a message's arrival to the reply's departure, by lane: memory, index or node.
    pub latencies: Vec<(&'static str, Histogram)>,
    /// Messages of all connections.
    pub traffic: Traffic,
    /// Transactions that were scanned for silent payments, once for each key.
    pub silent_scanned: u64,
    /// Transactions that were sent to subscriptions to silent payments.
    pub silent_found: u64,
    /// Histories of silent payments that were sent to their end.
    pub silent_histories: u64,
}

/// Durations in buckets.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    /// Upper bound in seconds, and the number of durations in this bucket alone; the last bound is infinite.
    pub buckets: Vec<(f64, u64)>,
    /// Sum of all durations, in seconds.
    pub sum: f64,
}

impl Outcome {
    /// Returns the outcome of a reply.
    pub(crate) fn of<T>(result: &Result<T, RpcError>) -> Self {
        match result {
            Ok(_) => Self::Answered,
            Err(error) if error.is_failure() => Self::Failed,
            Err(error) if error.is_refusal() => Self::Refused,
            Err(_) => Self::Rejected,
        }
    }
}

impl Counters {
    /// Counts a request that was answered, `latency` after its arrival.
    pub(crate) fn answered(&self, kind: &str, lane: Lane, outcome: Outcome, latency: Duration) {
        self.requests.0[kind][outcome as usize].fetch_add(1, Ordering::Relaxed);
        self.latencies[lane as usize].add(latency);
        // Most requests need no second look at the clock.
        if latency >= Slowest::SLOW_MIN {
            self.slowest.record(latency, Instant::now(), || kind.to_owned());
        }
    }

    /// Counts a message that is no request.
    pub(crate) fn invalid(&self) {
        self.invalid.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts silent payments.
    pub(crate) fn silent(&self, figure: Silent, count: usize) {
        self.silent[figure as usize].fetch_add(count as u64, Ordering::Relaxed);
    }

    /// Returns the counts at this moment.
    pub(crate) fn counted(&self, traffic: Traffic) -> Counted {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let requests = Request::kinds().flat_map(|kind| {
            let counts = &self.requests.0[kind];
            Outcome::iter().map(move |outcome| (kind, outcome, count(&counts[outcome as usize])))
        });
        Counted {
            requests: requests.collect(),
            invalid_requests: count(&self.invalid),
            latencies: Lane::iter().map(|lane| (lane.into(), self.latencies[lane as usize].histogram())).collect(),
            traffic,
            silent_scanned: count(&self.silent[Silent::Scanned as usize]),
            silent_found: count(&self.silent[Silent::Found as usize]),
            silent_histories: count(&self.silent[Silent::Histories as usize]),
        }
    }
}

impl Latencies {
    fn add(&self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < us);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    fn histogram(&self) -> Histogram {
        let bounds = BOUNDS_US.iter().map(|us| Duration::from_micros(*us).as_secs_f64()).chain([f64::INFINITY]);
        let counts = self.buckets.iter().map(|count| count.load(Ordering::Relaxed));
        let sum = Duration::from_micros(self.sum_us.load(Ordering::Relaxed)).as_secs_f64();
        Histogram { buckets: bounds.zip(counts).collect(), sum }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_latency_is_in_the_first_bucket_that_holds_it() {
        let latencies = Latencies::default();
        for us in [0, 100, 101, 10_000_000, 10_000_001] {
            latencies.add(Duration::from_micros(us));
        }
        let Histogram { buckets, sum } = latencies.histogram();
        assert_eq!(buckets[..3], [(0.0001, 2), (0.00025, 1), (0.0005, 0)]);
        assert_eq!(buckets[14..], [(10.0, 1), (f64::INFINITY, 1)]);
        assert!((sum - 20.000_202).abs() < 1e-9);
    }

    #[test]
    fn requests_are_counted_by_kind_and_outcome() {
        let counters = Counters::default();
        let latency = Duration::from_millis(1);
        let (ping, history) = ("ping", "history");
        counters.answered(ping, Lane::Memory, Outcome::Answered, latency);
        counters.answered(history, Lane::Index, Outcome::of::<()>(&Err(RpcError::internal())), latency);
        counters.answered(history, Lane::Index, Outcome::of::<()>(&Err(RpcError::excessive("x"))), latency);
        counters.answered(history, Lane::Index, Outcome::of::<()>(&Err(RpcError::bad_request("x"))), latency);
        let counted = counters.counted(Traffic::default());
        let count = |kind, outcome| counted.requests.iter().find(|(k, o, _)| (*k, *o) == (kind, outcome)).unwrap().2;
        assert_eq!(count("ping", Outcome::Answered), 1);
        assert_eq!(count("history", Outcome::Failed), 1);
        assert_eq!(count("history", Outcome::Refused), 1);
        assert_eq!(count("history", Outcome::Rejected), 1);
        assert_eq!(count("history", Outcome::Answered), 0);
        assert_eq!(counters.requests.0.len(), Request::kinds().count(), "no name stands for two kinds");
    }
}
