//! Hostile clients: each attack is one thread with many connections, which do one harmful thing as often as they can.
//!
//! All connections of an attack come from one address, which the PROXY header of each names where the listener accepts
//! such headers ([`Target::Proxied`]). A server that limits clients by address can thus limit an attack. Nothing here
//! waits for the server: a socket that is not ready is tried again in the next round.

mod asked_of_electrum;
mod asked_of_relay;
mod asked_of_web;
mod attackers;
mod exposed;
mod honest_clients;
mod kind;
mod prey;
mod rest_asked;
mod running;
mod setup;
mod target;

pub use self::exposed::Exposed;
pub use self::honest_clients::{HonestClients, Latencies};
pub use self::kind::{Attack, Outcome};
pub use self::prey::Prey;
pub use self::running::Running;
pub use self::setup::Setup;
pub use self::target::Target;
