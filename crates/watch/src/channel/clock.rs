//! The clock, as an argument.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A clock, which tests set.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Duration + Send + Sync>);

impl Clock {
    /// The system's clock.
    #[expect(clippy::disallowed_methods, reason = "the one clock that channels and outboxes are given")]
    pub fn system() -> Self {
        Self::new(|| SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
    }

    /// A clock that returns the time since 1970.
    pub fn new(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Returns the time since 1970.
    pub fn now(&self) -> Duration {
        (self.0)()
    }

    /// Returns the seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        self.now().as_secs()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Clock")
    }
}
