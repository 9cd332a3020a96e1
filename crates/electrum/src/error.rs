//! Error replies.
//!
//! Codes are those of [JSON-RPC 2.0](https://www.jsonrpc.org/specification#error_object), `ElectrumX` (1, 2, 10001) and
//! aiorpcX (-101, -102), because wallets match on them. A failure of the server is logged where it happens and reaches
//! the client without detail.

use std::borrow::Cow;

use birdhouse_chain::Syncing;
use birdhouse_chain::source::{BlockPart, NodeError, SourceError, SourceErrorKind};
use birdhouse_clients::Overdrawn;
use tracing::{error, warn};

/// Error object of a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RpcError {
    pub(crate) code: i32,
    pub(crate) message: Cow<'static, str>,
    /// Parts of blocks that the node has removed, and that the answer needs.
    pub(crate) removed: Vec<BlockPart>,
}

const PARSE: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const UNKNOWN_METHOD: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL: i32 = -32603;
const EXCESSIVE: i32 = -101;
const BUSY: i32 = -102;
const BAD_REQUEST: i32 = 1;
const DAEMON: i32 = 2;
const HISTORY_TOO_LARGE: i32 = 10_001;

/// Core's code for "no such transaction".
const CORE_NOT_FOUND: i64 = -5;
const CORE_NOT_FOUND_MESSAGE: &str =
    "No such mempool or blockchain transaction. Use gettransaction for wallet transactions.";

/// Characters of a client's own text that an error repeats, at most.
const ECHO_CHARS: usize = 100;

impl RpcError {
    fn new(code: i32, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), removed: Vec::new() }
    }

    /// The line is not JSON.
    pub(crate) fn parse() -> Self {
        Self::new(PARSE, "invalid JSON")
    }

    /// The JSON is not a request.
    pub(crate) fn invalid_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INVALID_REQUEST, message)
    }

    /// A method that the negotiated version does not have.
    pub(crate) fn unknown_method(method: &str) -> Self {
        Self::new(UNKNOWN_METHOD, format!("unknown method \"{}\"", echo(method)))
    }

    /// Parameters of the wrong number or type.
    pub(crate) fn invalid_params(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// The server has failed; the log has the cause.
    pub(crate) fn internal() -> Self {
        Self::new(INTERNAL, "internal error")
    }

    /// The node's answer to `method` has a shape that Core does not give.
    pub(crate) fn unknown_shape(method: &'static str) -> Self {
        warn!(method, "node answer has an unknown shape");
        Self::internal()
    }

    /// Parameters of the right type with an impossible value.
    pub(crate) fn bad_request(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(BAD_REQUEST, message)
    }

    /// A method of 1.6 or later from a client that did not begin with `server.version`. The text is ElectrumX's.
    pub(crate) fn version_first() -> Self {
        Self::bad_request("use server.version to identify client")
    }

    /// A limit of the connection is reached.
    pub(crate) fn excessive(message: impl std::fmt::Display) -> Self {
        Self::new(EXCESSIVE, format!("excessive resource usage: {message}"))
    }

    /// The client has used more work than its limit allows.
    pub(crate) fn overdrawn(overdrawn: Overdrawn) -> Self {
        Self::excessive(format_args!("too much work for one address, ask again in {} s", overdrawn.wait.as_secs() + 1))
    }

    /// The index of silent payments is not computed up to the tip. Heights are those of the last blocks.
    pub(crate) fn silent_index(covered: u32, tip: u32) -> Self {
        Self::new(BUSY, format!("silent payments index at {covered} of {tip}"))
    }

    /// The node has removed blocks that the answer needs: it is pruned.
    pub(crate) fn removed(parts: Vec<BlockPart>) -> Self {
        let message = "the node has removed the block of this transaction (it is pruned), and no peer of the node has \
                       sent it yet; try again later";
        Self { removed: parts, ..Self::new(BUSY, message) }
    }

    /// Returns true if the server has failed.
    pub(crate) fn is_failure(&self) -> bool {
        self.code == INTERNAL
    }

    /// Returns true if a limit is reached or the server is not ready yet.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.code, EXCESSIVE | BUSY | HISTORY_TOO_LARGE)
    }

    /// The node refuses, or does not answer.
    pub(crate) fn daemon(message: impl std::fmt::Display) -> Self {
        Self::new(DAEMON, format!("daemon error: {message}"))
    }

    /// The reply would be longer than [`crate::Limits::reply_bytes`].
    pub(crate) fn history_too_large() -> Self {
        Self::new(HISTORY_TOO_LARGE, "history too large")
    }

    /// The method needs a node, and there is none.
    pub(crate) fn no_node() -> Self {
        Self::daemon("this server reads block files and has no node to ask")
    }

    /// Neither chain nor mempool holds the transaction. The text is ElectrumX's, which wallets match.
    pub(crate) fn no_such_transaction() -> Self {
        Self::core_refused(CORE_NOT_FOUND, CORE_NOT_FOUND_MESSAGE)
    }

    /// Core refused a transaction. The text is ElectrumX's, which wallets parse for Core's reason.
    pub(crate) fn broadcast_refused(message: &str, raw: &str) -> Self {
        Self::bad_request(format!("the transaction was rejected by network rules.\n\n{message}\n[{raw}]"))
    }

    /// Core refused a package.
    pub(crate) fn package_refused(message: &str) -> Self {
        Self::bad_request(format!("the tx package was rejected by network rules.\n\n{message}."))
    }

    /// The node has the transaction, and the index is still to take it.
    pub(crate) fn not_indexed_yet() -> Self {
        Self::new(BUSY, "the node has this transaction and the index does not have it yet; ask again")
    }

    fn core_refused(code: i64, message: &str) -> Self {
        Self::daemon(format_args!("DaemonError({{'code': {code}, 'message': {}}})", python_quoted(message)))
    }
}

