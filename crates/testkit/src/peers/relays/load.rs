//! Loading of events into a relay, with its cost.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use birdhouse_regtest::child_guard::{ChildGuard, Launch};
use tokio_tungstenite::tungstenite::{Message, WebSocket};

use super::running::Running;
use crate::clients::pipe;
use crate::error::{Error, Result, at};
use crate::measure::usage::Usage;

const POLL: Duration = Duration::from_millis(10);
/// Most events sent to a relay and not answered yet.
const WINDOW: u64 = 500;

/// Cost of loading events.
#[derive(Debug, Clone, Copy)]
pub struct Loaded {
    /// Time from the start of the importing program, or from the first event sent.
    pub wall: Duration,
    /// CPU time and memory of the process.
    pub usage: Usage,
    /// Number of events accepted, where the relay reports it.
    pub taken: Option<u64>,
}

/// Runs a program that loads all events and ends.
pub(super) fn by_program(launch: Launch) -> Result<Loaded> {
    let started = Instant::now();
    let (mut child, mut usage) = (ChildGuard::spawn(launch)?, Usage::default());
    loop {
        // Usage is read before the process is waited for: afterwards it is unknown.
        if let Ok(now) = Usage::of(child.pid()) {
            let resident_bytes_max = usage.resident_bytes_max.max(now.resident_bytes_max);
            usage = Usage { resident_bytes_max, ..now };
        }
        match child.exited()? {
            Some(status) if status.success() => return Ok(Loaded { wall: started.elapsed(), usage, taken: None }),
            Some(status) => return Err(child.launch().failed(format!("did not load all events ({status})")).into()),
            None => thread::sleep(POLL),
        }
    }
}

/// Publishes the events over one connection in their order, up to 500 unanswered at a time, then stops the relay.
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

/// Reads the next answer to an event; returns true when the relay accepted it.
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
