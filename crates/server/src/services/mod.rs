//! The protocols that clients speak: opened, bound, served and ended.
//!
//! May use `index` and what that uses.

pub(crate) mod relay;
pub(crate) mod relay_settings;
pub(crate) mod rest;
