//! JSON-RPC to the node: single calls and batches, with cookie or user and password.
//!
//! Refusals by Core ([`NodeError::Rejected`]) are distinct from an unreachable node. While the node starts (-28) or its
//! work queue is full (503), waiting helps. The cookie changes when the node restarts, so a refused cookie is read
//! again.
//! Source: Core's `httprpc.cpp`, `rpc/protocol.h`.

use std::fs;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_chain::source::{NodeError, SourceError, SourceResult};
use parking_lot::Mutex;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::calls::{CallCounts, Calls, End};
use crate::conf::Auth;
use crate::error::{not_found, permanent, transient, unreadable};
use crate::http::{ANSWER_TIMEOUT, Http, Lane, Reply};

/// Largest answer, in bytes: a full block of 4 MB as verbose JSON with prevouts takes some tens of MB.
const ANSWER_BYTES_MAX: u64 = 512 * 1024 * 1024;
/// Time for an answer that the node has in memory.
const QUICK_TIMEOUT: Duration = Duration::from_secs(5);
/// Core's error codes for a missing object: `RPC_INVALID_ADDRESS_OR_KEY`, `RPC_INVALID_PARAMETER`.
const NOT_FOUND_CODES: [i64; 2] = [-5, -8];
/// Core's error code `RPC_MISC_ERROR`, which a block that is not on the node's disk has, too.
const RPC_MISC_ERROR: i64 = -1;
/// Beginning of the message about such a block (`CheckBlockDataAvailability` in Core's `rpc/blockchain.cpp`).
const NOT_AVAILABLE: &str = "Block not available";
/// Core's error code `RPC_IN_WARMUP`.
const IN_WARMUP: i64 = -28;

/// Beginning of a node's last message before it has its first block (`AppInitMain` in Core's `init.cpp`). One that has
/// deleted that block, and was killed before it wrote its coins for the first time, stays there.
const PRUNING: &str = "Pruning blockstore";
const STUCK: &str = " (if it says so for many minutes, it was killed while it deleted blocks: start it once with \
                     -reindex)";

/// A client of a node's RPC server.
#[derive(Debug)]
pub struct Rpc {
    http: Arc<Http>,
    auth: Auth,
    authorization: Mutex<Option<String>>,
    calls: Arc<Calls>,
}

#[derive(Deserialize)]
struct Response<T> {
    #[serde(default = "none")]
    result: Option<T>,
    error: Option<Refusal>,
    #[serde(default)]
    id: Value,
}

/// The default of `result`: without it serde requires `T: Default`.
fn none<T>() -> Option<T> {
    None
}

#[derive(Debug, Deserialize)]
struct Refusal {
    code: i64,
    #[serde(default)]
    message: String,
}

impl From<Refusal> for NodeError {
    fn from(refusal: Refusal) -> Self {
        if refusal.code == IN_WARMUP {
            let hint = if refusal.message.starts_with(PRUNING) { STUCK } else { "" };
            return Self::Unavailable(transient(format!("the node is still starting: {}{hint}", refusal.message)));
        }
        Self::Rejected { code: refusal.code, message: refusal.message }
    }
}

impl Rpc {
    /// Returns a client of the server at `host:port`. It sends nothing yet.
    pub fn new(address: &str, auth: Auth) -> Self {
        Self { http: Arc::new(Http::new(address)), auth, authorization: Mutex::default(), calls: Arc::default() }
    }

    /// Returns a client of the same server with this many calls of its own at a time, which wait for none of these. All
    /// are counted together.
    #[must_use]
    pub fn with_own_calls(&self, calls: usize) -> Self {
        let (http, auth) = (Arc::new(self.http.beside(calls)), self.auth.clone());
        Self { http, auth, authorization: Mutex::default(), calls: Arc::clone(&self.calls) }
    }

    /// Returns the client of the same server for other paths than RPC's.
    pub(crate) fn http(&self) -> &Arc<Http> {
        &self.http
    }

    /// Returns `host:port` of the server.
    pub fn address(&self) -> &str {
        self.http.address()
    }

    /// Calls a method and returns its result.
    pub fn call<T: DeserializeOwned>(&self, method: &str, params: &Value) -> Result<T, NodeError> {
        self.call_within(method, params, ANSWER_TIMEOUT, Lane::Bounded)
    }

