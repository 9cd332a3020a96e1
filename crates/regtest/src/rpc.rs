//! Calls of Core's JSON-RPC and REST, one request at a time on each connection.
//!
//! Core's HTTP server stalls requests that are pipelined on one connection. A second request is therefore sent only
//! after the answer to the first; each thread has a connection of its own.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::error::{Error, Result, at};

/// A client of one node's RPC port, with the path of its cookie file.
#[derive(Debug, Clone)]
pub struct Rpc {
    agent: ureq::Agent,
    url: String,
    cookie: PathBuf,
}

impl Rpc {
    /// Makes a client for the port on 127.0.0.1; connects with the first call.
    pub fn new(port: u16, cookie: PathBuf) -> Self {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().new_agent();
        Self { agent, url: format!("http://127.0.0.1:{port}/"), cookie }
    }

    /// Calls a method and returns its result; `params` is an array or an object.
    ///
    /// # Errors
    /// [`Error::Rpc`] with the node's error, [`Error::Http`] when there is no readable answer.
    pub fn call(&self, method: &str, params: &Value) -> Result<Value> {
        let body = json!({ "jsonrpc": "1.0", "id": 0, "method": method, "params": params }).to_string();
        let text = self.post(&body)?;
        let mut reply: Value = serde_json::from_str(&text).map_err(|_| self.http(format!("not JSON: {text:.200}")))?;
        match &reply["error"] {
            Value::Null => Ok(reply["result"].take()),
            error => Err(Error::Rpc {
                method: method.into(),
                code: error["code"].as_i64().unwrap_or_default(),
                message: error["message"].as_str().unwrap_or_default().into(),
            }),
        }
    }

    /// Returns the body of `GET /rest/<path>`.
    pub fn rest(&self, path: &str) -> Result<Vec<u8>> {
        let url = format!("{}rest/{path}", self.url);
        let mut response = self.agent.get(&url).call().map_err(|error| self.http(error.to_string()))?;
        let status = response.status();
        let body = response
            .body_mut()
            .with_config()
            .limit(u64::MAX)
            .read_to_vec()
            .map_err(|error| self.http(error.to_string()))?;
        if status.is_success() {
            Ok(body)
        } else {
            Err(Error::Http { url, message: format!("{status}: {}", String::from_utf8_lossy(&body)) })
        }
    }

    fn post(&self, body: &str) -> Result<String> {
        // The node writes a new cookie at every start.
        let cookie = fs::read(&self.cookie).map_err(at(&self.cookie))?;
        let mut response = self
            .agent
            .post(&self.url)
            .header("Authorization", format!("Basic {}", base64(&cookie)))
            .header("Content-Type", "application/json")
            .send(body)
            .map_err(|error| self.http(error.to_string()))?;
        let status = response.status();
        let text = response
            .body_mut()
            .with_config()
            .limit(u64::MAX)
            .read_to_string()
            .map_err(|error| self.http(error.to_string()))?;
        if text.is_empty() {
            return Err(self.http(format!("{status} without a body")));
        }
        Ok(text)
    }

    fn http(&self, message: String) -> Error {
        Error::Http { url: self.url.clone(), message }
    }
}

/// Encodes bytes as base64 with padding ([RFC 4648](https://www.rfc-editor.org/rfc/rfc4648#section-4), section 4).
pub fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0; 3];
        group[..chunk.len()].copy_from_slice(chunk);
        let bits = group.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte));
        for position in 0..4 {
            let digit = bits >> (18 - 6 * position) & 63;
            text.push(if position > chunk.len() { '=' } else { char::from(ALPHABET[digit as usize]) });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::base64;

    #[test]
    fn base64_gives_the_vectors_of_rfc_4648() {
        let vectors = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")];
        for (plain, encoded) in vectors {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
    }
}
