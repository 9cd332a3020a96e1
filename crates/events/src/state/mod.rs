//! One consistent state of the events: what a manifest names, and what readers borrow of it.
//!
//! May use `log` and `postings`.

mod manifest;
mod reader;
mod version;

pub(crate) use self::manifest::Manifest;
pub(crate) use self::reader::Reader;
pub(crate) use self::version::Version;
