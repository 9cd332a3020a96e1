//! HTTP: connections, a request's way to its answer, and the answers.
//!
//! | file | what is in it |
//! |---|---|
//! | `reply` | answers and refusals, and the headers of all |
//! | `authorized` | the key that a request is authorized by |
//! | `range`, `pace` | ranges of bytes; the speed of an upload |
//! | `download`, `upload`, `owned`, `report` | one file for each endpoint |
//! | `routes` | a request's way to its endpoint |
//! | `connection` | one connection after the other |

mod authorized;
mod connection;
mod download;
mod owned;
mod pace;
mod range;
mod reply;
mod report;
mod routes;
mod upload;

pub(crate) use self::connection::converse;
