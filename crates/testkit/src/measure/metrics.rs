//! The metrics of a server.

use std::collections::HashMap;

/// Returns the values of a page of `OpenMetrics`, by name and labels.
///
/// # Panics
/// It is not whole, or has a line without a number.
pub fn values(page: &str) -> HashMap<String, f64> {
    assert!(page.ends_with("# EOF\n"), "{page}");
    let values = page.lines().filter(|line| !line.starts_with('#'));
    values
        .map(|line| line.rsplit_once(' ').expect("a line has a name and a value"))
        .map(|(name, value)| (name.into(), value.parse().expect("a value is a number")))
        .collect()
}
