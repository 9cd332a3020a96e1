//! Answers as values: content and caching. `routes` makes responses of them.

use std::hash::{DefaultHasher, Hasher as _};
use std::ops::{ControlFlow, Range};
use std::time::Duration;

use birdhouse_chain::{Height, ResolvedTransaction, Snapshot};
use birdhouse_net::SHARE_BYTES;
use hyper::StatusCode;
use hyper::header::HeaderName;
use serde::Serialize;

use crate::wire::answer_memory::{AnswerMemory, Json};
use crate::wire::failure::Failure;
use crate::wire::watch::Watch;

/// The outcome of a question.
pub type Answer = Result<Reply, Failure>;

/// Seconds for which an answer that cannot change may be cached: five years.
const LONG_S: u32 = 157_784_630;
/// Seconds for which another answer may be cached.
const SHORT_S: u32 = 10;
/// The media type of a page.
pub(crate) const HTML: &str = "text/html; charset=utf-8";
/// The media type of Server-Sent Events.
pub(crate) const EVENTS: &str = "text/event-stream";
/// The header by which nginx, among others, is asked to pass an answer on as it comes.
pub(crate) const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// Blocks on top of one that make it final for caches.
const FINAL_BLOCKS: u32 = 10;

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) content: Content,
    pub(crate) cache: Cache,
    /// Time of the block that the answer is about, in seconds since 1970.
    pub(crate) modified: Option<u32>,
    /// Time since the node gave what the answer rests on.
    pub(crate) age: Option<Duration>,
    /// `None` for an answer of which no parts are served.
    pub(crate) ranged: Option<Ranged>,
}

/// A file of which parts are served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ranged {
    /// A strong validator: a file with the same one has the same bytes.
    pub(crate) etag: String,
    /// The part that the answer has; `None` for the whole file.
    pub(crate) part: Option<Part>,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) bytes: Range<u64>,
    /// Bytes of the whole file.
    pub(crate) len: u64,
}

/// Content of an answer.
#[derive(Debug)]
pub(crate) enum Content {
    Json(Vec<u8>),
    Text(String),
    Bytes(Vec<u8>),
    Html(String),
    /// A style sheet or a script: its type and text.
    Asset(&'static str, &'static str),
    /// Another path, under which the answer is found.
    Elsewhere(String),
    /// All bytes of the block at a height, of which the second field has the number.
    Block(Height, u32),
    /// A WebSocket in place of an answer.
    WebSocket,
    /// Bytes that are made while the client reads them.
    Pieces(Rows),
    /// Events, without an end.
    Events(Box<Watch>),
    /// A file of comma-separated values with this name.
    Csv(String, Rows),
    /// A JSON list, in pieces.
    List(Rows),
    /// The beginning of a page, and the rest of it.
    GrowingPage(String, Rows),
}

/// Pieces of a file that is written while the client reads it; `None` ends it.
pub(crate) struct Rows(pub(crate) Box<NextRows>);

/// Makes the next piece from the snapshot at which the request came, within the room of that piece.
type NextRows = dyn FnMut(&Snapshot, &AnswerMemory) -> Result<Option<Vec<u8>>, Failure> + Send;

/// Bytes of a list after which a piece ends. A connection always has room for this many.
const PIECE_BYTES: usize = SHARE_BYTES / 2;

/// A piece of a JSON list.
pub(crate) struct ListPiece<'a> {
    json: Json<'a>,
    /// Stands before the next item.
    separator: &'static str,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

/// The caches that may hold an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// All, for a number of seconds.
    Public(u32),
    /// The client's own, which asks each time if it is still right.
    Private,
    /// None.
    NoStore,
}

impl Cache {
    /// For what belongs to a block for ever.
    pub const LONG: Self = Self::seconds(LONG_S);
    /// For what may change.
    pub const SHORT: Self = Self::seconds(SHORT_S);
    /// For what a client does, and does not ask.
    pub(crate) const NONE: Self = Self::seconds(0);

    pub(crate) const fn seconds(seconds: u32) -> Self {
        Self::Public(seconds)
    }

