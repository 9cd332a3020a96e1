//! A client of HTTP that sends exactly what a test wants.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use birdhouse_blossom::BlobHash;
use serde_json::Value;

use crate::running::{authorization, hash_of};

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(crate) fn reason(&self) -> &str {
        self.header("x-reason").unwrap_or_default()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// One connection.
pub(crate) struct Client {
    socket: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(addr: SocketAddr) -> Self {
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
        Self { socket: BufReader::new(socket) }
    }

    /// Sends each piece in a segment of its own.
    pub(crate) fn without_delay(&self) {
        self.socket.get_ref().set_nodelay(true).unwrap();
    }

    /// Sends the head of a request. Without `Content-Length` among the headers it has no body.
    pub(crate) fn send_head(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: media.example.org\r\n");
        for (name, value) in headers {
            write!(head, "{name}: {value}\r\n").unwrap();
        }
        self.send(format!("{head}\r\n").as_bytes());
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.socket.get_mut().write_all(bytes).unwrap();
    }

    /// Sends bytes; false if the server has closed the connection.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.socket.get_mut().write_all(bytes).is_ok()
    }

    /// Reads an answer to a request with this method.
    pub(crate) fn answer(&mut self, method: &str) -> Answer {
        let status = self.line().split(' ').nth(1).unwrap().parse().unwrap();
        let mut headers = Vec::new();
        loop {
            let line = self.line();
            let Some((name, value)) = line.split_once(": ") else { break };
            headers.push((name.to_owned(), value.to_owned()));
        }
        let mut answer = Answer { status, headers, body: Vec::new() };
        if method == "HEAD" || matches!(status, 204 | 304) {
            return answer;
        }
        if answer.header("transfer-encoding") == Some("chunked") {
            loop {
                let bytes = usize::from_str_radix(&self.line(), 16).unwrap();
                let chunk = self.read(bytes + 2);
                answer.body.extend(&chunk[..bytes]);
                if bytes == 0 {
                    return answer;
                }
            }
        }
        let length = answer.header("content-length").unwrap().parse().unwrap();
        answer.body = self.read(length);
        answer
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        assert!(line.ends_with("\r\n"), "the connection has ended: {line:?}");
        line.trim_end().to_owned()
    }

    fn read(&mut self, bytes: usize) -> Vec<u8> {
        let mut read = vec![0; bytes];
        self.socket.read_exact(&mut read).unwrap();
        read
    }

    pub(crate) fn ask(&mut self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        self.send_head(method, path, headers);
        self.answer(method)
    }
}

/// Asks on a connection of its own.
pub(crate) fn ask(addr: SocketAddr, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    Client::connect(addr).ask(method, path, headers)
}

/// Sends a body with headers beside its length.
pub(crate) fn put(addr: SocketAddr, path: &str, body: &[u8], headers: &[(&str, &str)]) -> Answer {
    let length = body.len().to_string();
    let mut client = Client::connect(addr);
    client.send_head("PUT", path, &[&[("Content-Length", length.as_str())], headers].concat());
    client.try_send(body);
    client.answer("PUT")
}

/// Uploads a text by a key, as clients do.
pub(crate) fn upload(addr: SocketAddr, key: u8, body: &[u8]) -> Answer {
    upload_as(addr, key, body, "text/plain")
}

pub(crate) fn upload_as(addr: SocketAddr, key: u8, body: &[u8], media_type: &str) -> Answer {
    let hash = hash_of(body);
    let authorization = authorization(key, "upload", &[hash]);
    let hash = hash.to_string();
    put(addr, "/upload", body, &[("Authorization", &authorization), ("X-SHA-256", &hash), ("Content-Type", media_type)])
}

pub(crate) fn get(addr: SocketAddr, hash: BlobHash) -> Answer {
    ask(addr, "GET", &format!("/{hash}"), &[])
}
