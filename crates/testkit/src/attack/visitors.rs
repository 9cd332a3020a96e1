//! Ordinary clients beside an attack: they ask one thing after the other, look whether the answers are right, and note
//! how long each took.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use super::Target;
use crate::asked::Asked;
use crate::client::Client;
use crate::error::{Error, Result};

/// A wallet is not a load test: it rests between its questions.
const REST: Duration = Duration::from_millis(5);

/// Some visitors, each with a connection of its own.
#[derive(Debug)]
pub struct Visitors {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Vec<Duration>>>>,
}

/// How long answers took, the quickest first.
#[derive(Debug, Clone)]
pub struct Served(Vec<Duration>);

impl Visitors {
    /// So many, each from an address of its own. They ask what is `asked` again and again.
    pub fn start(count: u8, target: Target, asked: &Arc<Vec<Asked>>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let visit = |number: u8| {
            let (stop, asked) = (Arc::clone(&stop), Arc::clone(asked));
            thread::spawn(move || visit(target, Ipv4Addr::new(192, 0, 2, number), &asked, &stop))
        };
        let threads = (0..count).map(visit).collect();
        Self { stop, threads }
    }

    /// Ends the visit. An error when an answer was wrong, or none came.
    pub fn stop(self) -> Result<Served> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for thread in self.threads {
            all.extend(thread.join().map_err(|_| Error::Protocol("a visitor panicked".into()))??);
        }
        all.sort_unstable();
        if all.is_empty() { Err(Error::Protocol("no visitor was answered".into())) } else { Ok(Served(all)) }
    }
}

impl Served {
    /// How many answers there were.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Each answer's time.
    pub fn latencies(&self) -> &[Duration] {
        &self.0
    }

    /// So many per mille of the answers took no longer.
    pub fn per_mille(&self, rank: usize) -> Duration {
        self.0[(self.0.len() * rank / 1000).min(self.0.len() - 1)]
    }
}

fn visit(target: Target, address: Ipv4Addr, asked: &[Asked], stop: &AtomicBool) -> Result<Vec<Duration>> {
    let mut client = Client::over(target.connect(address)?)?;
    client.call("server.version", json!(["visitor", ["1.4", "1.6"]]))?;
    let mut latencies = Vec::new();
    for question in asked.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let start = Instant::now();
        question.ask(&mut client)?;
        latencies.push(start.elapsed());
        thread::sleep(REST);
    }
    Ok(latencies)
}
