//! A receiver of webhooks that can be killed: its listener and its connections go at once, in the middle of a request
//! or after it was noted and before it was answered.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use birdhouse_testkit::webhook::{self, Delivery};
use serde_json::Value;

const POLL: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(5);

/// A request that was noted: its id, and its body.
pub(crate) type Noted = (String, Value);

/// A receiver, running or not.
pub(crate) struct Receiver {
    pub(crate) addr: SocketAddr,
    noted: Arc<Mutex<Vec<Noted>>>,
    running: Option<Running>,
}

struct Running {
    is_killed: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Receiver {
    pub(crate) fn start(addr: SocketAddr) -> Self {
        let mut receiver = Self { addr, noted: Arc::default(), running: None };
        receiver.restart();
        receiver
    }

    pub(crate) fn restart(&mut self) {
        if self.running.is_some() {
            return;
        }
        let listener = TcpListener::bind(self.addr).unwrap();
        listener.set_nonblocking(true).unwrap();
        let is_killed = Arc::new(AtomicBool::new(false));
        let (killed, noted) = (Arc::clone(&is_killed), Arc::clone(&self.noted));
        let thread = spawn(move || {
            while !killed.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((socket, _)) => drop(answer(socket, &noted, &killed)),
                    Err(_) => sleep(POLL),
                }
            }
        });
        self.running = Some(Running { is_killed, thread });
    }

    /// Kills it. What it has noted stays.
    pub(crate) fn kill(&mut self) {
        if let Some(Running { is_killed, thread }) = self.running.take() {
            is_killed.store(true, Ordering::Relaxed);
            thread.join().unwrap();
        }
    }

    /// Takes what was noted since the last call.
    pub(crate) fn take(&self) -> Vec<Noted> {
        std::mem::take(&mut *self.noted.lock().unwrap())
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Notes a request and answers it; returns nothing where the connection, or the receiver, ends before.
fn answer(mut socket: TcpStream, noted: &Mutex<Vec<Noted>>, killed: &AtomicBool) -> Option<()> {
    socket.set_nonblocking(false).ok()?;
    socket.set_read_timeout(Some(PATIENCE)).ok()?;
    let Delivery { id, body } = webhook::read(&mut socket)?;
    noted.lock().unwrap().push((id, body));
    if killed.load(Ordering::Relaxed) { None } else { webhook::accept(&mut socket) }
}
