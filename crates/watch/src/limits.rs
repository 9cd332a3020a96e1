//! Bounds on watches, their notices and their channels.

use std::fmt::Write as _;
use std::time::Duration;

use birdhouse_clients::Bound;
use birdhouse_dial::{ADDRESSES_MAX, ANSWER_BYTES_MAX};

/// Watches of a file.
pub const WATCHES_MAX: usize = 1_000;
/// Channels of a file.
pub const CHANNELS_MAX: usize = 100;
/// Bytes of the watch file.
pub const FILE_BYTES_MAX: u64 = 4 << 20;
/// Characters of the name of a watch or a channel.
pub const NAME_CHARS_MAX: usize = 64;
/// Largest gap of a watch.
pub const GAP_MAX: u32 = 1_000;
/// Gap of a watch that does not name one.
pub const GAP_DEFAULT: u32 = 20;
/// Unused scripts that are watched after the last used one, if the gap of the watch is less: a wallet that is restored
/// elsewhere, or hands out many addresses at once, goes on far beyond its own gap. An index looks them up for nothing.
pub const GAP_MIN: u32 = 100;
/// Scripts of all branches of a watch.
pub const SCRIPTS_MAX: usize = 100_000;
/// Hexadecimal digits of a script: consensus allows 10 000 bytes.
pub const SCRIPT_CHARS_MAX: usize = 20_000;
/// Transactions of one script that an update reads. For a script with more, nothing is announced until it has less.
pub const SCRIPT_HISTORY_MAX: usize = 10_000;
/// Transactions of the past that are read for the sums of a digest.
pub const HISTORY_READ_MAX: usize = 10_000;
/// Confirmation levels of a watch.
pub const LEVELS_MAX: usize = 16;
/// The highest level of confirmations.
pub const CONFIRMATIONS_MAX: u32 = 1_000;
/// Time for which a warning of the server stands before it is announced, unless the file names another one: what comes
/// and goes sooner is nobody's business.
pub const HEALTH_AFTER_DEFAULT: Duration = Duration::from_mins(1);
/// The longest such time.
pub const HEALTH_AFTER_MAX: Duration = Duration::from_hours(24);
/// Blocks above a transaction after which it is settled: a reorg that takes it back is no longer noticed.
pub const SETTLED_DEPTH: u32 = 100;
/// Outputs, and inputs, that a notice lists; it counts the others in its sums.
pub const NOTICE_LINES_MAX: usize = 100;
/// Notices that the log keeps. Beyond it the oldest are deleted.
pub const NOTICES_MAX: u64 = 100_000;
/// Notices of a watch in one update after a pause, beyond which one digest takes their turn.
pub const BACKLOG_MAX: usize = 50;
/// Seconds for which a transaction must have left the mempool before it counts as dropped: a node that starts again
/// brings its mempool back.
pub const DROPPED_AFTER_S: u64 = 600;
/// Blocks of the past that the first scan of a silent-payment watch reads: they have millions of tweaks.
pub const SILENT_HISTORY_MAX: u32 = 10_000;