    /// Calls a method that answers at once, and for whose answer many wait.
    pub(crate) fn call_quick<T: DeserializeOwned>(&self, method: &str, params: &Value) -> Result<T, NodeError> {
        self.call_within(method, params, QUICK_TIMEOUT, Lane::Bounded)
    }

    /// Calls a method that answers late, on a connection of its own.
    pub(crate) fn call_slow<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &Value,
        timeout: Duration,
    ) -> Result<T, NodeError> {
        self.call_within(method, params, timeout, Lane::Own)
    }

    /// Calls one method with several sets of parameters in one request. Returns the results in the order of the calls.
    pub fn batch<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &[Value],
    ) -> Result<Vec<Result<T, NodeError>>, NodeError> {
        if params.is_empty() {
            return Ok(Vec::new());
        }
        let calls: Vec<Value> = params.iter().enumerate().map(|(id, params)| request(method, params, id)).collect();
        let reply = self.post(&Value::from(calls), ANSWER_TIMEOUT, Lane::Bounded)?;
        let mut responses: Vec<Response<T>> = self.parse(&reply)?;
        responses.sort_by_key(|response| response.id.as_u64());
        if responses.len() != params.len() {
            return Err(self.nonsense("answers are missing in a batch").into());
        }
        Ok(responses.into_iter().map(|response| self.outcome(response)).collect())
    }

    fn call_within<T: DeserializeOwned>(
        &self,
        method: &str,
        params: &Value,
        timeout: Duration,
        lane: Lane,
    ) -> Result<T, NodeError> {
        let reply = self.post(&request(method, params, 0), timeout, lane)?;
        let response = self.parse(&reply)?;
        self.outcome(response)
    }

    fn outcome<T: DeserializeOwned>(&self, response: Response<T>) -> Result<T, NodeError> {
        match (response.error, response.result) {
            (Some(refusal), _) => Err(refusal.into()),
            (None, Some(result)) => Ok(result),
            // A method may answer null.
            (None, None) => serde_json::from_value(Value::Null).map_err(|_| self.nonsense("no result").into()),
        }
    }

    /// Returns figures on the calls so far.
    pub fn calls(&self) -> CallCounts {
        self.calls.counts()
    }

    fn post(&self, body: &Value, timeout: Duration, lane: Lane) -> SourceResult<Reply> {
        let began = Instant::now();
        let reply = self.send(body, timeout, lane);
        let is_answer = reply.as_ref().is_ok_and(|reply| !matches!(reply.status, 401 | 403 | 503));
        self.calls.count(if is_answer { End::Answered } else { End::Failed }, began.elapsed(), lane);
        reply
    }

    /// Posts the body, and posts it again with a fresh cookie when the old one is refused.
    fn send(&self, body: &Value, timeout: Duration, lane: Lane) -> SourceResult<Reply> {
        let body = body.to_string();
        let send = |login: &str| self.http.post(login, body.as_bytes(), ANSWER_BYTES_MAX, timeout, lane);
        let login = self.login()?;
        let reply = send(&login)?;
        if reply.status != 401 {
            return Ok(reply);
        }
        *self.authorization.lock() = None;
        let fresh = self.login()?;
        if fresh == login { Ok(reply) } else { send(&fresh) }
    }

    fn login(&self) -> SourceResult<String> {
        let mut cached = self.authorization.lock();
        if let Some(login) = &*cached {
            return Ok(login.clone());
        }
        let login = format!("Basic {}", base64(self.credentials()?.as_bytes()));
        *cached = Some(login.clone());
        Ok(login)
    }

    fn credentials(&self) -> SourceResult<String> {
        match &self.auth {
            Auth::UserPassword { user, password } => Ok(format!("{user}:{password}")),
            Auth::Cookie(path) => match fs::read_to_string(path) {
                Ok(cookie) => Ok(cookie.trim_end().to_owned()),
                Err(e) if e.kind() == io::ErrorKind::NotFound => Err(transient(format!(
                    "failed to read the node's cookie {}: it does not exist; is bitcoind running, and is this its data \
                     folder and network? Set --node-dir and --network, or give an RPC user and password",
                    path.display()
                ))),
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(permanent(format!(
                    "failed to read the node's cookie {}: permission denied, because the node writes a new one for its \
                     own user at each start; add rpccookieperms=group to bitcoin.conf and birdhouse's user to the \
                     node's group, or add an rpcauth line to bitcoin.conf and set --rpc-user and --rpc-password-file",
                    path.display()
                ))),
                Err(e) => Err(unreadable(path, &e)),
            },
        }
    }

    fn parse<T: DeserializeOwned>(&self, reply: &Reply) -> SourceResult<T> {
        match reply.status {
            401 => Err(permanent(format!(
                "failed to log in to the node at {} with {}: the login is refused; check rpcuser and rpcpassword, or \
                 the cookie file",
                self.address(),
                self.auth,
            ))),
            403 => Err(permanent(format!(
                "failed to call the node at {}: it forbids this address or method; add the address to rpcallowip and \
                 check rpcwhitelist",
                self.address()
            ))),
            503 => Err(transient(format!(
                "failed to call the node at {}: it is busy ({}); raise rpcworkqueue in bitcoin.conf if this persists",
                self.address(),
                String::from_utf8_lossy(&reply.body[..reply.body.len().min(100)]).trim()
            ))),
            _ => {
                serde_json::from_slice(&reply.body).map_err(|e| self.nonsense(&format!("status {}, {e}", reply.status)))
            }
        }
    }

    fn nonsense(&self, what: &str) -> SourceError {
        permanent(format!(
            "failed to understand the answer of {}: {what}; is this the RPC server of Bitcoin Core?",
            self.address()
        ))
    }
}

