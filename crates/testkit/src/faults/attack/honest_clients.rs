//! Ordinary clients during an attack: they send one request after the other, check the answers and record the
//! latencies.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::json;

use super::rest_asked::RestAsked;
use super::target::Target;
use crate::clients::client::Client;
use crate::clients::http_client::{HttpClient, get};
use crate::error::{Error, Result};
use crate::faults::asked::Asked;
use crate::faults::priority;

/// Pause between two requests: a wallet is no load generator.
const REST: Duration = Duration::from_millis(5);
/// The longest time without an answer about the server's health.
const PATIENCE: Duration = Duration::from_mins(1);
/// Message to an echo, with as many bytes as a request of a wallet.
const ECHO: [u8; 120] = [b'.'; 120];

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

    /// Starts `count` supervisors that ask for the server's health, each time over a connection of their own.
    pub(super) fn supervise(count: u8, target: Target) -> Self {
        Self::spawn(count, [127, 0, 0], move |address, stop| timed(&[()], stop, |()| is_healthy(target, address)))
    }

    /// Starts one client of a thread that sends back what it gets. Both run as soon as they are ready: they wait only
    /// for the kernel, and for the host of a virtual machine, as clients of any server do.
    ///
    /// # Errors
    /// There is no socket for it.
    pub fn of_an_echo() -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let client = Arc::new(TcpStream::connect(listener.local_addr()?)?);
        let (server, _) = listener.accept()?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        thread::spawn(move || {
            priority::run_at_once();
            send_back(&server)
        });
        Ok(Self::spawn(1, [127, 0, 0], move |_, stop| {
            let mut answer = [0; ECHO.len()];
            timed(&[ECHO], stop, |request| {
                (&*client).write_all(request)?;
                Ok((&*client).read_exact(&mut answer)?)
            })
        }))
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

/// Asks for the server's health until there is an answer: the listener closes a connection for a newer one.
fn is_healthy(target: Target, address: Ipv4Addr) -> Result<()> {
    let began = Instant::now();
    loop {
        let mut client = HttpClient::over(target.connect(address)?)?;
        match client.ask(&get("/health")) {
            Ok((200, _)) => return Ok(()),
            Ok((status, body)) => {
                let body = String::from_utf8_lossy(body);
                return Err(Error::Protocol(format!("/health: status {status}: {body}")));
            }
            Err(_) if began.elapsed() < PATIENCE => thread::sleep(REST),
            Err(error) => return Err(error),
        }
    }
}

/// Sends back what comes, until the other end is closed.
fn send_back(mut socket: &TcpStream) -> std::io::Result<()> {
    let mut bytes = [0; ECHO.len()];
    loop {
        let count = socket.read(&mut bytes)?;
        if count == 0 {
            return Ok(());
        }
        socket.write_all(&bytes[..count])?;
    }
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
