//! The Electrum protocol for wallets: JSON messages over TCP, TLS, WebSocket, answered from one snapshot of the index.
//!
//! A message's way: `listener` accepts its connection, `transport` does what comes before the first message, `incoming`
//! cuts it from the stream as `lines` or `frames` say, `envelope` and `request` turn it into a `Request` (JSON
//! ends there), `session` admits it, `job` runs it through `dispatch` and `methods`, off the
//! async threads unless it is short, `response` writes the answer, and `outbox` carries it to the socket. `peers` looks for other servers.
//!
//! Invariants: one request, and one batch, sees one snapshot; nothing a client sends can panic the
//! server or grow its memory past [`Limits`]; a script hash is never logged.

mod limits;
mod server;
mod settings;

mod listener;
mod proxy;
mod tls;
mod transport;

mod connection;
mod frames;
mod framing;
mod incoming;
mod lines;
mod outbox;
mod unsent;

mod envelope;
mod params;
mod request;
mod script;
mod version;

mod counters;
mod meter;
mod monitor;
mod sessions;

mod apart;

mod dispatch;
mod fee_cache;
mod followers;
mod job;
mod methods;
mod service;

mod notify;
mod owners;
mod session;
mod subscriptions;

mod peers;

mod error;
mod response;

pub use birdhouse_clients::{ClientKey, ClientKeying, PrivateAddresses, Waiting};
pub use counters::{Counted, Histogram, Outcome};
pub use limits::{Limits, LimitsGiven, ServerLimits, ServerLimitsGiven};
pub use listener::{Listener, Transport};
pub use monitor::{Monitor, Overview};
pub use proxy::Proxy;
pub use server::{Server, serve};
pub use sessions::SessionInfo;
pub use settings::{Discovery, Host, Reach, Settings};
pub use tls::{Certificate, CertificateError};

/// Entry points for the fuzz targets. Not for use.
#[doc(hidden)]
pub mod fuzzing {
    use crate::Limits;
    use crate::envelope::Line;
    use crate::frames::Frames;
    use crate::framing::{Cut, Framing as _};
    use crate::request::Request;
    use crate::version::Version;

    /// Decodes a line, as clients of several versions would mean it.
    pub fn line(bytes: &[u8]) {
        for version in [Version::MIN, Version::V1_6, Version::MAX] {
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

    /// Cuts messages from what a WebSocket client sends, all at once.
    pub fn frames(bytes: &mut [u8]) {
        let (mut frames, mut start) = (Frames::default(), 0);
        loop {
            match frames.cut(&mut bytes[start..], 1000) {
                Cut::Message { message, end } => {
                    assert!(message.end <= end && message.len() <= 1000);
                    start += end;
                }
                Cut::Reply(_) => {}
                Cut::More { .. } | Cut::Ended | Cut::Refused(_) => return,
            }
        }
    }

    /// Decodes a PROXY header of either version.
    pub fn proxy(bytes: &[u8]) {
        let _ = crate::proxy::parse(bytes);
    }
}
