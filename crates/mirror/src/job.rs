//! The events that are compared with a peer, and their direction.

use birdhouse_events::{Event, Filter, FilterLimits, Kind, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::windows::Window;

/// Direction of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the peer.
    Down,
    /// To the peer.
    Up,
    /// From and to the peer.
    Both,
}

/// Purpose of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Events are transferred.
    Transfer(Direction),
    /// The ids that one side lacks are listed.
    List,
}

/// Events that are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The purpose.
    pub purpose: Purpose,
    /// The filter as it is sent, without times.
    wire: Map<String, Value>,
    /// The same filter for our own events.
    own: Filter,
    /// First second.
    pub(crate) since: u64,
    /// Last second; `None` without an end.
    pub(crate) until: Option<u64>,
}

impl Direction {
    /// True if events come from the peer.
    pub fn is_down(self) -> bool {
        self != Self::Up
    }

    /// True if events go to the peer.
    pub fn is_up(self) -> bool {
        self != Self::Down
    }
}

impl Purpose {
    /// True if events come from the peer.
    pub(crate) fn is_down(self) -> bool {
        matches!(self, Self::Transfer(direction) if direction.is_down())
    }

    /// True if events go to the peer.
    pub(crate) fn is_up(self) -> bool {
        matches!(self, Self::Transfer(direction) if direction.is_up())
    }
}

impl Job {
    /// The events of a filter of NIP-01, without `limit` and `search`.
    ///
    /// # Errors
    /// The reason why it is no such filter.
    pub fn new(limits: &FilterLimits, purpose: Purpose, filter: &str) -> Result<Self, String> {
        let own = Filter::from_json(filter, limits).map_err(|rejection| rejection.to_string())?;
        if own.limit.is_some() || own.search.is_some() {
            return Err("the filter of an exchange has neither limit nor search".into());
        }
        let mut wire: Map<String, Value> = serde_json::from_str(filter).map_err(|error| error.to_string())?;
        let time = |time: Option<Timestamp>| time.map(|time| time.0);
        let (since, until) = (time(own.since).unwrap_or(0), time(own.until));
        wire.remove("since");
        wire.remove("until");
        Ok(Self { purpose, wire, own, since, until })
    }

    /// The same events, from this second on at least.
    #[must_use]
    pub fn since(mut self, since: u64) -> Self {
        self.since = self.since.max(since);
        self
    }

    /// The same events, up to this second at most.
    #[must_use]
    pub fn until(mut self, until: u64) -> Self {
        self.until = Some(self.until.map_or(until, |before| before.min(until)));
        self
    }

    /// Returns the filter for all events.
    pub(crate) fn wanted(&self) -> Filter {
        self.own_in(Window { since: self.since, until: self.until })
    }

    /// Returns the filter as a client sends it.
    pub(crate) fn wire(&self) -> Map<String, Value> {
        self.wire_in(Window { since: self.since, until: self.until })
    }

    /// True if the filter says where it begins.
    pub(crate) fn has_beginning(&self) -> bool {
        self.since > 0
    }

    /// True if the events may be gift wraps, whose times are not those of their publication (NIP-59).
    pub(crate) fn wants_gift_wraps(&self) -> bool {
        self.own.kinds.as_ref().is_none_or(|kinds| kinds.contains(&Kind::GIFT_WRAP))
    }

    /// Returns the filter for our own events in a window.
    pub(crate) fn own_in(&self, window: Window) -> Filter {
        let (since, until) = (Some(Timestamp(window.since)), window.until.map(Timestamp));
        Filter { since, until, ..self.own.clone() }
    }

    /// Returns the filter for the peer's events in a window.
    pub(crate) fn wire_in(&self, window: Window) -> Map<String, Value> {
        let mut wire = self.wire.clone();
        if window.since > 0 {
            wire.insert("since".into(), window.since.into());
        }
        if let Some(until) = window.until {
            wire.insert("until".into(), until.into());
        }
        wire
    }

    /// True if an event may be sent on. A relay takes a protected event from its author alone. Private messages go to
    /// the relays that their recipients have named, unless the operator names their kind.
    pub(crate) fn sends(&self, event: &Event) -> bool {
        !event.is_protected() && (self.own.kinds.is_some() || !event.kind.is_private())
    }
}