/// Converts a refusal by Core: not found where its code says so, else permanent.
pub(crate) fn to_source_error(error: NodeError) -> SourceError {
    match error {
        NodeError::Unavailable(error) => error,
        NodeError::Rejected { code, message } if NOT_FOUND_CODES.contains(&code) => not_found(message),
        NodeError::Rejected { code: RPC_MISC_ERROR, message } if message.starts_with(NOT_AVAILABLE) => {
            not_found(format!("{message}; the node has deleted this block, or does not have it yet"))
        }
        NodeError::Rejected { code, message } => permanent(format!("the node refused: {message} ({code})")),
    }
}

fn request(method: &str, params: &Value, id: usize) -> Value {
    json!({ "jsonrpc": "1.0", "id": id, "method": method, "params": params })
}

/// Encodes bytes as Base64 (RFC 4648), for HTTP basic authentication.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let [a, b, c] = [0, 1, 2].map(|at| chunk.get(at).copied().unwrap_or(0));
        let word = u32::from_be_bytes([0, a, b, c]);
        for digit in 0..4 {
            let six = (word >> (18 - 6 * digit)) as usize & 63;
            text.push(if digit <= chunk.len() { char::from(ALPHABET[six]) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_chain::source::SourceErrorKind;

    use super::*;

    #[test]
    fn base64_matches_the_vectors_of_rfc_4648() {
        let vectors =
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("\u{ff}", "w78=")];
        for (plain, coded) in vectors {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn warm_up_is_transient_and_a_refusal_keeps_cores_code() {
        let refusal = |code| NodeError::from(Refusal { code, message: "Loading".into() });
        assert!(matches!(refusal(-28), NodeError::Unavailable(e) if e.kind == SourceErrorKind::Transient));
        assert!(matches!(refusal(-26), NodeError::Rejected { code: -26, .. }));
        let gone = to_source_error(refusal(-8));
        assert_eq!(gone.kind, SourceErrorKind::NotFound);
    }

    #[test]
    fn a_node_that_waits_for_blocks_it_has_deleted_is_not_waited_for_without_a_word() {
        let said = |message: &str| NodeError::from(Refusal { code: -28, message: message.into() }).to_string();
        assert!(said("Pruning blockstore…").ends_with("start it once with -reindex)"));
        assert!(said("Verifying blocks…").ends_with("Verifying blocks…"));
    }

    #[test]
    fn missing_cookie_says_what_to_check() {
        let rpc = Rpc::new("127.0.0.1:1", Auth::Cookie("/nowhere/.cookie".into()));
        let error = rpc.call::<Value>("uptime", &json!([])).unwrap_err().to_string();
        assert!(error.contains("/nowhere/.cookie") && error.contains("is bitcoind running"), "{error}");
    }

    #[test]
    fn calls_of_others_leave_ones_own_free() {
        use std::io::{Read as _, Write as _};

        use crate::http::CONNECTIONS_MAX;

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let auth = Auth::UserPassword { user: "u".into(), password: "p".into() };
        let rpc = Rpc::new(&listener.local_addr().unwrap().to_string(), auth);
        let others = rpc.with_own_calls(CONNECTIONS_MAX);
        std::thread::scope(|scope| {
            let silent: Vec<_> = (0..CONNECTIONS_MAX)
                .map(|_| {
                    scope.spawn(|| others.call::<Value>("uptime", &json!([])).unwrap_err());
                    // It is asked, and never answers.
                    listener.accept().unwrap().0
                })
                .collect();
            let asked = scope.spawn(|| rpc.call::<Value>("uptime", &json!([])).unwrap());
            let (mut socket, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"}") {
                let mut byte = [0];
                socket.read_exact(&mut byte).unwrap();
                head.push(byte[0]);
            }
            let body = r#"{"result":7,"error":null,"id":0}"#;
            write!(socket, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
            assert_eq!(asked.join().unwrap(), json!(7));
            drop(silent);
            drop(listener);
        });
    }

    /// A node that answers nothing until as many requests are under way, and counts its connections.
    struct Counting {
        listener: std::net::TcpListener,
        wanted: usize,
        under_way: Mutex<usize>,
        all_came: parking_lot::Condvar,
        connections: std::sync::atomic::AtomicUsize,
    }

    impl Counting {
        fn run(self: Arc<Self>) {
            while let Ok((socket, _)) = self.listener.accept() {
                self.connections.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                let node = Arc::clone(&self);
                std::thread::spawn(move || node.answer(socket));
            }
        }

        fn answer(&self, mut socket: std::net::TcpStream) {
            use std::io::{Read as _, Write as _};

            let body = r#"{"result":7,"error":null,"id":0}"#;
            let mut bytes = [0; 4096];
            // A request comes in one piece, or its body in a second one.
            while let Ok(count @ 1..) = socket.read(&mut bytes) {
                let is_whole = bytes.starts_with(b"GET") || bytes[..count].ends_with(b"}");
                if !is_whole {
                    continue;
                }
                let mut under_way = self.under_way.lock();
                *under_way += 1;
                self.all_came.notify_all();
                self.all_came.wait_while(&mut under_way, |under_way| *under_way < self.wanted);
                drop(under_way);
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
                drop(socket.write_all((head + body).as_bytes()));
            }
        }
    }

    #[test]
    fn all_clients_of_a_node_leave_two_of_cores_connections_to_others() {
        // As a server has them: the index with a long poll, clients, and reads of the index.
        const WANTED: usize = 5 + 1 + 6 + 2;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let node = Arc::new(Counting {
            listener,
            wanted: WANTED,
            under_way: Mutex::new(0),
            all_came: parking_lot::Condvar::new(),
            connections: 0.into(),
        });
        let counting = Arc::clone(&node);
        std::thread::spawn(|| counting.run());
        let auth = Auth::UserPassword { user: "u".into(), password: "p".into() };
        let rpc = Rpc::new(&address, auth);
        let (clients, reads) = (rpc.with_own_calls(6), rpc.with_own_calls(2));
        let uptime = |rpc: &Rpc| rpc.call::<Value>("uptime", &json!([])).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| [&rpc, &clients, &reads].map(uptime));
                scope.spawn(|| [&clients, &reads, &rpc].map(uptime));
                scope.spawn(|| [&reads, &rpc, &clients].map(uptime));
                scope.spawn(|| rpc.http().get("/rest/chaininfo.json", 1000).unwrap());
            }
            scope.spawn(|| rpc.call_slow::<Value>("waitfornewblock", &json!([]), ANSWER_TIMEOUT).unwrap());
        });
        assert_eq!(node.connections.load(std::sync::atomic::Ordering::SeqCst), WANTED);
    }

    #[test]
    fn a_node_that_closes_at_once_may_not_allow_the_address() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let auth = Auth::UserPassword { user: "u".into(), password: "p".into() };
        let rpc = Rpc::new(&listener.local_addr().unwrap().to_string(), auth);
        std::thread::scope(|scope| {
            // The call, and once more in case an old connection was taken.
            scope.spawn(|| (0..2).for_each(|_| drop(listener.accept().unwrap())));
            let error = rpc.call::<Value>("uptime", &json!([])).unwrap_err().to_string();
            assert!(error.contains("without an answer") && error.contains("rpcallowip"), "{error}");
        });
    }

    #[test]
    fn closed_port_says_that_nothing_listens() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let auth = Auth::UserPassword { user: "u".into(), password: "p".into() };
        let error = Rpc::new(&port.to_string(), auth).call::<Value>("uptime", &json!([])).unwrap_err();
        assert!(error.to_string().contains("nothing listens"), "{error}");
    }
}
