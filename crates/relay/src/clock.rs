//! The clock: everything else takes the time as an argument.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the clock: the rest of the crate takes the time as an argument")]
pub(crate) fn now() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs()).unwrap_or(u32::MAX)
}