/// Invoices that are kept. Beyond it the oldest are deleted.
pub const INVOICES_MAX: u64 = 100_000;
/// Payments of an invoice whose time is kept.
pub const INVOICE_PAYMENTS_MAX: usize = 100;
/// Time to pay an invoice that names none, in seconds.
pub const INVOICE_EXPIRY_DEFAULT: u64 = 3600;
/// The longest time to pay, in seconds.
pub const INVOICE_EXPIRY_MAX: u64 = 90 * 86_400;
/// Used addresses in a row that a new invoice skips, before it is refused.
pub const INVOICE_SKIPS_MAX: u32 = 1_000;
/// Invoices of one answer.
pub const INVOICES_PAGE: usize = 100;
/// Labels that are kept.
pub const LABELS_MAX: u64 = 200_000;
/// Characters of the label of an invoice.
pub const INVOICE_LABEL_CHARS_MAX: usize = NAME_CHARS_MAX * 4;
/// Seconds after the end of an unpaid invoice in which payments are still noticed by themselves.
pub const INVOICE_LATE_S: u64 = 30 * 86_400;
/// Connections of the API for programs.
pub const API_CONNECTIONS_MAX: usize = 256;
/// Bytes of a request's body: a transaction in hexadecimal, or a file of labels.
pub const API_BODY_BYTES_MAX: usize = 8 << 20;
/// Transactions of an answer that are made at once while the client reads.
pub const API_PORTION: usize = 50;
/// Time from accepting a connection of the API until it can carry requests.
pub const API_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Time for a request's head to arrive.
pub const API_HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// Bytes of a request's head.
pub const API_HEAD_BYTES_MAX: usize = 16 * 1024;
/// Time for a request's body to arrive.
pub const API_BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time in which a client reads nothing of what is written to it.
pub const API_WRITE_TIMEOUT: Duration = Duration::from_mins(1);
/// Scripts, outpoints or categories that a stream is limited to.
pub const API_STREAM_VALUES_MAX: usize = 1_000;
/// Updates, and changes of invoices, that the reader of a stream may lag behind.
pub const API_STREAM_LAG_MAX: usize = 256;
/// Bytes of a message from the client of a WebSocket, which has nothing to say.
pub const API_SOCKET_MESSAGE_BYTES_MAX: usize = 1024;
/// Silence of the client of a WebSocket after which it is sent a ping.
pub const API_SOCKET_SILENCE: Duration = Duration::from_mins(1);
/// Time to answer that ping.
pub const API_SOCKET_ANSWER: Duration = Duration::from_secs(30);
/// Time in which a client that is sent away may take the end of the conversation, with its cursor.
pub const API_SOCKET_FAREWELL: Duration = Duration::from_secs(10);
/// Wait for a turn to ask the node.
pub const API_NODE_PATIENCE: Duration = Duration::from_secs(5);
/// Time in which blocks that a pruned node has removed are fetched from its peers, each time.
pub const API_FETCH_PATIENCE: Duration = Duration::from_secs(10);
/// Parts of such blocks that are fetched for one answer, each time.
pub const API_FETCHED_PARTS_MAX: usize = 512;
/// Times that blocks are fetched for one answer.
pub const API_FETCHES_MAX: u32 = 8;
/// Longest attempt of a delivery, from the look-up of the name to the answer.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);
/// Longest run of a command.
pub const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);
/// Words and options of a command.
pub const ARGUMENTS_MAX: usize = 64;
/// Secrets of a webhook that sign at the same time.
pub const SECRETS_MAX: usize = 4;
/// Bytes of the text that ntfy shows. Its server makes an attachment of one that has 4096, or refuses it.
pub const NTFY_BYTES_MAX: usize = 4095;
/// Relays of a recipient that a message is sent to, and that are asked for these.
pub const RELAYS_MAX: usize = 8;
/// Wait after the first attempt that failed. It doubles with each further one.
pub const RETRY_FIRST: Duration = Duration::from_secs(5);
/// Longest wait between two attempts.
pub const RETRY_MAX: Duration = Duration::from_hours(24);
/// Attempts that a receiver answers by a refusal of the message (400, 422, a permanent answer of SMTP), after which its
/// delivery is given up: eleven minutes.
pub const REJECTIONS_MAX: u32 = 8;
/// Age of a notice at which its delivery is given up.
pub const DELIVERY_AGE_MAX: Duration = Duration::from_hours(30 * 24);

