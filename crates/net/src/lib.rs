//! The socket side of a server for light clients: everything that its protocols need alike.
//!
//! A connection's way: [`Listener`] and [`serve`] take it in, `proxy` and `tls` say whose it is and encrypt it,
//! `websocket` upgrades it. [`Incoming`] cuts messages from its bytes as a [`Framing`] says ([`Lines`] or [`Frames`]),
//! [`Outbox`] and [`FrameWriter`] carry answers to it. [`Registry`] and [`Meter`] count what it does and charge its
//! client; [`Reads`] and [`Executor`] decide when and on which thread its work is done.
//!
//! Suggested reading order: `framing`, `lines`, `websocket/frames`, `incoming`, `outbox`, `unsent`, `listener`,
//! `websocket/upgrade`, `registry`, `meter`, `reads`.
//!
//! Invariants: until its first message a connection costs one task and one socket, and has one deadline for all of
//! PROXY header, TLS and upgrade. Later, while it waits, it holds no buffer of messages. Memory for
//! messages that are not whole, and for replies that are not taken, has a bound for all connections together; no
//! message and no reply is copied to be framed.
//!
//! Why not a framework: `tower` and `hyper-util` arrange services that turn one request into one response, and here a
//! connection is a conversation in both directions. hyper is used for the one request that is HTTP, the upgrade.
#![forbid(unsafe_code)]

// How messages lie in bytes.
mod body;
mod framing;
mod lines;
mod websocket;

// Bytes on their way in and out.
mod incoming;
mod io;
mod lent;
mod outbox;
mod slow_write;
mod spare;
mod unsent;

// From an address to a conversation.
mod listener;
mod proxy;
mod requests;
mod seated;
mod seats;
mod tls;

// Connections and what they cost.
mod meter;
mod registry;
mod signals;

// Reads, and their threads.
mod offload;
mod reads;

// What the APIs over HTTP say of themselves.
mod openapi;

pub use body::{BodyError, read_body};
pub use framing::{CloseCode, Cut, Framing, Kind, Owed, Payload};
pub use incoming::{Bounds, Incoming, Message, Next, PartialMessages};
pub use io::Io;
pub use lines::Lines;
pub use listener::{Accepted, ConnectionSlots, Listener, Stream, Transport, handshake, serve};
pub use meter::{ClientBounds, Meter, PING_WORK, Turn, Turns};
pub use offload::{Executor, can_wait_offloaded, offload, wait_offloaded};
pub use openapi::operation_id;
pub use outbox::{Framed, Outbox, Patience, write_now};
pub use proxy::{Proxy, V2_REST_BYTES_MAX};
pub use reads::{CLIENT_PROCESSORS_PERCENT, FetchBounds, ReadTurns, Reads};
pub use registry::{Bans, ConnectionGuard, ConnectionInfo, Connections, Registry, Traffic, Unwelcome};
pub use requests::{RequestBounds, serve_requests};
pub use seated::Seated;
pub use seats::{Seat, SeatCounters, SeatCounts, Seats};
pub use signals::{Reason, Signals};
pub use slow_write::SlowWrite;
pub use tls::{Certificate, CertificateError};
pub use unsent::{Pool, SHARE_BYTES, Unfinished, Unsent};
pub use websocket::deflate::Compression;
pub use websocket::frames::Frames;
pub use websocket::pages::{WebPages, host_of, is_address};
pub use websocket::shared_payload::SharedPayload;
pub use websocket::upgrade::{
    HEAD_BYTES, Purpose, Response, StatusCode, Upgraded, body, header_values, plain_response, switch, upgrade,
};
pub use websocket::writer::FrameWriter;

// For fuzz targets and for tests like them. Not for use.
#[doc(hidden)]
pub mod fuzzing;
