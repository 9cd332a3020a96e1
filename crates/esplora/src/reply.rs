//! Answers as values: content and caching. `work` makes responses of them.

use std::hash::{DefaultHasher, Hasher as _};

use birdhouse_chain::{Height, Snapshot};
use serde::Serialize;

use crate::failure::Failure;

/// The outcome of a question.
pub(crate) type Answer = Result<Reply, Failure>;

/// Seconds for which an answer that cannot change may be cached: five years.
const LONG_S: u32 = 157_784_630;
/// Seconds for which another answer may be cached.
const SHORT_S: u32 = 10;
/// Blocks on top of one that make it final for caches.
const FINAL_BLOCKS: u32 = 10;

/// An answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) content: Content,
    pub(crate) cache: Cache,
    /// Time of the block that the answer is about, in seconds since 1970.
    pub(crate) modified: Option<u32>,
}

/// Content of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    Json(Vec<u8>),
    Text(String),
    Bytes(Vec<u8>),
    /// All bytes of the block at a height, of which the second field has the number.
    Block(Height, u32),
}

/// The time for which caches may hold an answer, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cache(u32);

impl Cache {
    /// For what belongs to a block for ever.
    pub(crate) const LONG: Self = Self::seconds(LONG_S);
    /// For what may change.
    pub(crate) const SHORT: Self = Self::seconds(SHORT_S);
    /// For what a client does, and does not ask.
    pub(crate) const NONE: Self = Self::seconds(0);

    pub(crate) const fn seconds(seconds: u32) -> Self {
        Self(seconds)
    }

    /// Long for what is in a block deep enough, else short.
    pub(crate) fn by_depth(at: &Snapshot, height: Option<Height>) -> Self {
        let is_final = height.is_some_and(|height| height.0 + FINAL_BLOCKS <= at.tip().height.0);
        if is_final { Self::LONG } else { Self::SHORT }
    }

    /// The value of `Cache-Control`.
    pub(crate) fn control(self) -> String {
        format!("public, max-age={}", self.0)
    }
}

impl Reply {
    pub(crate) fn json(value: &impl Serialize, cache: Cache) -> Answer {
        let content = serde_json::to_vec(value).map_err(|_| Failure::internal())?;
        Ok(Self { content: Content::Json(content), cache, modified: None })
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the other kinds of answers")]
    pub(crate) fn text(text: String, cache: Cache) -> Answer {
        Ok(Self { content: Content::Text(text), cache, modified: None })
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the other kinds of answers")]
    pub(crate) fn bytes(bytes: Vec<u8>, cache: Cache) -> Answer {
        Ok(Self { content: Content::Bytes(bytes), cache, modified: None })
    }

    /// Sets the time of the answer's block.
    pub(crate) fn modified(self, time: Option<u32>) -> Self {
        Self { modified: time, ..self }
    }
}

impl Content {
    /// The value of `Content-Type`.
    pub(crate) fn media_type(&self) -> &'static str {
        match self {
            Self::Json(_) => "application/json",
            Self::Text(_) => "text/plain",
            Self::Bytes(_) | Self::Block(..) => "application/octet-stream",
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Json(bytes) | Self::Bytes(bytes) => bytes.len(),
            Self::Text(text) => text.len(),
            Self::Block(_, bytes) => *bytes as usize,
        }
    }

    /// A weak validator: a hash of the content. `None` for content that is not in memory.
    pub(crate) fn etag(&self) -> Option<String> {
        let bytes = match self {
            Self::Json(bytes) | Self::Bytes(bytes) => bytes,
            Self::Text(text) => text.as_bytes(),
            Self::Block(..) => return None,
        };
        let mut hasher = DefaultHasher::new();
        hasher.write(bytes);
        Some(format!("W/\"{:016x}\"", hasher.finish()))
    }
}
