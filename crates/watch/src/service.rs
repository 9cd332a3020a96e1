//! All watches of a server: opens the file and the state, and starts tasks.

use crate::state::State;

/// All watches of a server.
#[derive(Debug, Clone)]
pub struct Watches {
    state: State,
}

impl Watches {
    /// Returns the state, for readers of the log.
    pub fn state(&self) -> &State {
        &self.state
    }
}
