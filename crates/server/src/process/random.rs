//! Random bytes of the system, for keys, tokens and ids.

use anyhow::{Context as _, Result};

/// Returns random bytes.
///
/// # Errors
/// The system gives none.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).context("failed to get random bytes from the system")?;
    Ok(bytes)
}
