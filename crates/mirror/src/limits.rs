//! Bounds of an exchange with another relay.

use std::fmt::Write as _;
use std::time::Duration;

use birdhouse_clients::Bound;

/// Bytes of one message of the peer; a longer one ends the connection.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Time to connect, TLS and WebSocket included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(20);
/// Time in which a peer that owes an answer sends nothing. The exchange has failed then.
pub const SILENCE_TIMEOUT: Duration = Duration::from_mins(1);
/// Time in which the peer answers the first message of negentropy. After that it is asked for pages.
pub const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Messages that wait to be written to the peer. What is in flight has bounds of its own, which are lower together.
pub const UNWRITTEN_MAX: usize = 256;

/// Own ids of one window. A window that has more becomes shorter.
pub const WINDOW_IDS_MAX: usize = 100_000;
/// Ids of a window on either side at which the next one is as long.
pub const WINDOW_IDS_AIM: usize = 50_000;
/// Length of the first window in seconds.
pub const WINDOW_FIRST_S: u64 = 86_400;
/// Bytes of a negentropy message of ours. strfry takes WebSocket messages of 128 KiB; hexadecimal doubles the bytes.
pub const FRAME_BYTES: u64 = 60_000;
/// Ids that the peer may name in one window before it is taken for a hostile one.
pub const WINDOW_NAMED_MAX: usize = 5_000_000;
/// Answers of a comparison in a row that bring it no further.
pub const IDLE_ROUNDS_MAX: usize = 200;
/// Attempts at one window that the peer refuses.
pub const WINDOW_ATTEMPTS_MAX: usize = 40;

/// Ids that wait to be fetched, or events that wait to be sent. The comparison waits while there are more.
pub const QUEUED_IDS_MAX: usize = 20_000;
/// Ids of one REQ; relays take filters of this size, and answers of strfry have 500 events.
pub const FETCH_IDS: usize = 200;
/// REQs in flight; relays allow at least 20 subscriptions.
pub const FETCHES_OPEN: usize = 8;
/// Attempts to fetch an id.
pub const FETCH_ATTEMPTS: u8 = 2;
/// REQs in a row that the peer closes.
pub const CLOSED_MAX: usize = 10;
/// Events that were not asked for, after which the peer is taken for a hostile one.
pub const UNASKED_MAX: usize = 100;

/// Events that are stored together, and their bytes; the last event may go beyond.
pub const BATCH_EVENTS: usize = 512;
/// Bytes of these events.
pub const BATCH_BYTES: usize = 4 << 20;
/// Batches that wait to be stored. The peer is not read while there are more.
pub const BATCHES_WAITING: usize = 2;

/// Uploaded events that wait for their OK.
pub const UPLOADS_IN_FLIGHT: usize = 64;
/// Bytes of an event that is uploaded. strfry takes messages of 128 KiB and closes the connection at a longer one, so
/// that each run would end there.
pub const UPLOAD_BYTES_MAX: usize = 128 * 1024 - 16;
/// Events that are read to be uploaded.
pub const UPLOAD_READ: usize = 100;
/// Pause after a refusal as `rate-limited`; it doubles.
pub const PAUSE: Duration = Duration::from_secs(2);
/// The longest of these pauses.
pub const PAUSE_MAX: Duration = Duration::from_mins(1);
/// Such pauses in a row, after which what was sent counts as refused.
pub const PAUSES_MAX: u32 = 10;
/// Events that are sent again after a proof of identity (NIP-42).
pub const REPEATED_MAX: usize = 1000;
/// Reasons of refusals that are counted apart; further ones are counted together.
pub const REASONS_MAX: usize = 20;

/// Events of a page, where the peer has no negentropy.
pub const PAGE_EVENTS: usize = 500;
/// Bytes of these events; what comes beyond is stored before the page is complete.
pub const PAGE_BYTES_MAX: usize = 16 << 20;
/// Events of a page of a peer that does not keep to the number.
pub const PAGE_EVENTS_MAX: usize = 20 * PAGE_EVENTS;

// === streams ===

