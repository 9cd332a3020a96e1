//! Rows of tweaks to the rows that pay a scan key.
//!
//! For every row: the shared secret is the tweak times the scan key; its hash is a scalar; the candidates are the spend
//! key plus this multiple of the generator, and that plus each label's point. Three paths do the same:
//!
//! | path | how |
//! |---|---|
//! | [`Path::Reference`] | one row after the other, by libsecp256k1 |
//! | [`Path::Scalar`] | batches, with one schedule for all points (`schedule`) and a table of the generator (`table`) |
//! | [`Path::Vector`] | the same batches, eight rows in the lanes of AVX-512 IFMA |
//!
//! The batches (`batch`, `curve`) are written once for any `lanes`: `field` has one, `ifma` eight.
//! `products` multiplies in the same lanes where rows are made, before any scan.
//!
//! Time depends on the scan key's schedule and on the number of rows. The process holds the key in clear, so this tells
//! something to those who run on the same processor, and to nobody else.

#![expect(
    clippy::inline_always,
    reason = "what is not inlined is compiled for any processor, not for that of the lanes"
)]
#![expect(clippy::many_single_char_names, reason = "the letters of formulas")]

mod batch;
mod curve;
mod field;
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the standard library offers vector instructions in no other form")]
mod ifma;
mod lanes;
mod number;
mod products;
mod schedule;
mod self_test;
mod table;

use std::sync::Arc;

use crate::key::{DamagedTweak, ScanKey};
use crate::scan::batch::{Batches, Candidates, Prepared};
use crate::scan::field::One;
use crate::scan::lanes::{Job, Lanes, Times};
use crate::scan::number::Number;
use crate::scan::products::Products;
use crate::scan::schedule::Schedule;
use crate::scan::table::{Table, point, point_of};
use crate::transaction::{Eligible, Factors, Summed, TWEAK_BYTES};

/// Rows that complete formulas scan in less time than a batch, which pays for all of its inversions: one row takes
/// 45 us instead of 227, and five as long (`cargo bench -p birdhouse-silentpayments`).
const FEW_ROWS: usize = 4;

/// A way to compute candidates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Path {
    /// Eight rows at once by AVX-512 IFMA.
    Vector,
    /// One schedule for all rows, without vector instructions.
    Scalar,
    /// Row by row, by libsecp256k1.
    Reference,
}

/// The fastest path that passed its self-test, and its table. Clones share the table of 1 MB.
#[derive(Clone)]
pub struct Engine {
    path: Path,
    table: Arc<Table>,
}

/// A scan key, ready for scans.
pub struct Scanner {
    key: ScanKey,
    path: Path,
    table: Arc<Table>,
    /// Absent if only complete formulas will do for this key.
    prepared: Option<Prepared>,
}

/// A transaction of the index.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// The tweak.
    pub tweak: &'a [u8; TWEAK_BYTES],
    /// The first bytes of its taproot keys.
    pub prefixes: &'a [[u8; 4]],
}

impl Engine {
    /// Chooses the fastest path that this processor has and that finds the known answers of a test, which takes some
    /// milliseconds.
    pub fn new() -> Self {
        let paths = [Path::Vector, Path::Scalar];
        let table = Arc::new(Table::new());
        let fast = paths.into_iter().find_map(|path| Self::tested(path, &table));
        fast.unwrap_or(Self { path: Path::Reference, table })
    }

    /// Makes an engine with a path; `None` if the processor lacks it or it fails its test.
    pub fn with(path: Path) -> Option<Self> {
        Self::tested(path, &Arc::new(Table::new()))
    }

    fn tested(path: Path, table: &Arc<Table>) -> Option<Self> {
        let engine = Self { path, table: Arc::clone(table) };
        (path.is_available() && self_test::passes(&engine)).then_some(engine)
    }

    /// The path.
    pub fn path(&self) -> Path {
        self.path
    }

    /// Computes the tweaks of transactions.
    pub fn tweaked<'a>(&self, all: Vec<Summed<'a>>) -> Vec<Eligible<'a>> {
        let factors: Vec<_> = all.iter().map(|summed| summed.factors).collect();
        let tweaks = self.multiply(&factors).into_iter();
        tweaks.zip(all).map(|(tweak, summed)| Eligible { tweak, outputs: summed.outputs }).collect()
    }

    /// Multiplies points by scalars, each by its own.
    fn multiply(&self, rows: &[Factors]) -> Vec<[u8; TWEAK_BYTES]> {
        #[cfg(target_arch = "x86_64")]
        if let (Path::Vector, Some(lanes)) = (self.path, ifma::Ifma::detect()) {
            return lanes.run(Products { lanes: Times::<_, 2>(lanes), rows });
        }
        match self.path {
            Path::Scalar => run_scalar(Products { lanes: Times::<_, 2>(One), rows }),
            _ => rows.iter().map(Factors::multiply).collect(),
        }
    }

    /// Prepares a key.
    pub fn scanner(&self, key: ScanKey) -> Scanner {
        let prepared = if self.path == Path::Reference { None } else { Prepared::of(&key, &self.table) };
        Scanner { key, path: self.path, table: Arc::clone(&self.table), prepared }
    }
}

