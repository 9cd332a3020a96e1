//! The state of a stream for people and metrics.

use serde::{Deserialize, Serialize};

use super::cursors::SetAside;
use crate::job::Direction;
use crate::tally::Tally;

/// State of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StreamState {
    /// It is being opened.
    Connecting,
    /// Events that were missed meanwhile come.
    CatchingUp,
    /// Events pass as they are published.
    Live,
    /// The next attempt is waited for.
    Waiting,
}

/// One URL of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamStatus {
    /// Name of the stream.
    pub name: String,
    /// The other relay, without a query.
    pub url: String,
    /// Direction of events.
    pub direction: Direction,
    /// State of the connection.
    pub state: StreamState,
    /// Begin of this state, seconds since 1970.
    pub since: u64,
    /// Connections that ended.
    pub failures: u64,
    /// Reason of the last failure, while it lasts.
    pub why: Option<String>,
    /// Reason of the other relay's last refusal.
    pub last_refusal: Option<String>,
    /// Newest `created_at` until which all events have come, seconds since 1970.
    pub complete_until: Option<u64>,
    /// Own events that are not sent or decided.
    pub behind: Option<u64>,
    /// Own events that the other relay does not answer, the newest last; [`SET_ASIDE_KEPT`] at most.
    ///
    /// [`SET_ASIDE_KEPT`]: crate::limits::SET_ASIDE_KEPT
    #[serde(default)]
    pub set_aside: Vec<SetAside>,
    /// Counts since the start.
    pub tally: Tally,
}

/// The part of the status that changes at each step.
#[derive(Debug, Clone)]
pub(super) struct Changing {
    pub(super) state: StreamState,
    pub(super) since: u64,
    pub(super) failures: u64,
    pub(super) why: Option<String>,
    pub(super) last_refusal: Option<String>,
}

impl Changing {
    pub(super) fn new(now: u64) -> Self {
        Self { state: StreamState::Connecting, since: now, failures: 0, why: None, last_refusal: None }
    }

    pub(super) fn enter(&mut self, state: StreamState, now: u64) {
        if self.state != state {
            (self.state, self.since) = (state, now);
        }
    }
}

impl StreamState {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::CatchingUp => "catching up",
            Self::Live => "live",
            Self::Waiting => "waiting",
        }
    }
}
