//! The state of the watches as text for people: times as how long ago they were.

use birdhouse_web::amounts::duration;
use serde_json::{Map, Value, json};

use super::answer_text;

/// Members of a channel with the time and the reason of a failure.
const FAILURES: [&str; 2] = ["last_error", "last_given_up"];

/// Formats the answer of `birdhouse watch list`. `now` is in seconds since 1970.
pub(crate) fn text(mut answer: Value, now: u64) -> String {
    for channel in answer["channels"].as_array_mut().into_iter().flatten() {
        if let Value::Object(channel) = channel {
            describe(channel, now);
        }
    }
    answer_text::text(&answer)
}

fn describe(channel: &mut Map<String, Value>, now: u64) {
    if let Some(time) = channel.get("last_delivery").and_then(Value::as_u64) {
        channel.insert("last_delivery".into(), json!(ago(time, now)));
    }
    if let Some(time) = channel.get("next_attempt").and_then(Value::as_u64) {
        channel.insert("next_attempt".into(), json!(format!("in {}", span(time.saturating_sub(now)))));
    }
    for name in FAILURES {
        let Some(failure) = channel.get(name) else { continue };
        if let (Some(time), Some(why)) = (failure["at"].as_u64(), failure["why"].as_str()) {
            let described = format!("{}: {why}", ago(time, now));
            channel.insert(name.into(), json!(described));
        }
    }
}

fn ago(time: u64, now: u64) -> String {
    format!("{} ago", span(now.saturating_sub(time)))
}

/// Returns a duration with the plain space of terminals.
fn span(seconds: u64) -> String {
    duration(seconds).replace('\u{a0}', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_as_how_long_ago_they_were() {
        let now = 1_790_000_000;
        let failure = json!({ "at": now - 300, "why": "no route" });
        let channel = json!({
            "name": "me", "waiting": 1, "last_delivery": now - 7_200, "last_error": failure, "next_attempt": now + 40,
            "last_given_up": null, "disabled": null,
        });
        let fresh = json!({
            "name": "new", "waiting": 0, "last_delivery": null, "last_error": null, "next_attempt": null,
            "last_given_up": null, "disabled": null,
        });
        let said = text(json!({ "notices": 7, "channels": [channel, fresh], "watches": [] }), now);
        let expected = "notices  7\n\nchannels\n\
             name  disabled  last delivery  last error           last given up  next attempt  waiting\n\
             me    -         2 h ago        5 min ago: no route  -              in 40 s       1\n\
             new   -         -              -                    -              -             0\n";
        assert_eq!(said, expected);
    }
}
