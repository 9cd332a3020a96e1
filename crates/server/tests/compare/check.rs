//! Comparison of a server's answers with the model's.

use birdhouse_testkit::asked::sorted;
use birdhouse_testkit::client::Client;
use birdhouse_testkit::peers::Peer;
use serde_json::Value;

use crate::model::Asked;

/// Requests sent together.
pub(crate) const BATCH: usize = 200;
const HEADER_DIGITS: usize = 160;
/// Differences in the message of a failure.
const SHOWN: usize = 5;

/// Differences between servers that the protocol allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// `listunspent` comes in chain order.
    Chain,
    /// `listunspent` comes in any order, and `block.headers` in the format before 1.6 (electrs).
    Any,
}

/// Sends all requests in batches.
///
/// # Errors
/// The first differences, or the failure of the connection.
pub(crate) fn check(name: &str, server: &Peer, order: Order, batch: usize, asked: &[Asked]) -> Result<(), String> {
    assert!(!asked.is_empty());
    let failed = |error| format!("{name}: {error}");
    let mut client = server.client().map_err(failed)?;
    let mut differences = Vec::new();
    for some in asked.chunks(batch) {
        for (asked, answer) in some.iter().zip(answers(&mut client, some).map_err(failed)?) {
            if !is_right(asked, answer.clone(), order) {
                differences.push(format!("{} {}: {answer:?} instead of {}", asked.method, asked.params, asked.answer));
            }
        }
    }
    if !differences.is_empty() {
        let shown = differences[..differences.len().min(SHOWN)].join("\n");
        return Err(format!(
            "{name}: {} of {} answers differ from the blocks:\n{shown}",
            differences.len(),
            asked.len()
        ));
    }
    eprintln!("{name}: {} answers are right", asked.len());
    Ok(())
}

fn answers(client: &mut Client, asked: &[Asked]) -> birdhouse_testkit::Result<Vec<Result<Value, Value>>> {
    let requests: Vec<_> = asked.iter().map(|asked| (asked.method, asked.params.clone())).collect();
    client.batch(&requests)
}

fn is_right(asked: &Asked, answer: Result<Value, Value>, order: Order) -> bool {
    let Ok(mut answer) = answer else { return false };
    match asked.method {
        // A bound that each server chooses.
        "blockchain.block.headers" => {
            let max = answer.as_object_mut().and_then(|object| object.remove("max"));
            if order == Order::Any {
                split_headers(&mut answer);
            }
            max.and_then(|max| max.as_u64()) >= Some(2016) && answer == asked.answer
        }
        "blockchain.scripthash.listunspent" if order == Order::Any => sorted(answer) == sorted(asked.answer.clone()),
        _ => answer == asked.answer,
    }
}

/// Converts `hex`, one string before 1.6, to the list of headers since.
fn split_headers(answer: &mut Value) {
    let Some(Value::String(hex)) = answer.as_object_mut().and_then(|object| object.remove("hex")) else { return };
    let headers = hex.as_bytes().chunks(HEADER_DIGITS).map(|header| String::from_utf8_lossy(header).into());
    answer["headers"] = Value::Array(headers.collect());
}
