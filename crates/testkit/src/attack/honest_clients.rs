//! Ordinary clients during an attack: they send one request after the other, check the answers and record the
//! latencies.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use super::rest_asked::RestAsked;
use super::target::Target;
use crate::asked::Asked;
use crate::client::Client;
use crate::error::{Error, Result};
use crate::http_client::HttpClient;
use crate::priority;

/// Pause between two requests: a wallet is no load generator.
const REST: Duration = Duration::from_millis(5);

/// Honest clients, each with a connection of its own.
#[derive(Debug)]
pub struct HonestClients {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Vec<Duration>>>>,
}

/// Latencies of answers, shortest first.
#[derive(Debug, Clone)]
pub struct Latencies(Vec<Duration>);

impl HonestClients {
    /// Starts `count` clients, each from an address of its own, which send the requests of `asked` in a loop.
    pub fn start(count: u8, target: Target, asked: &Arc<Vec<Asked>>) -> Self {
        let asked = Arc::clone(asked);
        Self::spawn(count, [192, 0, 2], move |address, stop| run(target, address, &asked, stop))
    }

    /// Starts `count` clients of the REST API, each from an address of its own, which no wallet has.
    pub(super) fn visit(count: u8, target: Target, asked: &Arc<Vec<RestAsked>>) -> Self {
        let asked = Arc::clone(asked);
        Self::spawn(count, [198, 51, 100], move |address, stop| visit(target, address, &asked, stop))
    }

    fn spawn(
        count: u8,
        [a, b, c]: [u8; 3],
        client: impl Fn(Ipv4Addr, &AtomicBool) -> Result<Vec<Duration>> + Clone + Send + 'static,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let start = |number: u8| {
            let (stop, client) = (Arc::clone(&stop), client.clone());
            thread::spawn(move || {
                priority::run_at_once();
                client(Ipv4Addr::new(a, b, c, number), &stop)
            })
        };
        let threads = (0..count).map(start).collect();
        Self { stop, threads }
    }

    /// Ends the clients and returns their latencies.
    ///
    /// # Errors
    /// When an answer was wrong, or there was none.
    pub fn stop(self) -> Result<Latencies> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for thread in self.threads {
            all.extend(thread.join().map_err(|_| Error::Protocol("an honest client panicked".into()))??);
        }
        all.sort_unstable();
        if all.is_empty() { Err(Error::Protocol("no honest client got an answer".into())) } else { Ok(Latencies(all)) }
    }
}

impl Latencies {
    /// Returns the number of answers.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the latency of each answer, shortest first.
    pub fn latencies(&self) -> &[Duration] {
        &self.0
    }

    /// Returns the latency at this rank in thousandths: 500 is the median.
    pub fn per_mille(&self, rank: usize) -> Duration {
        self.0[(self.0.len() * rank / 1000).min(self.0.len() - 1)]
    }
}

fn run(target: Target, address: Ipv4Addr, asked: &[Asked], stop: &AtomicBool) -> Result<Vec<Duration>> {
    let mut client = Client::over(target.connect(address)?)?;
    client.call("server.version", json!(["birdhouse-testkit", ["1.4", "1.6"]]))?;
    timed(asked, stop, |request| request.ask(&mut client))
}

fn visit(target: Target, address: Ipv4Addr, asked: &[RestAsked], stop: &AtomicBool) -> Result<Vec<Duration>> {
    let mut client = HttpClient::over(target.connect(address)?)?;
    timed(asked, stop, |request| request.ask(&mut client))
}

/// Sends the requests in a loop until `stop` is set; returns the latencies.
fn timed<T>(asked: &[T], stop: &AtomicBool, mut ask: impl FnMut(&T) -> Result<()>) -> Result<Vec<Duration>> {
    let mut latencies = Vec::new();
    for request in asked.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let start = Instant::now();
        ask(request)?;
        latencies.push(start.elapsed());
        thread::sleep(REST);
    }
    Ok(latencies)
}
