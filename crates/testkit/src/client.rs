//! A minimal blocking client of the Electrum protocol, for tests: one TCP connection, one line a message.
//!
//! It checks what it can about the framing: ids match, a batch is answered by one array. Notifications that
//! arrive between answers are queued.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub use birdhouse_regtest::script::scripthash;
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// The slowest answer of any peer that we waited for took 15 s.
const PATIENCE: Duration = Duration::from_mins(2);

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<TcpStream>,
    /// A line of which only the beginning has arrived.
    partial: Vec<u8>,
    next_id: u64,
    notifications: VecDeque<Notification>,
}

/// What a server says unasked.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// For example `blockchain.headers.subscribe`.
    pub method: String,
    /// As sent.
    pub params: Value,
}

impl Client {
    /// Connects to a loopback port.
    pub fn connect(port: u16) -> Result<Self> {
        Self::over(TcpStream::connect(("127.0.0.1", port))?)
    }

    /// Uses a connection on which nothing of the protocol was said yet.
    pub fn over(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { reader: BufReader::new(stream), partial: Vec::new(), next_id: 0, notifications: VecDeque::new() })
    }

    /// Connects, and introduces itself with protocol 1.4 to 1.6.
    pub fn greet(port: u16) -> Result<Self> {
        Self::greet_with(port, "1.6")
    }

    /// Connects, and introduces itself with protocol 1.4 to `newest`.
    pub fn greet_with(port: u16, newest: &str) -> Result<Self> {
        let mut client = Self::connect(port)?;
        client.call("server.version", json!(["birdhouse-testkit", ["1.4", newest]]))?;
        Ok(client)
    }

    /// One request, and its answer. `params` is an array or an object.
    #[expect(clippy::needless_pass_by_value, reason = "call sites pass json!([..])")]
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        let request = self.request(method, &params);
        self.send_line(request.to_string().as_bytes())?;
        let answer = self.answer()?;
        expect_id(&answer, &request["id"])?;
        outcome(answer).map_err(|error| Error::Electrum { method: method.into(), error })
    }

    /// Several requests in one array. The answers come back in the order of the requests, errors as their objects.
    pub fn batch(&mut self, requests: &[(&str, Value)]) -> Result<Vec<std::result::Result<Value, Value>>> {
        let first = self.next_id;
        let lines: Vec<Value> = requests.iter().map(|(method, params)| self.request(method, params)).collect();
        self.send_line(Value::Array(lines).to_string().as_bytes())?;
        let Value::Array(answers) = self.answer()? else {
            return Err(Error::Protocol("a batch was not answered by an array".into()));
        };
        let mut ordered = vec![None; requests.len()];
        for answer in answers {
            let place = answer["id"].as_u64().and_then(|id| usize::try_from(id.checked_sub(first)?).ok());
            let Some(slot) = place.and_then(|place| ordered.get_mut(place)) else {
                return Err(unasked(&answer));
            };
            *slot = Some(outcome(answer));
        }
        let all: Option<Vec<_>> = ordered.into_iter().collect();
        all.ok_or_else(|| Error::Protocol("a batch was answered in part".into()))
    }

    /// The next notification, waited for up to `patience`; `None` when there is none.
    pub fn notification(&mut self, patience: Duration) -> Result<Option<Notification>> {
        if let Some(notification) = self.notifications.pop_front() {
            return Ok(Some(notification));
        }
        let Some(line) = self.line(patience)? else { return Ok(None) };
        match notification(&line) {
            Some(notification) => Ok(Some(notification)),
            None => Err(unasked(&line)),
        }
    }

    /// Sends bytes as they are, and a newline: for malformed requests.
    pub fn send_line(&mut self, line: &[u8]) -> Result<()> {
        let mut message = line.to_vec();
        message.push(b'\n');
        Ok(self.reader.get_mut().write_all(&message)?)
    }

    /// The next message that is not a notification.
    pub fn answer(&mut self) -> Result<Value> {
        loop {
            let Some(line) = self.line(PATIENCE)? else {
                return Err(Error::Protocol(format!("no answer within {} s", PATIENCE.as_secs())));
            };
            match notification(&line) {
                Some(notification) => self.notifications.push_back(notification),
                None => return Ok(line),
            }
        }
    }

    /// Whether the server has closed the connection, or does so within `patience`.
    pub fn closed_within(&mut self, patience: Duration) -> bool {
        let start = Instant::now();
        while start.elapsed() < patience {
            match self.line(patience.saturating_sub(start.elapsed())) {
                Ok(Some(_)) => {}
                Ok(None) => return false,
                Err(_) => return true,
            }
        }
        false
    }

    fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.next_id;
        self.next_id += 1;
        json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
    }

    /// `None`: nothing, or only a part of a line, within `patience`.
    fn line(&mut self, patience: Duration) -> Result<Option<Value>> {
        // A timeout of zero means none to the socket.
        self.reader.get_ref().set_read_timeout(Some(patience.max(Duration::from_millis(1))))?;
        match self.reader.read_until(b'\n', &mut self.partial) {
            Ok(_) if self.partial.last() == Some(&b'\n') => {}
            Ok(_) => return Err(Error::Protocol("the server closed the connection".into())),
            Err(error) if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        }
        let line = std::mem::take(&mut self.partial);
        let text = || String::from_utf8_lossy(&line).into_owned();
        serde_json::from_slice(&line)
            .map(Some)
            .map_err(|error| Error::Protocol(format!("not JSON ({error}): {:.200}", text())))
    }
}

fn outcome(mut answer: Value) -> std::result::Result<Value, Value> {
    match answer.get("error") {
        None | Some(Value::Null) => Ok(answer["result"].take()),
        Some(error) => Err(error.clone()),
    }
}

fn notification(message: &Value) -> Option<Notification> {
    let method = message.get("method")?.as_str()?.to_owned();
    Some(Notification { method, params: message.get("params").cloned().unwrap_or_default() })
}

fn expect_id(answer: &Value, id: &Value) -> Result<()> {
    if answer.get("id") == Some(id) { Ok(()) } else { Err(unasked(answer)) }
}

fn unasked(answer: &Value) -> Error {
    Error::Protocol(format!("an answer that nobody asked for: {:.200}", answer.to_string()))
}
