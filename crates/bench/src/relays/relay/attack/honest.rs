//! Honest clients during an attack: each publishes notes and asks for them, one message after the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use birdhouse_events::VerifiedEvent;
use birdhouse_testkit::priority;
use serde_json::{Value, json};

use super::super::relay_at::RelayAt;
use super::super::socket::{Socket, frame};
use super::kind::{keys, note};
use crate::report::durations::Durations;

/// Pause between two messages: a client is no load generator, and its events have a rate.
const REST: Duration = Duration::from_millis(10);

/// The honest clients, each a thread.
pub(super) struct HonestClients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Vec<Duration>>>>,
}

// === impl HonestClients ===

impl HonestClients {
    /// Starts clients, each with an address of its own, which have enough to publish for `time`. `round` makes their
    /// notes new.
    pub(super) fn start(relay: &RelayAt, clients: u8, time: Duration, round: u64) -> Result<Self> {
        let stop = Arc::<AtomicBool>::default();
        let mut threads = Vec::new();
        // Two messages a note. They are signed before the clock starts.
        let count = u64::try_from(time.as_millis() / (REST * 2).as_millis())?;
        for number in 0..clients {
            let (relay, stop, keys) = (relay.clone(), Arc::clone(&stop), keys(100 + number)?);
            let content = || "an honest note".to_owned();
            let notes = (0..count).map(|at| note(&keys, 1, round * count + at, Vec::new(), content())).collect();
            threads.push(thread::spawn(move || {
                priority::run_at_once();
                run(&relay, number, notes, &stop)
            }));
        }
        Ok(Self { stop, threads })
    }

    /// Ends the clients; returns their latencies.
    pub(super) fn stop(self, latencies: &mut Durations) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            let all = thread.join().map_err(|_| anyhow!("an honest client panicked"))??;
            ensure!(!all.is_empty(), "an honest client got no answer");
            latencies.add_all(&all);
        }
        Ok(())
    }
}

fn run(relay: &RelayAt, number: u8, notes: Vec<VerifiedEvent>, stop: &AtomicBool) -> Result<Vec<Duration>> {
    let mut socket = Socket::connect_from(relay, &format!("192.0.2.{number}"))?;
    let mut latencies = Vec::new();
    for note in notes {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let publish = frame(&format!("[\"EVENT\",{}]", note.to_json()));
        let answer = timed(&mut latencies, || {
            socket.send(&publish)?;
            until(&mut socket, "OK")
        })?;
        ensure!(answer[2] == true, "an honest note was refused: {answer}");
        let ask = frame(&json!(["REQ", "a", { "authors": [note.pubkey.to_string()], "limit": 20 }]).to_string());
        timed(&mut latencies, || {
            socket.send(&ask)?;
            until(&mut socket, "EOSE")
        })?;
    }
    Ok(latencies)
}

fn timed<T>(latencies: &mut Vec<Duration>, ask: impl FnOnce() -> Result<T>) -> Result<T> {
    thread::sleep(REST);
    let start = Instant::now();
    let answer = ask()?;
    latencies.push(start.elapsed());
    Ok(answer)
}

/// Returns the next message of this verb.
fn until(socket: &mut Socket, verb: &str) -> Result<Value> {
    loop {
        let message: Value = serde_json::from_slice(socket.receive()?).context("a message is JSON")?;
        ensure!(message[0] != "CLOSED", "an honest query was refused: {message}");
        if message[0] == verb {
            return Ok(message);
        }
    }
}