    /// Long for what is in a block deep enough, else short.
    pub(crate) fn by_depth(at: &Snapshot, height: Option<Height>) -> Self {
        let is_final = height.is_some_and(|height| height.0 + FINAL_BLOCKS <= at.tip().height.0);
        if is_final { Self::LONG } else { Self::SHORT }
    }

    /// Keeps the answer of a transaction shortly, if what it spends is still to be fetched.
    pub(crate) fn of(self, found: &ResolvedTransaction) -> Self {
        if found.is_unresolved() { Self::SHORT } else { self }
    }

    /// The value of `Cache-Control`.
    pub(crate) fn control(self) -> String {
        match self {
            Self::Public(seconds) => format!("public, max-age={seconds}"),
            Self::Private => "private, no-cache".into(),
            Self::NoStore => "no-store".into(),
        }
    }
}

impl Rows {
    /// Pieces that are small, each made by a read.
    pub(crate) fn of(
        mut next: impl FnMut(&Snapshot) -> Result<Option<Vec<u8>>, birdhouse_chain::Error> + Send + 'static,
    ) -> Self {
        Self(Box::new(move |at, _| Ok(next(at)?)))
    }

    /// Makes another text of each piece.
    pub(crate) fn make_texts(&mut self, make: impl Fn(&str) -> String + Send + 'static) {
        let mut next = std::mem::replace(&mut self.0, Box::new(|_, _| Ok(None)));
        self.0 = Box::new(move |at, room| {
            Ok(next(at, room)?.map(|piece| make(&String::from_utf8_lossy(&piece)).into_bytes()))
        });
    }

    /// Adds a first piece.
    pub(crate) fn after(self, first: Vec<u8>) -> Self {
        let Self(mut next) = self;
        let mut first = Some(first);
        Self(Box::new(move |at, room| first.take().map_or_else(|| next(at, room), |first| Ok(Some(first)))))
    }

    /// Pieces that take their room before they are filled.
    pub(crate) fn within(
        next: impl FnMut(&Snapshot, &AnswerMemory) -> Result<Option<Vec<u8>>, Failure> + Send + 'static,
    ) -> Self {
        Self(Box::new(next))
    }
}

impl ListPiece<'_> {
    /// Adds an item.
    pub(crate) fn push(&mut self, item: &impl Serialize) -> Result<(), Failure> {
        self.push_with(|json| json.value(item))
    }

    /// Adds an item that `write` appends.
    pub(crate) fn push_with(
        &mut self,
        write: impl FnOnce(&mut Json<'_>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.json.text(std::mem::replace(&mut self.separator, ","))?;
        write(&mut self.json)
    }

    /// True if the rest of the items goes into further pieces.
    pub(crate) fn is_full(&self) -> bool {
        self.json.len() >= PIECE_BYTES
    }
}

impl Reply {
    pub(crate) fn new(content: Content, cache: Cache) -> Self {
        Self { status: StatusCode::OK, content, cache, modified: None, age: None, ranged: None }
    }

    /// A page.
    pub fn html(text: String, cache: Cache) -> Answer {
        Ok(Self::new(Content::Html(text), cache))
    }

    /// A page of which `next` makes one piece after the other, beyond its beginning, while the client reads it.
    pub fn growing_page(
        begun: String,
        next: impl FnMut(&Snapshot) -> Result<Option<Vec<u8>>, birdhouse_chain::Error> + Send + 'static,
    ) -> Self {
        Self::new(Content::GrowingPage(begun, Rows::of(next)), Cache::NoStore)
    }

    /// A style sheet or a script of this media type, whose path changes with its text.
    pub fn asset(media_type: &'static str, text: &'static str) -> Answer {
        Ok(Self::new(Content::Asset(media_type, text), Cache::LONG))
    }

    /// Another path, which the client asks next.
    pub fn elsewhere(path: String) -> Answer {
        let reply = Self::new(Content::Elsewhere(path), Cache::NoStore);
        Ok(Self { status: StatusCode::SEE_OTHER, ..reply })
    }

    /// A file of comma-separated values, of which `next` makes one piece after the other while the client reads it.
    pub fn csv(
        name: String,
        next: impl FnMut(&Snapshot) -> Result<Option<Vec<u8>>, birdhouse_chain::Error> + Send + 'static,
    ) -> Self {
        Self::new(Content::Csv(name, Rows::of(next)), Cache::NoStore)
    }

