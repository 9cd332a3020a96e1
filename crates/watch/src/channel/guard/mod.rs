//! Connections to the addresses of the watch file, and to relays that a recipient names.
//!
//! A name is looked up once an attempt, every address of it is checked, and the connection goes to a checked address:
//! an answer of DNS that changes in between changes nothing. The node's ports and our own operator's are refused. Other
//! addresses of the machine and of private networks are allowed, for a person's own ntfy is the usual target, and only
//! the operator writes the file. A recipient's list of relays is not the operator's: of private networks it may name
//! what stands in the file, and the server's own relay. Redirects are never followed. Answers are bounded in bytes and
//! in time.

mod connect;
mod http;
mod public;
mod refused;
mod resolver;
mod target;

pub(super) use connect::{Connection, Guard};
pub(super) use http::{Post, post};
pub use refused::{AskNode, Refused, RefusedAddress};
pub use resolver::{Resolver, SystemResolver};
pub(super) use target::{Encryption, Host, Scheme, Target};
