//! The rules of a running relay, and the one place that changes them.
//!
//! Invariant: a change is durable before it applies, so a restart never forgets a rule that was in effect.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use super::{Change, Rules, RulesError, file};

/// The current rules, and their file.
#[derive(Debug)]
pub struct RuleBook {
    current: ArcSwap<Rules>,
    /// `None`: they end with the process.
    path: Option<PathBuf>,
    /// Held by the writer.
    writing: Mutex<()>,
}

// === impl RuleBook ===

impl RuleBook {
    /// Returns a book without rules that no file keeps.
    pub fn in_memory() -> Self {
        Self { current: ArcSwap::default(), path: None, writing: Mutex::new(()) }
    }

    /// Reads the rules of a file. Without the file there are none.
    ///
    /// # Errors
    /// The file cannot be read or is damaged. It stays as it is.
    pub fn open(path: PathBuf) -> Result<Self, RulesError> {
        let rules = file::read(&path)?.unwrap_or_default();
        Ok(Self { current: ArcSwap::from_pointee(rules), path: Some(path), writing: Mutex::new(()) })
    }

    /// Returns the current rules.
    pub(crate) fn current(&self) -> Arc<Rules> {
        self.current.load_full()
    }

    /// Changes the rules once the change is durable; returns false if it changes nothing. Waits for the disk.
    pub(crate) fn change(&self, change: &Change) -> Result<bool, RulesError> {
        let _writing = self.writing.lock();
        let Some(changed) = self.current.load().with(change)? else { return Ok(false) };
        if let Some(path) = &self.path {
            file::write(path, &changed)?;
        }
        self.current.store(Arc::new(changed));
        Ok(true)
    }
}
