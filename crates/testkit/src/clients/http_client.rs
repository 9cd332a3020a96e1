//! A client of HTTP/1.1 over any connected socket: kept alive, one request at a time, answers with a length only.
//!
//! It does little, so that a measurement covers the server and the socket.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::error::{Error, Result};

/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_mins(2);
const BUFFER_BYTES: usize = 256 << 10;
const LENGTH: &str = "content-length:";

/// A connection to a server.
#[derive(Debug)]
pub struct HttpClient {
    reader: BufReader<TcpStream>,
    /// Body of the last answer.
    body: Vec<u8>,
    line: String,
    /// Number of bytes of answers so far.
    received: u64,
}

/// Returns a GET request of this path that asks for no compression.
pub fn get(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: birdhouse-testkit\r\nAccept: */*\r\n\r\n")
        .into_bytes()
}

/// Returns the path of a script hash, which REST writes in plain byte order and the Electrum protocol reversed.
pub fn rest_path(electrum: &str) -> String {
    let bytes = electrum.as_bytes().chunks(2).rev().flatten().map(|byte| char::from(*byte));
    format!("/scripthash/{}", bytes.collect::<String>())
}

impl HttpClient {
    /// Connects to `HOST:PORT`.
    pub fn connect(addr: &str) -> Result<Self> {
        Self::over(TcpStream::connect(addr)?)
    }

    /// Makes a client of a connected socket.
    pub fn over(stream: TcpStream) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let reader = BufReader::with_capacity(BUFFER_BYTES, stream);
        Ok(Self { reader, body: Vec::new(), line: String::new(), received: 0 })
    }

    /// Sends a request; returns the status and the body of the answer.
    pub fn ask(&mut self, request: &[u8]) -> Result<(u16, &[u8])> {
        self.reader.get_mut().write_all(request)?;
        let status = self.head_line()?.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| protocol("an answer without a status"))?;
        let mut length = None;
        loop {
            let line = self.head_line()?;
            if line.is_empty() {
                break;
            }
            if line.get(..LENGTH.len()).is_some_and(|name| name.eq_ignore_ascii_case(LENGTH)) {
                length = line[LENGTH.len()..].trim().parse().ok();
            }
        }
        self.body.resize(length.ok_or_else(|| protocol("an answer without a length"))?, 0);
        self.reader.read_exact(&mut self.body)?;
        self.received += self.body.len() as u64;
        Ok((status, &self.body))
    }

    /// Sends a request that must succeed; returns the body of the answer.
    ///
    /// # Errors
    /// [`Error::Protocol`] with the status and the text of a refusal.
    pub fn body(&mut self, request: &[u8]) -> Result<&[u8]> {
        let (status, body) = self.ask(request)?;
        if status == 200 {
            return Ok(body);
        }
        Err(protocol(format!("refused with status {status}: {:.200}", String::from_utf8_lossy(body))))
    }

    /// Returns the JSON at a path.
    pub fn json(&mut self, path: &str) -> Result<Value> {
        let body = self.body(&get(path))?;
        serde_json::from_slice(body).map_err(|error| protocol(format!("the answer of {path} is no JSON: {error}")))
    }

    /// Returns the text at a path.
    pub fn text(&mut self, path: &str) -> Result<String> {
        Ok(String::from_utf8_lossy(self.body(&get(path))?).into_owned())
    }

    /// Returns the number of bytes of answers so far, without their heads.
    pub fn received(&self) -> u64 {
        self.received
    }

    fn head_line(&mut self) -> Result<&str> {
        self.line.clear();
        self.reader.read_line(&mut self.line)?;
        if self.line.ends_with('\n') { Ok(self.line.trim_end()) } else { Err(protocol("a closed connection")) }
    }
}

fn protocol(what: impl Into<String>) -> Error {
    Error::Protocol(what.into())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    #[test]
    fn script_hashes_are_reversed_byte_by_byte() {
        assert_eq!(rest_path("0123ab"), "/scripthash/ab2301");
    }

    #[test]
    fn answers_are_cut_by_their_length_whatever_the_case_of_its_name() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let addr = listener.local_addr().expect("it is bound").to_string();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("somebody connects");
            let answers = [
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
                "HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\nnone",
            ];
            stream.write_all(answers.concat().as_bytes()).expect("the client reads");
            stream
        });
        let mut http = HttpClient::connect(&addr).expect("the server listens");
        assert_eq!(http.body(&get("/a")).expect("an answer"), b"abc");
        assert_eq!(http.received(), 3);
        let error = http.body(&get("/b")).expect_err("a refusal");
        assert!(error.to_string().ends_with("refused with status 404: none"), "{error}");
        server.join().expect("the server ended");
    }
}