/// Runs a job of one lane with the best instructions for it.
fn run_scalar<J: Job>(job: J) -> J::Output {
    #[cfg(target_arch = "x86_64")]
    return ifma::run_with_bmi2(job);
    #[cfg(not(target_arch = "x86_64"))]
    job.run()
}

impl Default for Engine {
    fn default() -> Self {
        Self::new()
    }
}

impl Path {
    fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Vector => ifma::Ifma::detect().is_some(),
            #[cfg(not(target_arch = "x86_64"))]
            Self::Vector => false,
            Self::Scalar | Self::Reference => true,
        }
    }
}

impl Prepared {
    /// `None` if the formulas have exceptions for this key.
    fn of(key: &ScanKey, table: &Table) -> Option<Self> {
        let schedule = Schedule::of(&number::from_be_bytes(key.scan()))?;
        let top = table.top(&point(key.spend()))?;
        let labels = key.labels().iter().map(|label| point_of(&label.point)).collect();
        Some(Self { schedule, top, labels })
    }
}

impl Scanner {
    /// Returns the rows with a candidate for output 0 that begins like one of their keys, ascending. One of 2^32 keys
    /// does so by accident, so a hit must be proved by [`ScanKey::payments`].
    ///
    /// # Errors
    /// A tweak is not a point.
    pub fn scan(&self, rows: &[Row<'_>]) -> Result<Vec<usize>, DamagedTweak> {
        let tweaks: Vec<_> = rows.iter().map(|row| row.tweak).collect();
        let each = 1 + self.key.labels().len();
        let batches = if rows.len() > FEW_ROWS { self.candidates(&tweaks)? } else { None };
        let (x, complete) = match batches {
            Some(Candidates { x, exceptions }) => (x, exceptions),
            None => (Vec::new(), (0..rows.len()).collect()),
        };
        let begins = |row: &Row<'_>, x: &Number| {
            row.prefixes.iter().any(|key| u64::from(u32::from_be_bytes(*key)) == x[3] >> 32)
        };
        let quick = rows.iter().zip(x.chunks_exact(each)).map(|(row, x)| x.iter().any(|x| begins(row, x)));
        let mut is_hit: Vec<bool> = quick.collect();
        is_hit.resize(rows.len(), false);
        for row in complete {
            let candidates = self.complete(rows[row].tweak).ok_or(DamagedTweak { row })?;
            is_hit[row] = candidates.iter().flatten().any(|x| begins(&rows[row], x));
        }
        Ok((0..rows.len()).filter(|row| is_hit[*row]).collect())
    }

    /// The key.
    pub fn key(&self) -> &ScanKey {
        &self.key
    }

    /// The candidates by the engine's path; `None` if all rows need complete formulas.
    fn candidates(&self, tweaks: &[&[u8; TWEAK_BYTES]]) -> Result<Option<Candidates>, DamagedTweak> {
        let Some(prepared) = &self.prepared else { return Ok(None) };
        let found = match self.path {
            #[cfg(target_arch = "x86_64")]
            Path::Vector => match ifma::Ifma::detect() {
                Some(lanes) => lanes.run(self.batches(Times::<_, 2>(lanes), prepared, tweaks)),
                None => return Ok(None),
            },
            Path::Scalar => run_scalar(self.batches(Times::<_, 2>(One), prepared, tweaks)),
            _ => return Ok(None),
        };
        found.map(Some).map_err(|row| DamagedTweak { row })
    }

    fn batches<'a, L: Lanes>(
        &'a self,
        lanes: L,
        prepared: &'a Prepared,
        tweaks: &'a [&'a [u8; TWEAK_BYTES]],
    ) -> Batches<'a, L> {
        Batches { lanes, table: &self.table, prepared, tweaks }
    }

    /// The candidates of one row with complete formulas; `None` if the tweak is not a point.
    fn complete(&self, tweak: &[u8; TWEAK_BYTES]) -> Option<Vec<Option<Number>>> {
        let candidates = self.key.candidates(&*self.key.shared_secret(tweak)?, 0);
        Some(candidates.iter().map(|x| x.as_ref().map(number::from_be_bytes)).collect())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod lanes_tests;
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod scan_tests;
