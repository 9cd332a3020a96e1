//! Items of a stream, and their two forms: server-sent events, and messages of a WebSocket. Pure.
//!
//! A position is the id of an event of a stream: a client that comes back with it, as `Last-Event-ID` or `synced-tip`,
//! misses nothing. Where the event of a block is not asked for, the position stands alone: a browser keeps it, and
//! dispatches no event.

use birdhouse_chain::source::BlockId;
use serde_json::{Value, json};

/// Something that a stream sends.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    /// The client listens from now on.
    Begun,
    /// Nothing has happened for a while.
    Alive,
    /// An event that ends no block.
    Event(Value),
    /// The event that ends a block.
    Tip(BlockId, Value),
    /// A block whose event is not asked for.
    Position(BlockId),
}

/// Returns a position as clients send it back.
pub(super) fn position_text(block: BlockId) -> String {
    format!("{}:{}", block.height.0, block.hash)
}

impl Item {
    /// Returns the block whose changes are all known with it.
    pub(super) fn position(&self) -> Option<BlockId> {
        match self {
            Self::Tip(block, _) | Self::Position(block) => Some(*block),
            Self::Begun | Self::Alive | Self::Event(_) => None,
        }
    }

    /// Returns it as server-sent events.
    pub(super) fn to_event_stream(&self) -> String {
        match self {
            Self::Begun => ": begun\n\n".into(),
            Self::Alive => ": alive\n\n".into(),
            Self::Event(data) => format!("data:{data}\n\n"),
            Self::Tip(block, data) => format!("id:{}\ndata:{data}\n\n", position_text(*block)),
            Self::Position(block) => format!("id:{}\n\n", position_text(*block)),
        }
    }

    /// Returns it as a message of a WebSocket; `None` for what a ping says, or the answer to the upgrade.
    pub(super) fn to_message(&self) -> Option<String> {
        match self {
            Self::Begun | Self::Alive => None,
            Self::Event(data) => Some(data.to_string()),
            Self::Tip(block, data) => {
                let mut data = data.clone();
                data["id"] = json!(position_text(*block));
                Some(data.to_string())
            }
            Self::Position(block) => Some(json!({ "id": position_text(*block) }).to_string()),
        }
    }
}
