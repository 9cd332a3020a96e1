//! The rules of a running server, and the one place that changes them.
//!
//! Invariant: a change is durable before it applies, so a restart never forgets a rule that was in effect.
//!
//! Rules about clients concern the connections of all protocols ([`RuleBook::govern`]), the others the relay.

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use birdhouse_net::Connections;
use parking_lot::Mutex;

use super::{Change, Rules, RulesError, Subject, file};

/// The current rules, and their file.
#[derive(Debug)]
pub struct RuleBook {
    current: ArcSwap<Rules>,
    /// `None`: they end with the process.
    path: Option<PathBuf>,
    /// The connections that the rules about clients concern; held by the writer.
    governed: Mutex<Connections>,
}

/// Effect of a change of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Changed {
    /// False if the rules were so already.
    pub is_changed: bool,
    /// Connections of banned clients that are being ended.
    pub disconnected: usize,
}

// === impl RuleBook ===

impl RuleBook {
    /// Returns a book without rules that no file keeps.
    pub fn in_memory() -> Self {
        Self { current: ArcSwap::default(), path: None, governed: Mutex::default() }
    }

    /// Reads the rules of a file. Without the file there are none.
    ///
    /// # Errors
    /// The file cannot be read or is damaged. It stays as it is.
    pub fn open(path: PathBuf) -> Result<Self, RulesError> {
        let rules = file::read(&path)?.unwrap_or_default();
        Ok(Self { current: ArcSwap::from_pointee(rules), path: Some(path), governed: Mutex::default() })
    }

    /// Applies the rules about clients to connections, from now on.
    pub fn govern(&self, connections: &Connections) {
        let mut governed = self.governed.lock();
        *governed = connections.clone();
        governed.ban(self.current());
    }

    /// Returns the current rules.
    pub fn current(&self) -> Arc<Rules> {
        self.current.load_full()
    }

    /// Changes the rules once the change is durable, and ends the connections of clients that are banned now. Waits for
    /// the disk.
    ///
    /// # Errors
    /// The rules are as before.
    pub fn change(&self, change: &Change) -> Result<Changed, RulesError> {
        let governed = self.governed.lock();
        let Some(changed) = self.current.load().with(change)? else {
            return Ok(Changed { is_changed: false, disconnected: 0 });
        };
        if let Some(path) = &self.path {
            file::write(path, &changed)?;
        }
        let changed = Arc::new(changed);
        self.current.store(Arc::clone(&changed));
        let disconnected = match change {
            Change::Decide(Subject::Client(_), _) | Change::TakeBack(Subject::Client(_), _) => governed.ban(changed),
            _ => 0,
        };
        Ok(Changed { is_changed: true, disconnected })
    }
}
