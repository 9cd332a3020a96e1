//! Clients: of the Electrum protocol, HTTP and pages, our own and real ones.

pub(crate) mod browser;
pub(crate) mod client;
pub(crate) mod electrum;
pub(crate) mod http_client;
pub(crate) mod inspection;
pub(crate) mod mempool_client;
pub(crate) mod pipe;
