//! Write policies of an operator's own, as strfry's plugins are: real programs, run by the shell.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use birdhouse_relay::{Limits, PluginSettings, Settings, WhenBroken};
use serde_json::json;
use tempfile::TempDir;

use crate::app::{App, Client, event};

/// Answers by the kind of the event: 7 is refused, 8 is refused in secret, 9 gets no answer, 10 ends it, 11 is
/// refused without words.
const BY_KIND: &str = r#"
echo started >> "$0.starts"
while read -r line; do
    id=$(printf '%s' "$line" | sed 's/.*"id":"\([0-9a-f]\{64\}\)".*/\1/')
    case $line in
        *'"kind":7,'*) echo "{\"id\":\"$id\",\"action\":\"reject\",\"msg\":\"blocked: no reactions\"}" ;;
        *'"kind":8,'*) echo "{\"id\":\"$id\",\"action\":\"shadowReject\"}" ;;
        *'"kind":9,'*) ;;
        *'"kind":10,'*) exit 3 ;;
        *'"kind":11,'*) echo "{\"id\":\"$id\",\"action\":\"reject\"}" ;;
        *'"sourceType":"IP4","sourceInfo":"127.0.0.1"'*|*'"sourceInfo":"127.0.0.1","sourceType":"IP4"'*)
            echo "{\"id\":\"$id\",\"action\":\"accept\",\"msg\":\"\"}" ;;
    esac
done
"#;

/// Waits for three events, and answers about the last of them first.
const BACKWARDS: &str = r#"
while read -r one && read -r two && read -r three; do
    for line in "$three" "$two" "$one"; do
        id=$(printf '%s' "$line" | sed 's/.*"id":"\([0-9a-f]\{64\}\)".*/\1/')
        echo "{\"id\":\"$id\",\"action\":\"accept\"}"
    done
done
"#;

struct Script {
    folder: TempDir,
}

impl Script {
    fn new(text: &str) -> Self {
        let script = Self { folder: tempfile::tempdir().unwrap() };
        std::fs::write(script.path(), text).unwrap();
        script
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("plugin.sh")
    }

    fn settings(&self, broken: WhenBroken) -> Settings {
        let plugin = PluginSettings { command: format!("sh {}", self.path().display()), broken };
        let limits = Limits { plugin_timeout: Duration::from_secs(2), ..Limits::default() };
        Settings { plugin: Some(plugin), limits, ..Settings::default() }
    }

    /// Returns the number of its starts.
    fn starts(&self) -> usize {
        let starts = self.folder.path().join("plugin.sh.starts");
        std::fs::read_to_string(starts).unwrap_or_default().lines().count()
    }
}

async fn is_refused(client: &mut Client, kind: u16, second: u64, why: &str) {
    let (is_accepted, said) = client.publish(&event(1, kind, second, &[])).await;
    assert!(!is_accepted && said.starts_with(why), "{said:?} is not {why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_accepts_refuses_and_refuses_in_secret() {
    let script = Script::new(BY_KIND);
    let app = App::start(script.settings(WhenBroken::Refuse)).await;
    let mut client = app.client().await;
    client.store(&event(1, 1, 1, &[])).await;
    is_refused(&mut client, 7, 2, "blocked: no reactions").await;
    is_refused(&mut client, 11, 3, "blocked: ").await;
    client.store(&event(1, 8, 4, &[])).await;
    assert_eq!(client.count(json!({})).await, 1, "what was accepted, and not what the client believes to be");
    assert_eq!(app.information().await["limitation"]["restricted_writes"], true);
    assert_eq!(script.starts(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_events_are_with_the_plugin_at_one_time_and_answers_come_in_any_order() {
    let script = Script::new(BACKWARDS);
    let app = App::start(script.settings(WhenBroken::Refuse)).await;
    let mut client = app.client().await;
    let events = [1, 2, 3, 4, 5, 6].map(|second| event(1, 1, second, &[]));
    for event in &events {
        client.say(json!(["EVENT", crate::app::wire(event)])).await;
    }
    let mut accepted = Vec::new();
    for _ in &events {
        let answer = client.hear().await;
        assert_eq!((&answer[0], &answer[2]), (&json!("OK"), &json!(true)), "{answer}");
        accepted.push(answer[1].as_str().unwrap().to_owned());
    }
    let order = [2, 1, 0, 5, 4, 3].map(|index: usize| events[index].id.to_string());
    assert_eq!(accepted, order);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_event_without_an_answer_is_refused_in_time_and_others_are_not_held_up() {
    let script = Script::new(BY_KIND);
    let app = App::start(script.settings(WhenBroken::Refuse)).await;
    let (mut client, mut other) = (app.client().await, app.client().await);
    let unanswered = event(1, 9, 1, &[]);
    let start = Instant::now();
    client.say(json!(["EVENT", crate::app::wire(&unanswered)])).await;
    let mut accepted = 0;
    let answer = loop {
        tokio::select! {
            answer = client.hear() => break answer,
            () = async {
                other.store(&event(2, 1, accepted, &[])).await;
                // The pause sets the rate; it waits for no condition.
                tokio::time::sleep(Duration::from_millis(20)).await;
            } => accepted += 1,
        }
    };
    assert!(start.elapsed() >= Duration::from_secs(2) && accepted > 5, "{accepted}");
    assert!(answer[3].as_str().unwrap().starts_with("error: "), "{answer}");
    assert_eq!(script.starts(), 1, "it answers others: it is not started again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_ends_is_started_again_and_what_it_had_is_refused() {
    let script = Script::new(BY_KIND);
    let app = App::start(script.settings(WhenBroken::Refuse)).await;
    let mut client = app.client().await;
    client.store(&event(1, 1, 0, &[])).await;
    is_refused(&mut client, 10, 1, "error: ").await;
    is_refused(&mut client, 1, 2, "error: ").await;
    for second in 3.. {
        if client.publish(&event(1, 1, second, &[])).await.0 {
            break;
        }
        assert!(second < 1000, "it is not started again");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(script.starts(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_plugin_that_works_events_are_treated_as_the_operator_says() {
    for text in ["sleep 1000", "exit 1", "cat", "yes nonsense", "cat /dev/zero"] {
        let script = Script::new(text);
        let refusing = App::start(script.settings(WhenBroken::Refuse)).await;
        is_refused(&mut refusing.client().await, 1, 1, "error: ").await;
        assert_eq!(refusing.events.live_events(), 0, "{text}");
        let accepting = App::start(script.settings(WhenBroken::Accept)).await;
        accepting.client().await.store(&event(1, 1, 1, &[])).await;
        assert_eq!(accepting.events.live_events(), 1, "{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_is_not_asked_about_what_is_refused_anyway() {
    let script = Script::new("while read -r line; do echo asked >> \"$0.starts\"; done");
    let app = App::start(script.settings(WhenBroken::Refuse)).await;
    let mut client = app.client().await;
    let mut forged = crate::app::wire(&event(1, 1, 1, &[]));
    forged["content"] = json!("something else");
    client.say(json!(["EVENT", forged])).await;
    assert!(client.hear().await[3].as_str().unwrap().starts_with("invalid: "));
    assert_eq!(script.starts(), 0);
}
