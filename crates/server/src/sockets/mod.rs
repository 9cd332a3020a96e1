//! Sockets of all protocols: from settings to bound listeners with their certificates, and their addresses for users
//! and Tor.
//!
//! May use `config`.

pub(crate) mod bind;
mod bound;
pub(crate) mod listeners;
mod onion;
pub(crate) mod protocols;
mod validity;
pub(crate) mod welcome;

pub(crate) use self::bound::{BoundListener, Sockets};
pub(crate) use self::listeners::{CertificateFiles, Plan};
pub(crate) use self::onion::{KEY_FILE as ONION_KEY, Onion};
pub(crate) use self::validity::{Standing, Validity};
pub(crate) use self::welcome::Endpoint;
