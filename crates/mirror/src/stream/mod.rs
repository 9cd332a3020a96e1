//! Streams: events that come from other relays, and go to them, as they are published. Each URL of a stream has a task
//! of its own, which connects again after each failure.
//!
//! Down: a live subscription is opened first. Then what the peer has and this relay lacks is compared, from the last
//! complete moment less [`OVERLAP_S`](crate::limits::OVERLAP_S), on a second connection; live events flow on. The
//! cursor is the newest `created_at` until which the stream is complete, and moves only after the events are durable.
//!
//! Up: every durable event that matches, in the order of the log, until the peer's OK or its final refusal. The cursor
//! is the lowest number whose event has neither. An event at which the peer ends the connection, or that it does not
//! answer, is sent alone a few times and then set aside. After an outage, and always where events come from the URL on
//! any stream, the peer is asked which of the next events it has: by negentropy, else by a request for their ids.
//! Nothing is sent before everything is read that has come.
//!
//! | file | what lives there |
//! |---|---|
//! | `backoff` | pauses between connections; pure |
//! | `settings` | a stream as the operator configures it |
//! | `cursors` | the durable places of streams |
//! | `status` | the state of a stream for people |
//! | `undecided` | events without an outcome, and the place below them; pure |
//! | `unanswered` | events that the peer does not answer, and when each is given up; pure |
//! | `question` | which of the next events the peer has; pure |
//! | `up`, `down` | the two directions of a connection |
//! | `leg` | one URL of a stream: its places and its state |
//! | `conversation` | one connection |
//! | `attempts` | connections, from failure to failure |
//! | `streams` | all streams |

mod backoff;
mod settings;

mod cursors;
mod status;
mod unanswered;
mod undecided;

mod attempts;
mod conversation;
mod down;
mod leg;
mod question;
mod up;

mod streams;

pub use self::cursors::{Cursors, SetAside};
pub use self::settings::{StreamSettings, check};
pub use self::status::{StreamState, StreamStatus};
pub use self::streams::Streams;
