//! Warnings: states that need a person, each with its remedy.

use crate::status::{Derived, Relay, Status, Stream, Subject, Warning};

/// Free disk space below which it is short.
const DISK_FREE_MIN: u64 = 5_000_000_000;
/// Percent of the limit of open files above which they are short.
const FILES_PERCENT: u64 = 90;

/// Subjects and remedies by the state of the half that serves wallets.
const REMEDIES: &[(&str, Subject, &str)] = &[
    (
        "node unreachable",
        Subject::Node,
        "Start the node. If it runs, check rpc-addr and the password: `birdhouse doctor`.",
    ),
    ("behind the node", Subject::Index, "If this lasts, look at the load of disk and processor, and at the log."),
    ("node behind", Subject::Node, "Wait until the node has caught up. The known chain is served meanwhile."),
    ("node on another chain", Subject::Node, "Check the node: it was wiped, restored, or runs on another network."),
    ("deep reorg", Subject::Node, "Check the node. To follow it, run `birdhouse ctl accept-reorg`."),
    (
        "node lacks blocks",
        Subject::Node,
        "Do what the message says. The known chain is served meanwhile; Birdhouse tries again by itself.",
    ),
    ("node not ready", Subject::Node, "Wait for the node. The build begins by itself."),
    (
        "index damaged",
        Subject::Damage,
        "Do what the message says. Answers that need the damaged place fail until then.",
    ),
    (
        "index failed",
        Subject::Index,
        "Do what the message says: make room, or repair the disk. Birdhouse tries again by itself.",
    ),
];

/// Returns the warnings that follow from the figures of a status.
pub fn warnings(status: &Status) -> Vec<Warning> {
    let remedy = REMEDIES.iter().find(|(state, ..)| *state == status.state);
    let of_state = remedy.map(|(state, subject, advice)| warning(*subject, state, &status.health, advice));
    let mut warnings: Vec<Warning> = of_state.into_iter().collect();
    warnings.extend(status.bitcoin.iter().flat_map(|bitcoin| &bitcoin.derived).filter_map(of_derived));
    warnings.extend(status.relay.iter().flat_map(of_relay));
    warnings.extend(status.streams.iter().filter_map(of_stream));
    if let Some(free) = status.disk_free_bytes.filter(|free| *free < DISK_FREE_MIN) {
        let text = format!("The disk of the data folder has {} left.", birdhouse_web::amounts::bytes(free));
        warnings.push(warning(
            Subject::Disk,
            "disk",
            &text,
            "Make room: a full disk stops the index and the relay, and loses nothing.",
        ));
    }
    if let (Some(open), Some(most)) = (status.open_files, status.open_files_max)
        && open * 100 > most * FILES_PERCENT
    {
        let text = format!("{open} of {most} files and sockets are open.");
        let advice = "Raise the limit: LimitNOFILE= in the unit, or `ulimit -n`.";
        warnings.push(warning(Subject::Files, "open files", &text, advice));
    }
    warnings
}

fn of_derived(derived: &Derived) -> Option<Warning> {
    let text = format!("Failed to compute {}: {}", derived.name, derived.failure.as_ref()?);
    let advice = "Do what the message says. Everything else goes on, but blocks of the node that it still has to read \
                  are not deleted. Birdhouse tries again by itself.";
    Some(warning(Subject::Index, &format!("derived {}", derived.name), &text, advice))
}

fn of_stream(stream: &Stream) -> Option<Warning> {
    let Stream { stream, url, failure, .. } = stream;
    let text = format!("Stream {stream}, {url}: {}", failure.as_ref()?);
    let advice = "If this lasts, look at the other relay. The stream tries again by itself, and goes on where it was.";
    Some(warning(Subject::Stream, &format!("stream {stream} {url}"), &text, advice))
}

fn of_relay(relay: &Relay) -> Vec<Warning> {
    let advice = match relay.relay_state.as_str() {
        "cannot store events" => "Make room, or replace the disk. The relay tries again by itself.",
        "stalled" => "Look at the disk, then restart Birdhouse.",
        _ => "Restart Birdhouse, and report the log.",
    };
    let reason = relay.relay_reason.iter();
    let text = |reason: &String| format!("Relay, {}: {reason}", relay.relay_state);
    let stored = reason.map(|reason| warning(Subject::Relay, "relay", &text(reason), advice));
    let threads = relay.relay_failures.iter();
    let threads = threads.map(|failure| {
        let thread = failure.split(':').next().unwrap_or_default();
        let advice = "The relay serves without it and tries again; look at the log.";
        warning(Subject::Relay, &format!("relay {thread}"), &format!("Relay, {failure}"), advice)
    });
    stored.chain(threads).collect()
}

fn warning(subject: Subject, about: &str, text: &str, advice: &str) -> Warning {
    Warning { about: about.to_owned(), subject, text: text.to_owned(), advice: advice.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::status::Bitcoin;

    #[test]
    fn a_healthy_server_has_no_warnings() {
        let status = Status {
            state: "serving".into(),
            disk_free_bytes: Some(1 << 40),
            open_files: Some(900),
            open_files_max: Some(1000),
            relay: Some(Relay { relay_state: "serving".into(), ..Relay::default() }),
            ..Status::default()
        };
        assert_eq!(warnings(&status), []);
    }

    #[test]
    fn each_trouble_has_a_warning_with_a_remedy() {
        let relay = Relay {
            relay_state: "cannot store events".into(),
            relay_reason: Some("no space".into()),
            relay_failures: vec!["compaction: damaged".into(), "search: damaged".into()],
            ..Relay::default()
        };
        let derived =
            |name: &str| Derived { name: name.into(), failure: Some("no block".into()), ..Derived::default() };
        let derived = vec![derived("filters"), derived("silent-payments"), Derived::default()];
        let status = Status {
            bitcoin: Some(Bitcoin { derived, ..Bitcoin::default() }),
            state: "deep reorg".into(),
            health: "the node leaves".into(),
            streams: vec![
                Stream { stream: "a".into(), url: "wss://b".into(), failure: Some("no".into()), ..Stream::default() },
                Stream::default(),
            ],
            disk_free_bytes: Some(1),
            open_files: Some(901),
            open_files_max: Some(1000),
            relay: Some(relay),
            ..Status::default()
        };
        let warnings = warnings(&status);
        let texts: Vec<&str> = warnings.iter().map(|warning| warning.text.as_str()).collect();
        assert_eq!(texts[0], "the node leaves");
        assert!(warnings[0].advice.contains("accept-reorg"));
        assert_eq!(texts[1], "Failed to compute filters: no block");
        assert_eq!(texts[3], "Relay, cannot store events: no space");
        assert_eq!(texts[4], "Relay, compaction: damaged");
        assert_eq!(texts[6], "Stream a, wss://b: no");
        assert!(texts[7].contains("1\u{a0}B left") && texts[8].contains("901 of 1000"), "{texts:?}");
        let subjects: Vec<&str> = warnings.iter().map(|warning| warning.subject.name()).collect();
        assert_eq!(subjects, ["node", "index", "index", "relay", "relay", "relay", "stream", "disk", "files"]);
        let about: BTreeSet<&str> = warnings.iter().map(|warning| warning.about.as_str()).collect();
        assert_eq!(about.len(), warnings.len(), "two are about the same: {warnings:?}");
    }
}
