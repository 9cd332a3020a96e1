//! The state of all watches, for operators.

use crate::engine::WatchView;
use crate::outbox::ChannelStatus;

/// The state of all watches, for operators.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchStatus {
    /// The watches, as of the last update.
    pub watches: Vec<WatchView>,
    /// The channels of the file.
    pub channels: Vec<ChannelStatus>,
    /// The reason why nothing is announced now.
    pub waiting: Option<String>,
    /// The reason why the watch file could not be put to work when it was read last. What it said before goes on.
    pub fault: Option<String>,
    /// Position of the last notice: their number since the log began.
    pub notices: u64,
}
