//! Connections that the server opens by itself: to receivers of notices and to other relays.
//!
//! A name is looked up once an attempt, every address of it is checked, and the connection goes to a checked address:
//! an answer of DNS that changes in between changes nothing. The node's ports and our own operator's are refused. Other
//! addresses of the machine and of private networks are allowed where the operator names them, for a program on the
//! same machine is the usual one; a target that somebody else names lies there only if it is the server's own relay.
//! Redirects are never followed.
//!
//! | file | what lives there |
//! |---|---|
//! | `target` | addresses as the operator writes them |
//! | `refused`, `public`, `resolver`, `guard` | from a target to a connection, encrypted as its scheme says |
//! | `relay` | a conversation with another relay (NIP-01, 42, 77) |

#![forbid(unsafe_code)]

mod public;
mod refused;
mod resolver;
mod target;

mod guard;

pub mod relay;

pub use guard::{ADDRESSES_MAX, ANSWER_BYTES_MAX, Connection, Guard, PROXY_TIMEOUT, Reached, Stream, Trust};
pub use refused::{AskNode, Refused, RefusedAddress};
pub use resolver::{Resolver, SystemResolver};
pub use target::{Encryption, Host, Scheme, Target, URL_BYTES_MAX};
