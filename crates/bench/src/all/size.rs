//! The size of a report.

use std::time::Duration;

/// The size of a report: how much of everything is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Size {
    /// 200 MB of blocks, 100 000 events; takes minutes.
    Small,
    /// 2.7 GB of blocks, a million events; takes an hour or more.
    Full,
}

impl Size {
    /// Returns the time after which a part is stopped.
    pub(super) fn patience(self) -> Duration {
        match self {
            Self::Small => Duration::from_mins(5),
            Self::Full => Duration::from_hours(3),
        }
    }
}