/// Streams of the settings.
pub const STREAMS_MAX: usize = 64;
/// URLs of one stream.
pub const STREAM_URLS_MAX: usize = 64;
/// URLs of all streams: connections that are kept open. Catching up needs a second one for a while.
pub const STREAM_CONNECTIONS_MAX: usize = 256;
/// Bytes of a stream's name.
pub const STREAM_NAME_BYTES_MAX: usize = 64;
/// Time before the last complete moment from which a stream catches up: events are published some time after their
/// `created_at`.
pub const OVERLAP_S: u64 = 3600;
/// The same where gift wraps may come, which are dated up to two days back (NIP-59).
pub const WRAPPED_OVERLAP_S: u64 = OVERLAP_S + 2 * 24 * 3600;
/// Time in which a peer confirms a stream's subscription.
pub const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(20);
/// Attempts to subscribe on one connection.
pub const SUBSCRIBE_ATTEMPTS_MAX: usize = 4;
/// Interval of pings of a stream.
pub const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Time without anything from the peer after which the connection counts as lost.
pub const STREAM_SILENCE_TIMEOUT: Duration = Duration::from_secs(90);
/// Pause after the first failure of a stream; it doubles.
pub const BACKOFF_MIN: Duration = Duration::from_secs(1);
/// The longest of these pauses.
pub const BACKOFF_MAX: Duration = Duration::from_mins(5);
/// Time after which a connection counts as a good one: the next pause is the first again.
pub const STABLE: Duration = Duration::from_mins(1);
/// Messages of a peer that are read before others have their turn.
pub const DRAINED_MAX: usize = 512;
/// Events that are no valid ones, if they are more than the others, after which the peer is left for a while.
pub const INVALID_MAX: u64 = 1000;
/// Uploaded events of a stream without a final outcome. No more are read meanwhile.
pub const UNDECIDED_MAX: usize = 512;
/// Challenges of one connection that are answered.
pub const PROOFS_MAX: u32 = 8;
/// Attempts at an event that the peer answers with `error:`.
pub const ERROR_ATTEMPTS: u32 = 5;
/// Pause before the second of these attempts; it doubles.
pub const ERROR_PAUSE: Duration = Duration::from_secs(5);
/// Time in which a peer answers an event, where it has answered one that was sent later, or answers none at all.
pub const OUTCOME_TIMEOUT: Duration = Duration::from_mins(1);
/// Time for which other events wait for the outcome of one that is sent alone, because it may end the connection.
pub const ALONE: Duration = Duration::from_secs(5);
/// Attempts at an event that the peer has not answered, each after the peer had answered another one, after which it is
/// set aside.
pub const UNANSWERED_PROOFS: u32 = 2;
/// Attempts at it after which it is set aside if the peer had answered another one before any of them.
pub const UNANSWERED_ATTEMPTS: u32 = 10;
/// Pause after the first of these attempts; it doubles.
pub const UNANSWERED_PAUSE: Duration = Duration::from_secs(5);
/// The longest of these pauses.
pub const UNANSWERED_PAUSE_MAX: Duration = Duration::from_mins(10);
/// Events whose attempts are remembered: more than are uploaded without an outcome.
pub const UNANSWERED_KEPT: usize = 2 * UNDECIDED_MAX;
/// Events that are named as set aside, for each URL. Further ones are counted.
pub const SET_ASIDE_KEPT: usize = 20;
/// Bytes of the reason why one was set aside.
pub const SET_ASIDE_WHY_BYTES: usize = 200;
/// Ids of events that came from a URL, which are kept so that none is sent back: 100 bytes each.
pub const CAME_IDS_MAX: usize = 20_000;
/// Ids of events that were sent to a URL last: the same events come back, and have not come from there.
pub const SENT_IDS_MAX: usize = 2 * UNDECIDED_MAX;
/// Requests for the ids of the next events that the peer refuses for the moment, in a row, after which it is asked no
/// more on this connection.
pub const QUESTION_ATTEMPTS_MAX: u32 = 4;
/// Times in a row that more than [`DRAINED_MAX`] messages of a peer have come, at which nothing is sent to it: the next
/// events may be among them.
pub const UNREAD_ROUNDS_MAX: usize = 100;
/// Time between two writes of the cursors of streams. After a crash that time is caught up again.
pub const CURSORS_INTERVAL: Duration = Duration::from_secs(2);
/// Bytes of a place in that file besides its filter, at most: name, URL, and the events that were set aside. Escaped in
/// JSON, a byte of a reason takes up to six.
pub const PLACE_BYTES: usize = 4096 + SET_ASIDE_KEPT * (6 * SET_ASIDE_WHY_BYTES + 128);
/// Bytes of the filters of all streams, once for each URL.
pub const STREAM_FILTERS_BYTES_MAX: usize = 8 << 20;
/// Bytes of the file of cursors. Escapes may double a filter.
pub const CURSORS_BYTES_MAX: u64 = (2 * STREAM_FILTERS_BYTES_MAX + STREAM_CONNECTIONS_MAX * PLACE_BYTES) as u64;

