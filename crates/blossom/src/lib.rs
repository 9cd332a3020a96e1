//! A media store of Nostr clients over HTTP: Blossom.
//!
//! A *blob* is a file by the SHA-256 of its bytes. Whoever knows the hash may read it; a Nostr key that the operator
//! lets in may upload, list what it owns, and delete that.
//!
//! # Files
//!
//! Each may use those above it.
//!
//! | file | what is in it |
//! |---|---|
//! | `limits`, `error` | bounds, failures |
//! | `hash`, `media_type`, `address` | names and types of blobs, the URL of the server |
//! | `store` | files and their index, durable before an upload is answered |
//! | `authorization` | signed events that authorize a request (BUD-11) |
//! | `access` | what the store leaves to its owner: who may upload, and reports |
//! | `service` | state that all connections share |
//! | `http` | connections and endpoints |
//! | `server` | listeners, from start to shutdown |
//!
//! Deliberately absent: payments (BUD-07), mirrors of other servers (BUD-04), changes of media (BUD-05), lists of what
//! others own.
//!
//! Source: <https://github.com/hzrd149/blossom>, BUD-01, 02, 06, 09, 11 and 12.
#![forbid(unsafe_code)]

mod error;
mod limits;

mod address;
mod hash;
mod media_type;

mod store;

mod access;
mod authorization;

mod http;
mod server;
mod service;

pub use access::{Denied, Operator, Report, Reporting};
pub use address::Address;
pub use error::{Error, Result};
pub use hash::BlobHash;
pub use limits::{Limits, LimitsGiven};
pub use media_type::{MediaType, MediaTypes};
pub use server::{Overview, Server};
pub use service::{Counts, Settings};
pub use store::{Blob, Copied, Removed, Store, Swept, Usage};