impl From<Syncing> for RpcError {
    fn from(syncing: Syncing) -> Self {
        Self::new(BUSY, syncing.to_string())
    }
}

impl From<birdhouse_chain::Error> for RpcError {
    fn from(error: birdhouse_chain::Error) -> Self {
        match error {
            birdhouse_chain::Error::TooLong { .. } => return Self::history_too_large(),
            birdhouse_chain::Error::Removed { parts } => return Self::removed(parts),
            // Not an error to log: everybody may ask for old transactions.
            birdhouse_chain::Error::Source(SourceError { kind: SourceErrorKind::NotFound, .. }) => {
                return Self::daemon(
                    "the node no longer has the block of this transaction: it is pruned, or its chain has just moved",
                );
            }
            _ => {}
        }
        error!(%error, "index read failed");
        Self::internal()
    }
}

impl From<NodeError> for RpcError {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Rejected { code: CORE_NOT_FOUND, .. } => Self::no_such_transaction(),
            NodeError::Rejected { code, message } => Self::core_refused(code, &message),
            NodeError::Unavailable(error) => {
                warn!(%error, "node gave no answer");
                Self::daemon("the node cannot be asked right now")
            }
        }
    }
}

/// Returns the part of `text` that an error repeats.
pub(crate) fn echo(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(ECHO_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Quotes as Python's `repr` does, since `ElectrumX` prints a Python dict.
fn python_quoted(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut quoted = String::from(quote);
    for char in text.chars() {
        match char {
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            char if char == quote => quoted.extend(['\\', char]),
            char => quoted.push(char),
        }
    }
    quoted.push(quote);
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_transaction_has_the_text_of_electrumx() {
        let error = RpcError::from(NodeError::Rejected { code: -5, message: "No such mempool transaction.".into() });
        assert_eq!(error.code, 2);
        assert_eq!(
            error.message,
            "daemon error: DaemonError({'code': -5, 'message': 'No such mempool or blockchain transaction. Use gettransaction for wallet transactions.'})"
        );
    }

    #[test]
    fn core_messages_are_quoted_as_python_does() {
        assert_eq!(python_quoted("plain"), "'plain'");
        assert_eq!(python_quoted("it's"), "\"it's\"");
        assert_eq!(python_quoted("it's \"both\""), "'it\\'s \"both\"'");
        assert_eq!(python_quoted("two\nlines"), "'two\\nlines'");
    }

    #[test]
    fn refused_broadcast_carries_cores_reason_and_the_transaction() {
        let error = RpcError::broadcast_refused("min relay fee not met", "0200");
        assert_eq!(error.code, 1);
        assert_eq!(error.message, "the transaction was rejected by network rules.\n\nmin relay fee not met\n[0200]");
    }

    #[test]
    fn a_long_text_is_repeated_only_in_part() {
        assert_eq!(echo("short"), "short");
        assert_eq!(echo(&"é".repeat(200)).chars().count(), ECHO_CHARS + 3);
    }
}
