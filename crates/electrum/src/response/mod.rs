//! Replies and notifications as JSON lines.
//!
//! Every reply is one line of at most [`crate::Limits::reply_bytes`]. `shapes` has the shapes that clients parse;
//! `lists` writes the long lists by hand, for speed. No result has a member "id" with a number, because Sparrow finds
//! ids by text.

mod hex;
mod line;
mod lists;
mod shapes;

use serde::Serialize;

use self::line::{Line, TooLong};
use self::lists::{put_hex, put_history, put_unspent};
use crate::error::RpcError;
use crate::protocol::{Answer, Id, SubjectState};

/// Writes a reply, without the end of its line.
pub(crate) fn reply(id: &Id, result: &Result<Answer, RpcError>, bytes_max: usize) -> Vec<u8> {
    let written = match result {
        Err(error) => return error_reply(id, error),
        Ok(answer) => {
            let mut line = Line { bytes: opening(id), bytes_max };
            line.bytes.extend_from_slice(b",\"result\":");
            put(&mut line, answer).map(|()| line.bytes)
        }
    };
    match written {
        Ok(mut line) => {
            line.push(b'}');
            line
        }
        Err(TooLong) => error_reply(id, &RpcError::history_too_large()),
    }
}

fn put(line: &mut Line, answer: &Answer) -> Result<(), TooLong> {
    match answer {
        Answer::History { confirmed, unconfirmed, naming } => put_history(line, confirmed, unconfirmed, *naming),
        Answer::Unspent { outputs, naming } => put_unspent(line, outputs, *naming),
        Answer::Bytes(bytes) => put_hex(line, bytes),
        Answer::Tweaks { json, .. } => line.put(json.as_bytes()),
        answer => serde_json::to_writer(line, answer).map_err(|_| TooLong),
    }
}

/// Writes the reply that carries an error, without the end of its line.
pub(crate) fn error_reply(id: &Id, error: &RpcError) -> Vec<u8> {
    let mut line = opening(id);
    let members = format!(",\"error\":{{\"code\":{},\"message\":", error.code);
    line.extend_from_slice(members.as_bytes());
    serde_json::to_writer(&mut line, &error.message).expect("a string is always written to memory");
    line.extend_from_slice(b"}}");
    line
}

/// Writes the notification of a subject's new state, without the end of its line.
pub(crate) fn notification(state: &SubjectState) -> Vec<u8> {
    match state {
        SubjectState::Tip(tip) => notify("blockchain.headers.subscribe", &[tip]),
        SubjectState::Script(script, status) => {
            let status = status.map(const_hex::encode);
            notify(script.naming.subscribe_method(), &(script.hash.to_string(), status))
        }
        SubjectState::Outpoint(outpoint, state) => {
            let params = (outpoint.txid.to_string(), outpoint.vout, &state.status);
            notify("blockchain.outpoint.subscribe", &params)
        }
    }
}

fn notify(method: &str, params: &impl Serialize) -> Vec<u8> {
    let mut line = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":").into_bytes();
    serde_json::to_writer(&mut line, params).expect("hex and numbers are always written to memory");
    line.push(b'}');
    line
}

fn opening(id: &Id) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{}", id.as_json()).into_bytes()
}

#[cfg(test)]
#[path = "response_tests.rs"]
mod tests;
