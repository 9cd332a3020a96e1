//! Methods of the protocol: one function each, from a snapshot or the node to an answer.

pub(crate) mod broadcast;
pub(crate) mod fees;
pub(crate) mod headers;
pub(crate) mod outpoints;
pub(crate) mod scripts;
pub(crate) mod transactions;
pub(crate) mod tweaks;

pub(crate) use self::headers::HeaderChain;
