//! Web pages: the frame, the style sheet and the small parts that the explorer and the dashboard share.
//!
//! Invariants: pure functions from values to markup; a page needs nothing from another host, and shows everything
//! without its script.
#![forbid(unsafe_code)]

pub mod amounts;
pub mod parts;
mod site;

pub use site::{Alone, Frame, ICON, STYLE, Site, relative, with_notice};
