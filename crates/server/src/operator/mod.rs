//! The operator's tools: `birdhouse ctl`, the dashboard, metrics, health, and the open stores for verification and
//! backups.
//!
//! May use `services` and what that uses. No client comes here.

mod accept;
pub(crate) mod alarms;
pub(crate) mod answer_text;
mod audit;
mod certificates;
mod connections;
mod control;
pub(crate) mod ctl;
pub(crate) mod exchange;
mod health;
mod members;
pub(crate) mod metrics;
mod node_watch;
pub(crate) mod ops;
mod reports;
mod retention;
mod rules;
mod shown;
pub(crate) mod status;
mod stores;
mod watch;
pub(crate) mod watch_text;

pub(crate) use self::control::{Bitcoin, Control};
pub(crate) use self::ctl::Answer;
pub(crate) use self::health::DAMAGED;
pub(crate) use self::node_watch::NodeWatch;
pub(crate) use self::shown::{Shown, public_endpoints};
pub(crate) use self::status::FORK_ADVICE;
pub(crate) use self::stores::{BackedUp, Checked, Pace, Part, Stores, check_is_new};
