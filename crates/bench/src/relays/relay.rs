//! Measurement of Nostr relays: queries, publishing, and delivery to subscribers.
//!
//! CPU time and memory of a relay are read from `/proc` when its process is known. All relays get the same messages.

mod answers;
mod attack;
mod differences;
mod event;
mod fan_out;
mod ingest;
mod queries;
mod relay_at;
mod servers;
mod socket;
mod space;

pub(crate) use self::answers::{Answer, Figures, alike, by_shape, up_to_eose};
pub(crate) use self::attack::{
    AttackersPlan as RelayAttackersPlan, Plan as RelayAttackPlan, run as attack, run_attackers as run_relay_attackers,
};
pub(crate) use self::event::{field, id};
pub(crate) use self::fan_out::{Plan as FanOutPlan, run as fan_out};
pub(crate) use self::ingest::{Plan as IngestPlan, run as ingest};
pub(crate) use self::queries::{Plan as QueriesPlan, run as queries};
pub(crate) use self::relay_at::RelayAt;
pub(crate) use self::servers::filled;
pub(crate) use self::socket::{Socket, frame};
pub(crate) use self::space::{Plan as SpacePlan, run as space};
