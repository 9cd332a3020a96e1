//! The state of a campaign: what each part has reached. It is written after every piece, so that a campaign goes on
//! where it ended.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// A campaign so far, by the name of the part.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct State {
    pub(crate) parts: BTreeMap<String, PartState>,
}

/// A part so far.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct PartState {
    /// Volume that passed, in the unit of the part.
    pub(crate) done: u64,
    pub(crate) pieces: u64,
    pub(crate) seconds: f64,
    /// Seed of the next piece.
    pub(crate) next_seed: u64,
    pub(crate) failures: Vec<String>,
    /// Counts of what happened, by name.
    pub(crate) counts: BTreeMap<String, u64>,
}

/// The outcome of a piece.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    pub(crate) done: u64,
    pub(crate) next_seed: u64,
    pub(crate) failures: Vec<String>,
    pub(crate) counts: BTreeMap<String, u64>,
}

// === impl State ===

impl State {
    /// Reads the state in a file; an empty one if there is no file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        if !path.exists() {
            return Ok(Self::default());
        }
        let failed =
            || format!("failed to read the state of a campaign in {}; remove it to begin again", path.display());
        serde_json::from_slice(&fs::read(path).with_context(failed)?).with_context(failed)
    }

    /// Replaces the file as a whole.
    pub(crate) fn write(&self, path: &Path) -> Result<()> {
        let new = path.with_extension("new");
        fs::write(&new, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("failed to write {}", new.display()))?;
        fs::rename(&new, path).with_context(|| format!("failed to replace {}", path.display()))
    }

    pub(crate) fn part(&self, name: &str) -> PartState {
        self.parts.get(name).cloned().unwrap_or_default()
    }

    /// Adds a piece to a part.
    pub(crate) fn add(&mut self, name: &str, progress: Progress, took: Duration) {
        let part = self.parts.entry(name.to_owned()).or_default();
        part.done += progress.done;
        part.pieces += 1;
        part.seconds += took.as_secs_f64();
        part.next_seed = part.next_seed.max(progress.next_seed);
        part.failures.extend(progress.failures);
        for (name, count) in progress.counts {
            *part.counts.entry(name).or_default() += count;
        }
    }
}

// === impl Progress ===

impl Progress {
    pub(crate) fn add(&mut self, name: &str, count: u64) {
        if count > 0 {
            *self.counts.entry(name.to_owned()).or_default() += count;
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_campaign_goes_on_where_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let mut state = State::read(&path).unwrap();
        for seed in [100, 250] {
            let mut progress = Progress { done: 7, next_seed: seed, ..Progress::default() };
            progress.add("accept: publish", 3);
            state.add("relay kills", progress, Duration::from_secs(2));
            state.write(&path).unwrap();
            state = State::read(&path).unwrap();
        }
        let part = state.part("relay kills");
        assert_eq!((part.done, part.pieces, part.next_seed), (14, 2, 250));
        assert_eq!(part.counts["accept: publish"], 6);
        fs::write(&path, "{").unwrap();
        assert!(State::read(&path).unwrap_err().to_string().contains("remove it"));
    }
}
