//! Exchange of events with other relays.
//!
//! A *stream* ([`Streams`]) passes events on as they are published, from another relay, to it, or both. A
//! *synchronization* ([`sync`]) compares the events of a filter with those of another relay, window of time by window
//! of time, and transfers what either side lacks. The other relay is the *peer*. Events from it go through the checks
//! of published ones, by [`Exchange`](birdhouse_relay::Exchange).
//!
//! | file | what lives there |
//! |---|---|
//! | `limits` | every bound |
//! | `clock` | time for durations, and time of the protocol |
//! | `job` | what to compare, and in which direction |
//! | `windows` | the windows of time, of which each has about as many events; pure |
//! | `comparison` | negentropy in one window (NIP-77); pure |
//! | `fetch`, `upload`, `page` | ids and events on their way; pure |
//! | `pauses` | pauses for which the peer asks; pure |
//! | `tally` | counts for people |
//! | `words` | words of relays of which the meaning is guessed |
//! | `came` | ids that came from a URL, which are not sent back to it |
//! | `peer` | the connection to the peer |
//! | `intake` | events on their way into the store |
//! | `session` | one synchronization |
//! | `stream` | streams: their cursors, connections and tasks |

#![forbid(unsafe_code)]

pub mod limits;

mod clock;
mod job;
mod tally;

mod comparison;
mod fetch;
mod page;
mod pauses;
mod upload;
mod windows;
mod words;

mod came;
mod intake;
mod peer;

mod session;
mod stream;

pub use clock::WallClock;
pub use job::{Direction, Job, Purpose};
pub use peer::{Peer, relay_url};
pub use session::{Missing, sync};
pub use stream::{Cursors, SetAside, StreamSettings, StreamState, StreamStatus, Streams, check};
pub use tally::{Reasons, SharedTally, Tally};
