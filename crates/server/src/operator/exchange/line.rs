//! Lines of the control socket during a command that takes long: any number on the way, and one answer at the end.

use birdhouse_mirror::Tally;
use serde::{Deserialize, Serialize};

/// A line of JSON from the server.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Line<T> {
    /// The counts until now.
    Progress(Tally),
    /// The id of an event that one side lacks: `have,ID` if the other relay lacks it, `need,ID` if this one does.
    Missing(String),
    /// The result of the command.
    Ok(T),
    /// The cause of its failure.
    Error(String),
}

/// The result of an import by the server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Imported {
    pub(crate) tally: Tally,
    /// Lines that are no valid events.
    pub(crate) invalid: u64,
    /// Events that the relay shows now.
    pub(crate) events: u64,
}

/// The end of a synchronization.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Synced {
    pub(crate) tally: Tally,
    /// The reason why it ended early.
    pub(crate) failure: Option<String>,
}
