//! The Electrum protocol for wallets: JSON lines over TCP, answered from one snapshot of the index.
//!
//! A line's way: `connection` reads it, `envelope` and `request` turn it into a `Request` (JSON
//! ends there), `session` admits it, `job` runs it off the async threads through `dispatch` and
//! `methods`, `response` writes the answer, and `outbox` carries it to the socket.
//!
//! Invariants: one request, and one batch, sees one snapshot; nothing a client sends can panic the
//! server or grow its memory past [`Limits`]; a script hash is never logged.

mod limits;
mod server;
mod settings;

mod connection;
mod lines;
mod outbox;

mod envelope;
mod params;
mod request;
mod version;

mod dispatch;
mod job;
mod methods;
mod notify;
mod service;
mod session;

mod error;
mod response;

pub use limits::Limits;
pub use server::serve;
pub use settings::{Host, Settings};

/// Entry point for the fuzz target of requests. Not for use.
#[doc(hidden)]
pub mod fuzzing {
    use crate::Limits;
    use crate::envelope::Line;
    use crate::request::Request;
    use crate::version::Version;

    /// Decodes a line, as a client of the oldest and of the newest version would mean it.
    pub fn line(bytes: &[u8]) {
        for version in [Version::V1_4, Version::V1_6] {
            let items = match Line::parse(bytes, &Limits::default()) {
                Ok(Line::Single(item)) => vec![item],
                Ok(Line::Batch(items)) => items,
                Err(_) => return,
            };
            for envelope in items.into_iter().flatten() {
                let _ = Request::parse(&envelope.method, envelope.args, version);
            }
        }
    }
}
