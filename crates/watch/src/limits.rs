//! Bounds on watches, their notices and their channels.

use std::time::Duration;

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
/// Confirmation levels of a watch.
pub const LEVELS_MAX: usize = 16;
/// The highest level of confirmations.
pub const CONFIRMATIONS_MAX: u32 = 1_000;
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
/// Connections of the API for programs.
pub const API_CONNECTIONS_MAX: usize = 256;
/// Bytes of a request's body: a transaction in hexadecimal, or a file of labels.
pub const API_BODY_BYTES_MAX: usize = 8 << 20;
/// Transactions of an answer that are made at once while the client reads.
pub const API_PORTION: usize = 50;
/// Longest attempt of a delivery, from the look-up of the name to the answer.
pub const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(20);
/// Bytes that a receiver may send in one attempt, TLS included. No more are read: the attempt has failed.
pub const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// Addresses of a name that are tried.
pub const ADDRESSES_MAX: usize = 4;
/// Longest run of a command.
pub const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);
/// Words and options of a command.
pub const ARGUMENTS_MAX: usize = 64;
/// Secrets of a webhook that sign at the same time.
pub const SECRETS_MAX: usize = 4;
/// Bytes of the text that ntfy shows; it makes an attachment of a longer one.
pub const NTFY_BYTES_MAX: usize = 4096;
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
