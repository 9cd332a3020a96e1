//! A minimal blocking client of the Electrum protocol, for tests: one TCP connection, one message a line.
//!
//! It checks the framing: ids match, and the answer to a batch is one array. Notifications that arrive between answers
//! are queued.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

pub use birdhouse_regtest::script::scripthash;
use serde_json::{Value, json};

use crate::error::{Error, Result};

/// The time that an answer may take; the slowest of any server in the tests took 15 s.
const PATIENCE: Duration = Duration::from_mins(2);

/// A connection to a server.
#[derive(Debug)]
pub struct Client {
    reader: BufReader<TcpStream>,
    /// The beginning of a line whose end has not arrived.
    partial: Vec<u8>,
    next_id: u64,
    notifications: VecDeque<Notification>,
}

/// A notification of the server.
#[derive(Debug, Clone, PartialEq)]
pub struct Notification {
    /// The method, for example `blockchain.headers.subscribe`.
    pub method: String,
    /// The parameters as sent.
    pub params: Value,
}

impl Client {
    /// Connects to a loopback port.
    pub fn connect(port: u16) -> Result<Self> {
        Self::over(TcpStream::connect(("127.0.0.1", port))?)
    }

    /// Uses a connection on which no message of the protocol was sent yet.
    pub fn over(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self { reader: BufReader::new(stream), partial: Vec::new(), next_id: 0, notifications: VecDeque::new() })
    }

    /// Connects and negotiates a version from 1.4 to 1.6.
    pub fn greet(port: u16) -> Result<Self> {
        Self::greet_with(port, "1.6")
    }

    /// Connects and negotiates a version from 1.4 to `newest`.
    pub fn greet_with(port: u16, newest: &str) -> Result<Self> {
        let mut client = Self::connect(port)?;
        client.call("server.version", json!(["birdhouse-testkit", ["1.4", newest]]))?;
        Ok(client)
    }

    /// Sends one request and returns its result; `params` is an array or an object.
    #[expect(clippy::needless_pass_by_value, reason = "call sites pass json!([..])")]
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        let request = self.request(method, &params);
        self.send_line(request.to_string().as_bytes())?;
        let answer = self.answer()?;
        expect_id(&answer, &request["id"])?;
        outcome(answer).map_err(|error| Error::Electrum { method: method.into(), error })
    }

    /// Sends several requests in one array; returns results and error objects in the order of the requests.
    pub fn batch(&mut self, requests: &[(&str, Value)]) -> Result<Vec<std::result::Result<Value, Value>>> {
        let first = self.next_id;
        let lines: Vec<Value> = requests.iter().map(|(method, params)| self.request(method, params)).collect();
        self.send_line(Value::Array(lines).to_string().as_bytes())?;
        let Value::Array(answers) = self.answer()? else {
            return Err(Error::Protocol("a batch was not answered by an array".into()));
        };
        let mut ordered = vec![None; requests.len()];
        for answer in answers {
            let index = answer["id"].as_u64().and_then(|id| usize::try_from(id.checked_sub(first)?).ok());
            let Some(slot) = index.and_then(|index| ordered.get_mut(index)) else {
                return Err(unasked(&answer));
            };
            *slot = Some(outcome(answer));
        }
        let all: Option<Vec<_>> = ordered.into_iter().collect();
        all.ok_or_else(|| Error::Protocol("a batch was answered in part".into()))
    }

    /// Waits up to `patience` for the next notification; returns `None` when there is none.
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

    /// Sends bytes as they are and a newline, for malformed requests.
    pub fn send_line(&mut self, line: &[u8]) -> Result<()> {
        let mut message = line.to_vec();
        message.push(b'\n');
        Ok(self.reader.get_mut().write_all(&message)?)
    }

    /// Returns the next message that is not a notification.
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

    /// Returns true when the server has closed the connection, or closes it within `patience`.
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

    /// Returns the next line, or `None` when no whole line arrives within `patience`.
    fn line(&mut self, patience: Duration) -> Result<Option<Value>> {
        // A socket takes a timeout of zero as no timeout.
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
    Error::Protocol(format!("unexpected answer: {:.200}", answer.to_string()))
}
