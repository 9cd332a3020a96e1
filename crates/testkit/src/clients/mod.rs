//! Clients: of the Electrum protocol, HTTP and pages, our own and real ones.

pub mod browser;
pub mod client;
pub mod electrum;
pub mod http_client;
pub mod inspection;
pub mod mempool_client;
pub mod openapi;
pub mod pipe;
pub mod webhook;