/// Rows of the table: the bound, its value, and what happens when it is reached.
type Rows<'a> = &'a [(&'a str, &'a dyn Text, &'a str)];

/// A value as the table shows it.
trait Text {
    fn text(&self) -> String;
}

impl<T: Bound> Text for T {
    fn text(&self) -> String {
        self.to_text()
    }
}

/// Returns the table of these bounds for the manual.
pub fn manual() -> String {
    let [overlap, wrapped_overlap] = [OVERLAP_S, WRAPPED_OVERLAP_S].map(Duration::from_secs);
    let rows: Rows<'_> = &[
        ("Streams of the settings", &STREAMS_MAX, REFUSED),
        ("URLs of one stream", &STREAM_URLS_MAX, REFUSED),
        ("URLs of all streams", &STREAM_CONNECTIONS_MAX, REFUSED),
        ("Bytes of a stream's name", &STREAM_NAME_BYTES_MAX, REFUSED),
        ("Bytes of the filters of all streams, once for each URL", &STREAM_FILTERS_BYTES_MAX, REFUSED),
        ("Time to connect to the other relay, TLS and WebSocket included; a proxy has more", &CONNECT_TIMEOUT, ENDED),
        ("Time in which it confirms the subscription of a stream", &SUBSCRIBE_TIMEOUT, ENDED),
        ("Time in which it sends nothing while it owes an answer to a synchronization", &SILENCE_TIMEOUT, ENDED),
        ("Time in which it reads nothing of what is written to it", &SILENCE_TIMEOUT, ENDED),
        ("Time in which nothing comes on a stream, which it pings", &STREAM_SILENCE_TIMEOUT, ENDED),
        ("Interval of these pings", &PING_INTERVAL, "a ping"),
        ("Pause of a stream after its connection ended", &BACKOFF_MIN, "it doubles with each further end"),
        ("The longest of these pauses", &BACKOFF_MAX, "it doubles no more"),
        ("Time after which a connection is a good one", &STABLE, "the next pause is the first again"),
        ("Bytes of one message of the other relay", &MESSAGE_BYTES_MAX, ENDED),
        ("Events that it sends without being asked", &UNASKED_MAX, ENDED),
        ("Events that are no valid ones, if they are more than the others", &INVALID_MAX, ENDED),
        ("Time before the last complete moment from which a stream catches up", &overlap, "older ones are left out"),
        (
            "The same where gift wraps may come, which are dated back (NIP-59)",
            &wrapped_overlap,
            "older ones are left out",
        ),
        ("Events that are stored together", &BATCH_EVENTS, "the next batch follows"),
        ("Batches that wait to be stored", &BATCHES_WAITING, "the other relay is not read"),
        ("Ids of this relay that are compared at once", &WINDOW_IDS_MAX, "the window of time becomes shorter"),
        ("Ids that wait to be fetched, and events that wait to be sent", &QUEUED_IDS_MAX, "the comparison waits"),
        ("Bytes of an event that is sent", &UPLOAD_BYTES_MAX, "it is not sent, and is counted"),
        ("Events that are sent and not answered", &UPLOADS_IN_FLIGHT, "the next ones wait"),
        ("Events of a stream that are read and have no final outcome", &UNDECIDED_MAX, "no more are read"),
        (
            "Attempts at an event that is answered by `error:`",
            &ERROR_ATTEMPTS,
            "it counts as refused; if no other event was accepted meanwhile, the connection is ended",
        ),
        ("Pauses in a row for `rate-limited:`", &PAUSES_MAX, ENDED),
        ("The longest of these pauses", &PAUSE_MAX, "they double no more"),
        (
            "Time in which the other relay answers an event",
            &OUTCOME_TIMEOUT,
            "it is sent again, if a later one was answered; if none is answered, the connection is ended",
        ),
        ("Time for which other events wait for one that may have ended a connection", &ALONE, "they are sent"),
        (
            "Attempts at an event that is not answered, each after the other relay has answered another one",
            &UNANSWERED_PROOFS,
            "it is set aside",
        ),
        ("All attempts at it, if the other relay has answered another one", &UNANSWERED_ATTEMPTS, "it is set aside"),
        ("Pause after the first of them", &UNANSWERED_PAUSE, "it doubles with each further one"),
        ("The longest of these pauses", &UNANSWERED_PAUSE_MAX, "it doubles no more"),
        ("Events of one URL that are named as set aside", &SET_ASIDE_KEPT, "the oldest is no longer named"),
        (
            "Ids that came from a URL and are remembered, so that none goes back",
            &CAME_IDS_MAX,
            "the oldest is forgotten; the other relay answers it as a duplicate",
        ),
        (
            "Time in which the other relay answers by negentropy which events it has",
            &PROBE_TIMEOUT,
            "it is asked for them by their ids, or for pages",
        ),
        (
            "Requests for events by their ids that it refuses for the moment, in a row",
            &QUESTION_ATTEMPTS_MAX,
            "it is asked no more on this connection",
        ),
        (
            "Reads in a row, of 512 messages each, after which more lies unread",
            &UNREAD_ROUNDS_MAX,
            "events are sent to it although the next ones may be among what is unread",
        ),
        ("Reasons of refusals that are counted apart", &REASONS_MAX, "further ones are counted together"),
    ];
    let mut text = "| fixed, of streams and `birdhouse sync` | | when it is reached |\n|---|---|---|\n".to_owned();
    for (bound, value, consequence) in rows {
        writeln!(text, "| {bound} | {} | {consequence} |", value.text()).expect("writing to memory never fails");
    }
    text
}

const REFUSED: &str = "the settings are refused";
const ENDED: &str = "the connection is ended: a stream connects again, a synchronization ends";
