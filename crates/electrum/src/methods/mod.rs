//! One function for each method: from a snapshot, or the node, to an answer.

pub(crate) mod fees;
pub(crate) mod headers;
pub(crate) mod scripts;
pub(crate) mod server;
pub(crate) mod transactions;
