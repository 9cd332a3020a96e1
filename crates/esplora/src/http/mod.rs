//! HTTP around the answers: routes, bodies, compression, and one connection after the other.
//!
//! May use everything else.

mod gzip;
pub(crate) mod routes;
mod slashes;
pub(crate) mod transport;
mod unread;
mod whole_body;

pub(crate) use self::gzip::with_gzip;
pub(crate) use self::routes::{named_parts, of_api, refusal};
pub(crate) use self::unread::with_close;
