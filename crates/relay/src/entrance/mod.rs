//! The entrance: a request of HTTP becomes a WebSocket, NIP-11's document or the same as a web page, or a call of the
//! management API (NIP-86).
//!
//! May use everything but `connection`.

pub(crate) mod http;
mod info;
mod management;
mod page;

pub(crate) use self::http::Client;
