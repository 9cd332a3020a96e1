//! Events of a busy relay, and a checker of what its clients saw.

pub(crate) mod corpus;
pub(crate) mod relay_history;
