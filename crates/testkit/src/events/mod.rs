//! Events of a busy relay, and a checker of what its clients saw.

pub mod corpus;
pub mod relay_history;