/// Rows of a table: the bound, its value, and what happens when it is reached.
type Rows<'a> = &'a [(&'a str, &'a dyn Text, &'a str)];

/// A value as tables show it.
trait Text {
    fn text(&self) -> String;
}

impl<T: Bound> Text for T {
    fn text(&self) -> String {
        self.to_text()
    }
}

fn table(title: &str, rows: Rows<'_>) -> String {
    let mut text = format!("| {title} | | when it is reached |\n|---|---|---|\n");
    for (bound, value, consequence) in rows {
        writeln!(text, "| {bound} | {} | {consequence} |", value.text()).expect("writing to memory never fails");
    }
    text
}

/// Returns the tables of these bounds for the manual.
pub fn manual() -> String {
    let watches: Rows<'_> = &[
        ("Watches of a file", &WATCHES_MAX, "the file is refused"),
        ("Channels of a file", &CHANNELS_MAX, "the file is refused"),
        ("Bytes of the file", &FILE_BYTES_MAX, "the file is refused"),
        ("Characters of a name", &NAME_CHARS_MAX, "the file is refused"),
        ("`gap` of a watch", &GAP_MAX, "the file is refused"),
        ("Levels of `confirmations`", &LEVELS_MAX, "the file is refused"),
        ("The highest of these levels", &CONFIRMATIONS_MAX, "the file is refused"),
        ("`after` of `[health]`", &HEALTH_AFTER_MAX, "the file is refused"),
        ("Scripts of a watch", &SCRIPTS_MAX, "its window moves no further"),
        (
            "Transactions of one script in the blocks that are not settled",
            &SCRIPT_HISTORY_MAX,
            "none of them is announced; `birdhouse watch list` says so",
        ),
        (
            "Transactions of the past that are read for a digest from a height on",
            &HISTORY_READ_MAX,
            "the sums say less (`is_partial`)",
        ),
        (
            "Blocks of the past that the first scan for silent payments reads",
            &SILENT_HISTORY_MAX,
            "older ones are not found",
        ),
        ("Blocks above a transaction", &SETTLED_DEPTH, "it is settled: a deeper reorg is not announced"),
        ("Outputs, and inputs, that a notice lists", &NOTICE_LINES_MAX, "its sums count the others"),
        ("Notices of a watch after a pause", &BACKLOG_MAX, "one digest takes their turn"),
        ("Notices that are kept", &NOTICES_MAX, "the oldest is deleted"),
        ("Age of a notice that is not delivered", &DELIVERY_AGE_MAX, "its delivery is given up"),
        ("Time of an attempt to deliver", &ATTEMPT_TIMEOUT, "it has failed, and is repeated"),
        ("Wait after the first attempt that failed", &RETRY_FIRST, "it doubles with each further one"),
        ("Longest wait between two attempts", &RETRY_MAX, "it doubles no more"),
        ("Bytes of a receiver's answer", &ANSWER_BYTES_MAX, "the attempt has failed, and is repeated"),
        ("Addresses of a receiver's name that are tried", &ADDRESSES_MAX, "the others are not tried"),
        ("Time of a command", &COMMAND_TIMEOUT, "it is ended, and the attempt has failed"),
        ("Words of a command", &ARGUMENTS_MAX, "the file is refused"),
        ("Secrets of a webhook", &SECRETS_MAX, "the file is refused"),
        (
            "Relays of a channel, and of a recipient's list",
            &RELAYS_MAX,
            "the file is refused; further ones of a list are left out",
        ),
        ("Bytes of a text for ntfy", &NTFY_BYTES_MAX, "it is cut"),
    ];
    let api: Rows<'_> = &[
        ("Connections", &API_CONNECTIONS_MAX, "the connection without traffic for longest is closed"),
        (
            "Time from accepting a connection until it can carry requests",
            &API_HANDSHAKE_TIMEOUT,
            "the connection is closed",
        ),
        ("Time for a request's head", &API_HEAD_TIMEOUT, "the connection is closed"),
        ("Bytes of a request's head", &API_HEAD_BYTES_MAX, "status 431"),
        ("Time for a request's body", &API_BODY_TIMEOUT, "status 408"),
        ("Bytes of a request's body", &API_BODY_BYTES_MAX, "status 413"),
        (
            "Time in which a client reads nothing of what is written to it",
            &API_WRITE_TIMEOUT,
            "the connection is closed; a WebSocket with status 1013, and the cursor as the reason",
        ),
        ("Transactions of one script in an answer", &SCRIPT_HISTORY_MAX, "status 400"),
        (
            "Values of `category`, `scripthash` or `outpoint` of a stream",
            &API_STREAM_VALUES_MAX,
            "further ones are left out",
        ),
        (
            "Updates that the reader of a stream may lag behind",
            &API_STREAM_LAG_MAX,
            "it gets the difference of all; the stream of invoices ends, and the client reads the states again",
        ),
        (
            "Bytes of a message from the client of a WebSocket",
            &API_SOCKET_MESSAGE_BYTES_MAX,
            "the WebSocket is closed with status 1009; a message that is smaller: with 1008",
        ),
        ("Silence of the client of a WebSocket", &API_SOCKET_SILENCE, "a ping"),
        ("Time to answer it", &API_SOCKET_ANSWER, "the connection is closed"),
        (
            "Time in which a client that reads nothing may take the end of the conversation and its cursor",
            &API_SOCKET_FAREWELL,
            "the connection is closed",
        ),
        ("Wait for a turn to ask the node", &API_NODE_PATIENCE, "status 503"),
        (
            "Time in which blocks that a pruned node has removed are fetched, each time",
            &API_FETCH_PATIENCE,
            "status 503; the fetch goes on",
        ),
        (
            "Transactions of such blocks that are fetched at once for one answer",
            &API_FETCHED_PARTS_MAX,
            "the others are fetched after these",
        ),
        ("Times that blocks are fetched for one answer", &API_FETCHES_MAX, "status 503"),
        ("Invoices that are kept", &INVOICES_MAX, "the oldest is deleted"),
        ("Invoices of one answer", &INVOICES_PAGE, "`before` of the last one asks for older ones"),
        (
            "Payments of an invoice whose times are kept",
            &INVOICE_PAYMENTS_MAX,
            "further ones count as late after its end",
        ),
        ("Seconds to pay an invoice", &INVOICE_EXPIRY_MAX, "status 400"),
        (
            "Seconds after that in which late payments are noticed by themselves",
            &INVOICE_LATE_S,
            "later ones show when the invoice is asked for",
        ),
        ("Characters of an invoice's label", &INVOICE_LABEL_CHARS_MAX, "status 400"),
        ("Used addresses in a row that a new invoice skips", &INVOICE_SKIPS_MAX, "status 503"),
        ("Labels that are kept", &LABELS_MAX, "further ones are left out, and counted in the answer"),
    ];
    format!("{}\n{}", table("fixed, of watches", watches), table("fixed, of the watch API", api))
}
