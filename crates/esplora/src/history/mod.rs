//! The mempool and its fee rates over the last year: a record a minute, fewer of older ones. May use nothing else.
//!
//! The records lie in one small file of a fixed size (`ring`), which is read for each answer. A record that is torn by
//! a crash, or damaged, is missing from the answer and disturbs no other.

mod record;
mod ring;

use std::io;
use std::path::Path;

pub use self::record::{RATES, Record};
use self::ring::Ring;

/// A span of time up to now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Span {
    /// Two hours, a record a minute.
    Hours2,
    /// 24 hours, a record a minute.
    Hours24,
    /// A week, a record every 5 minutes.
    Week,
    /// 31 days, a record every 30 minutes.
    Month,
    /// 92 days, a record every 2 hours.
    Months3,
    /// 184 days, a record every 3 hours.
    Months6,
    /// 366 days, a record every 8 hours.
    Year,
}

/// The history of one server.
#[derive(Debug)]
pub struct History {
    ring: Ring,
}

impl Span {
    /// All of them, the shortest first.
    pub const ALL: [Self; 7] =
        [Self::Hours2, Self::Hours24, Self::Week, Self::Month, Self::Months3, Self::Months6, Self::Year];

    /// Returns the span of a name in paths, as in mempool's server.
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|span| span.name() == name)
    }

    /// Returns its name in paths.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hours2 => "2h",
            Self::Hours24 => "24h",
            Self::Week => "1w",
            Self::Month => "1m",
            Self::Months3 => "3m",
            Self::Months6 => "6m",
            Self::Year => "1y",
        }
    }

    /// Returns the part of the file that it reads.
    fn extent(self) -> Extent {
        let (hours, tier) = match self {
            Self::Hours2 => (2, 0),
            Self::Hours24 => (24, 0),
            Self::Week => (7 * 24, 1),
            Self::Month => (31 * 24, 2),
            Self::Months3 => (92 * 24, 3),
            Self::Months6 => (184 * 24, 4),
            Self::Year => (366 * 24, 5),
        };
        Extent { seconds: hours * 3600, tier }
    }
}

/// The part of the file that a span reads.
struct Extent {
    /// The length of the span.
    seconds: u32,
    /// Index of the tier.
    tier: usize,
}

impl History {
    /// Opens the file, or begins it anew if it is new or damaged.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { ring: Ring::open(path)? })
    }

    /// Adds the record of a moment. In each tier the last one of an interval is kept.
    ///
    /// # Errors
    /// The file cannot be written. What it has stays.
    pub fn add(&self, record: &Record) -> io::Result<()> {
        self.ring.write(record)
    }

    /// Returns the records of a span that ends at a time in seconds since 1970, newest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, span: Span, now: u32) -> io::Result<Vec<Record>> {
        let Extent { seconds, tier } = span.extent();
        let mut records = self.ring.read(tier)?;
        records.retain(|record| record.time <= now && now - record.time < seconds);
        records.sort_unstable_by_key(|record| std::cmp::Reverse(record.time));
        Ok(records)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
#[path = "tests.rs"]
mod tests;
