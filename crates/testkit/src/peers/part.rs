//! The peers that take part in a run of the tests, and their faults.
//!
//! `TEST_PEERS`, a list with commas, names those that take part; without it only `ElectrumX` does. A program that lies
//! in a cache changes nothing, so the same tests run on every machine. A fault of a peer is listed, on stderr and in
//! the file that `TEST_PEER_FAULTS` names, and fails no test of Birdhouse.

use std::env;
use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write as _;

use crate::error::Result;

/// The name of [`ElectrumX`](super::ElectrumX) in `TEST_PEERS`.
pub const ELECTRUMX: &str = "e-x";
/// The name of [`Electrs`](super::Electrs) in `TEST_PEERS`.
pub const ELECTRS: &str = "electrs";

/// Returns true if a peer takes part.
pub fn takes_part(name: &str) -> bool {
    is_named(name, env::var("TEST_PEERS").ok().as_deref())
}

/// Starts a peer that takes part. Returns `None` for others, and lists it as a fault if the peer does not start.
pub fn start_if_asked<T>(name: &str, start: impl FnOnce() -> Result<T>) -> Option<T> {
    if !takes_part(name) {
        return None;
    }
    start().map_err(|error| fault(name, &error)).ok()
}

/// Lists a fault of a peer. A list that cannot be written is no failure either.
pub fn fault(name: &str, what: &dyn Display) {
    let thread = std::thread::current();
    let line =
        format!("{name}, in {}: {}", thread.name().unwrap_or("a test"), what.to_string().replace('\n', "\n    "));
    eprintln!("FAULT OF A PEER: {line}");
    let Some(path) = env::var_os("TEST_PEER_FAULTS") else { return };
    let file = OpenOptions::new().append(true).create(true).open(path);
    if let Err(error) = file.and_then(|mut file| file.write_all(format!("{line}\n").as_bytes())) {
        eprintln!("failed to list the fault: {error}");
    }
}

fn is_named(name: &str, list: Option<&str>) -> bool {
    list.unwrap_or(ELECTRUMX).split(',').any(|named| named.trim() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_take_part_by_name_and_electrumx_without_a_list() {
        assert!(is_named(ELECTRUMX, None) && !is_named(ELECTRS, None));
        assert!(is_named(ELECTRS, Some("e-x, electrs")) && is_named(ELECTRUMX, Some("e-x, electrs")));
        assert!(!is_named(ELECTRUMX, Some("none")) && !is_named(ELECTRUMX, Some("")));
    }
}
