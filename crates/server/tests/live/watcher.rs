//! A client that is subscribed to scripts and records its notifications.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use birdhouse_testkit::asked::Scripts;
use birdhouse_testkit::client::{Client, scripthash};
use birdhouse_testkit::peers::Peer;
use bitcoin::ScriptBuf;
use bitcoin::hashes::{Hash as _, sha256};
use serde_json::{Value, json};

const BATCH: usize = 500;
/// Notifications that wait to be taken: more than any test leaves.
const WAITING_MAX: usize = 100_000;
const SUBSCRIBE: &str = "blockchain.scripthash.subscribe";

/// A subscribed client and its record.
pub(crate) struct Watcher {
    /// A connection for notifications alone, so that they are stamped on arrival, whatever else is requested.
    notifications: Receiver<Notification>,
    asking: Client,
    /// The last notified status, by script hash.
    pub(crate) statuses: BTreeMap<String, Value>,
}

/// One notification.
#[derive(Debug, Clone)]
pub(crate) struct Notification {
    pub(crate) scripthash: String,
    pub(crate) status: Value,
    pub(crate) at: Instant,
}

impl Watcher {
    /// Subscribes to every script.
    pub(crate) fn new<'a>(server: &Peer, scripts: impl IntoIterator<Item = &'a ScriptBuf>) -> Self {
        let hashes: Vec<String> = scripts.into_iter().map(|script| scripthash(script.as_bytes())).collect();
        let mut client = server.client().unwrap();
        let mut statuses = BTreeMap::new();
        for some in hashes.chunks(BATCH) {
            let requests: Vec<_> = some.iter().map(|hash| (SUBSCRIBE, json!([hash]))).collect();
            let answers = client.batch(&requests).unwrap().into_iter().map(Result::unwrap);
            statuses.extend(some.iter().cloned().zip(answers));
        }
        let (sender, notifications) = sync_channel(WAITING_MAX);
        // Ends when the server stops, or with the first notification after the receiver is dropped.
        std::thread::spawn(move || {
            while let Ok(notification) = client.notification(Duration::from_secs(1)) {
                let Some(notification) = notification else { continue };
                assert_eq!(notification.method, SUBSCRIBE);
                let scripthash = notification.params[0].as_str().unwrap().to_owned();
                let notification =
                    Notification { scripthash, status: notification.params[1].clone(), at: Instant::now() };
                if sender.send(notification).is_err() {
                    return;
                }
            }
        });
        Self { notifications, asking: server.client().unwrap(), statuses }
    }

    /// Returns the next notification about a script, if it comes within `patience`.
    pub(crate) fn next(&mut self, patience: Duration) -> Option<Notification> {
        let next = self.notifications.recv_timeout(patience).ok()?;
        let known = self.statuses.insert(next.scripthash.clone(), next.status.clone());
        assert!(known.is_some(), "nobody subscribed to {}", next.scripthash);
        assert_ne!(known.as_ref(), Some(&next.status), "{}: the same status again", next.scripthash);
        Some(next)
    }

    /// Returns the status of the history that can be fetched now.
    pub(crate) fn fetched_status(&mut self, scripthash: &str) -> Value {
        let history = self.asking.call("blockchain.scripthash.get_history", json!([scripthash])).unwrap();
        status_of(&history)
    }

    /// Returns the right status of every subscribed script.
    pub(crate) fn right(&self, scripts: &Scripts) -> BTreeMap<String, Value> {
        let statuses = scripts.iter().map(|(script, facts)| (scripthash(script.as_bytes()), facts.status()));
        let mut right: BTreeMap<String, Value> =
            statuses.filter(|(hash, _)| self.statuses.contains_key(hash)).collect();
        for unused in self.statuses.keys() {
            right.entry(unused.clone()).or_insert(Value::Null);
        }
        right
    }

    /// Returns the entries of `right` that the client lacks.
    pub(crate) fn stale(&self, right: &BTreeMap<String, Value>) -> Vec<String> {
        let stale = right.iter().filter(|(hash, status)| self.statuses[*hash] != **status);
        stale.map(|(hash, _)| hash.clone()).collect()
    }
}

/// Returns the protocol's status hash of a fetched history.
fn status_of(history: &Value) -> Value {
    let entries = history.as_array().unwrap();
    if entries.is_empty() {
        return Value::Null;
    }
    let entry = |entry: &Value| format!("{}:{}:", entry["tx_hash"].as_str().unwrap(), entry["height"]);
    let text: String = entries.iter().map(entry).collect();
    sha256::Hash::hash(text.as_bytes()).to_string().into()
}