    /// A JSON list, of which `next` adds some items at a time until the piece is full; `Break` ends the list.
    #[expect(clippy::unnecessary_wraps, reason = "as the other kinds of answers")]
    pub(crate) fn list(
        mut next: impl FnMut(&Snapshot, &mut ListPiece<'_>) -> Result<ControlFlow<()>, Failure> + Send + 'static,
    ) -> Answer {
        let (mut separator, mut has_ended) = ("[", false);
        let pieces = move |at: &Snapshot, room: &AnswerMemory| {
            let mut piece = ListPiece { json: Json::new(room), separator };
            // A piece without bytes would be the end of the answer.
            while !has_ended && piece.json.len() == 0 {
                if next(at, &mut piece)?.is_break() {
                    has_ended = true;
                    piece.json.text(if piece.separator == "[" { "[]" } else { "]" })?;
                }
                separator = piece.separator;
            }
            let bytes = piece.json.into_bytes();
            Ok((!bytes.is_empty()).then_some(bytes))
        };
        Ok(Self::new(Content::List(Rows(Box::new(pieces))), Cache::NoStore))
    }

    /// Sets the status.
    #[must_use]
    pub fn with_status(self, status: StatusCode) -> Self {
        Self { status, ..self }
    }

    /// JSON that takes its memory from `room` before it is written.
    pub(crate) fn json(room: &AnswerMemory, value: &impl Serialize, cache: Cache) -> Answer {
        let mut json = Json::new(room);
        json.value(value)?;
        Ok(Self::new(Content::Json(json.into_bytes()), cache))
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the other kinds of answers")]
    pub(crate) fn text(text: String, cache: Cache) -> Answer {
        Ok(Self::new(Content::Text(text), cache))
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the other kinds of answers")]
    pub(crate) fn bytes(bytes: Vec<u8>, cache: Cache) -> Answer {
        Ok(Self::new(Content::Bytes(bytes), cache))
    }

    /// Sets the age of a figure of the node, from one second on.
    pub(crate) fn aged(self, age: Duration) -> Self {
        Self { age: Some(age).filter(|age| age.as_secs() > 0), ..self }
    }

    /// Makes it a file of which parts are served.
    pub(crate) fn ranged(self, ranged: Ranged) -> Self {
        let status = if ranged.part.is_some() { StatusCode::PARTIAL_CONTENT } else { self.status };
        Self { status, ranged: Some(ranged), ..self }
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
            Self::Json(_) | Self::List(_) => "application/json",
            Self::Text(_) | Self::Elsewhere(_) | Self::WebSocket => "text/plain",
            Self::Html(_) | Self::GrowingPage(..) => HTML,
            Self::Asset(media_type, _) => media_type,
            Self::Csv(..) => "text/csv; charset=utf-8",
            Self::Events(_) => EVENTS,
            Self::Bytes(_) | Self::Block(..) | Self::Pieces(_) => "application/octet-stream",
        }
    }

    /// The bytes; `None` for content that is not in memory.
    fn in_memory(&self) -> Option<&[u8]> {
        match self {
            Self::Json(bytes) | Self::Bytes(bytes) => Some(bytes),
            Self::Text(text) | Self::Html(text) => Some(text.as_bytes()),
            Self::Asset(_, text) => Some(text.as_bytes()),
            Self::Elsewhere(_)
            | Self::Csv(..)
            | Self::List(_)
            | Self::GrowingPage(..)
            | Self::Block(..)
            | Self::Pieces(_)
            | Self::Events(_)
            | Self::WebSocket => None,
        }
    }

    /// Bytes in memory. Each piece of other content counts as it is written.
    pub(crate) fn len(&self) -> usize {
        self.in_memory().map_or(0, <[u8]>::len)
    }

    /// A weak validator: a hash of the content. `None` for content that is not in memory.
    pub(crate) fn etag(&self) -> Option<String> {
        let mut hasher = DefaultHasher::new();
        hasher.write(self.in_memory()?);
        Some(format!("W/\"{:016x}\"", hasher.finish()))
    }
}
