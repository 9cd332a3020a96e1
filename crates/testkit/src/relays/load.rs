//! A file of events goes into a relay, and what that costs.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_regtest::child_guard::{ChildGuard, Launch};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use super::Running;
use crate::error::{Error, Result, at};
use crate::pipe;
use crate::usage::Usage;

const POLL: Duration = Duration::from_millis(10);
/// Events under way to a relay that are not answered yet.
const WINDOW: u64 = 500;

/// What it cost to take events in.
#[derive(Debug, Clone, Copy)]
pub struct Loaded {
    /// From the start of the program that does it, or from the first event that was sent.
    pub wall: Duration,
    /// Its processor time and memory.
    pub usage: Usage,
    /// Events that it took, where it says so.
    pub taken: Option<u64>,
}

/// A program that ends when all is done.
pub(super) fn by_program(launch: Launch) -> Result<Loaded> {
    let started = Instant::now();
    let (mut child, mut usage) = (ChildGuard::spawn(launch)?, Usage::default());
    loop {
        // Looked at before it is reaped.
        if let Ok(now) = Usage::of(child.pid()) {
            let resident_bytes_max = usage.resident_bytes_max.max(now.resident_bytes_max);
            usage = Usage { resident_bytes_max, ..now };
        }
        match child.exited()? {
            Some(status) if status.success() => return Ok(Loaded { wall: started.elapsed(), usage, taken: None }),
            Some(status) => return Err(child.launch().failed(format!("took not all events in ({status})")).into()),
            None => thread::sleep(POLL),
        }
    }
}

/// The events are published over one connection, in their order, some hundred under way; then the relay is stopped.
pub(super) fn by_socket(relay: Running, events: &Path) -> Result<Loaded> {
    let mut socket = pipe::ws(pipe::tcp(relay.port())?)?;
    let started = Instant::now();
    let (mut taken, mut under_way) = (0, 0);
    for event in BufReader::new(File::open(events).map_err(at(events))?).lines() {
        let message = Message::text(format!("[\"EVENT\",{}]", event.map_err(at(events))?));
        socket.write(message).map_err(relay_error)?;
        under_way += 1;
        if under_way == WINDOW {
            taken += u64::from(answer(&mut socket)?);
            under_way -= 1;
        }
    }
    for _ in 0..under_way {
        taken += u64::from(answer(&mut socket)?);
    }
    let loaded = Loaded { wall: started.elapsed(), usage: Usage::of(relay.pid())?, taken: Some(taken) };
    relay.stop()?;
    Ok(loaded)
}

fn relay_error(error: impl std::fmt::Display) -> Error {
    Error::Relay(error.to_string())
}

/// The next answer to an event: whether it was taken.
fn answer(socket: &mut WebSocket<TcpStream>) -> Result<bool> {
    socket.flush().map_err(relay_error)?;
    loop {
        match socket.read().map_err(relay_error)? {
            Message::Text(text) if text.starts_with("[\"OK\"") => return Ok(text.contains(",true")),
            Message::Text(text) if text.starts_with("[\"NOTICE\"") => return Err(Error::Relay(text.to_string())),
            _ => {}
        }
    }
}
