//! Measurements of the index: first builds, catching up, following, growth, silent payments, made-up chains.

pub(crate) mod build;
pub(crate) mod catch_up;
pub(crate) mod follow;
pub(crate) mod growth;
pub(crate) mod silent_payments;
pub(crate) mod virtual_chain;
