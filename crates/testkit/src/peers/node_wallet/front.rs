//! HTTP in front of the node: calls of the wallet are answered, everything else is passed on unchanged.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use birdhouse_regtest::bitcoind::Bitcoind;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::http::request::Parts;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::calls::{METHODS, Wallets};
use crate::error::{Error, Result};

/// Largest request in bytes: a block in hexadecimal, and some room.
const REQUEST_BYTES_MAX: usize = 10 << 20;
/// Most connections at once; further ones wait to be accepted.
const CONNECTIONS_MAX: usize = 64;

/// A node with wallets.
#[derive(Debug)]
pub struct Front {
    node: Bitcoind,
    agent: ureq::Agent,
    wallets: Mutex<Wallets>,
}

impl Front {
    /// Puts a wallet in front of this node; payments cost `rate_sat_vb` per virtual byte.
    pub fn new(node: Bitcoind, rate_sat_vb: u64) -> Self {
        let agent = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().new_agent();
        Self { node, agent, wallets: Mutex::new(Wallets::new(rate_sat_vb)) }
    }

    /// Serves the node's RPC and REST on this listener until the process ends.
    ///
    /// # Errors
    /// [`Error::Io`] of the listener.
    pub async fn serve(self, listener: std::net::TcpListener) -> Result<Infallible> {
        listener.set_nonblocking(true)?;
        let (front, listener) = (Arc::new(self), TcpListener::from_std(listener)?);
        let places = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
        loop {
            let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
            let (stream, _) = listener.accept().await?;
            let front = Arc::clone(&front);
            let service = service_fn(move |request| answer(Arc::clone(&front), request));
            tokio::spawn(async move {
                // A client that leaves is no failure.
                let _ =
                    hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                drop(place);
            });
        }
    }

    fn answer(&self, parts: &Parts, body: &Bytes) -> Result<Response<Full<Bytes>>> {
        match wallet_call(parts, body) {
            Some(call) => Ok(reply(StatusCode::OK, "application/json", self.call(parts, &call).to_string())),
            None => self.pass_on(parts, body),
        }
    }

    fn call(&self, parts: &Parts, call: &Value) -> Value {
        let method = call["method"].as_str().unwrap_or_default();
        let params = call["params"].as_array().map_or(&[][..], Vec::as_slice);
        let name = parts.uri.path().strip_prefix("/wallet/");
        let mut wallets = self.wallets.lock().expect("no call of the wallet panics");
        match wallets.answer(&self.node, name, method, params) {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": call["id"], "result": result }),
            Err(refusal) => json!({
                "jsonrpc": "2.0", "id": call["id"], "error": { "code": refusal.code, "message": refusal.message },
            }),
        }
    }

    /// Repeats the request at the node, which knows no path of a wallet.
    fn pass_on(&self, parts: &Parts, body: &Bytes) -> Result<Response<Full<Bytes>>> {
        let path = if parts.method == Method::POST {
            "/"
        } else {
            parts.uri.path_and_query().map_or("/", |path| path.as_str())
        };
        let url = format!("http://127.0.0.1:{}{path}", self.node.rpc_port());
        let credentials = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let sent = if parts.method == Method::POST {
            let request = self.agent.post(&url).header("Content-Type", "application/json");
            with_credentials(request, credentials).send(&body[..])
        } else {
            with_credentials(self.agent.get(&url), credentials).call()
        };
        let mut answer = sent.map_err(|error| Error::Protocol(format!("failed to reach the node: {error}")))?;
        let bytes = answer.body_mut().with_config().limit(u64::MAX).read_to_vec();
        let bytes = bytes.map_err(|error| Error::Protocol(format!("failed to read the node's answer: {error}")))?;
        let kind =
            answer.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or("text/plain");
        Ok(reply(answer.status(), kind, bytes))
    }
}

fn with_credentials<B>(request: ureq::RequestBuilder<B>, credentials: Option<&str>) -> ureq::RequestBuilder<B> {
    match credentials {
        Some(credentials) => request.header("Authorization", credentials),
        None => request,
    }
}

async fn answer(
    front: Arc<Front>,
    request: Request<Incoming>,
) -> std::result::Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let Ok(body) = Limited::new(body, REQUEST_BYTES_MAX).collect().await else {
        return Ok(reply(StatusCode::PAYLOAD_TOO_LARGE, "text/plain", "the request is too large"));
    };
    let body = body.to_bytes();
    let answered = tokio::task::spawn_blocking(move || front.answer(&parts, &body)).await.expect("no answer panics");
    Ok(answered.unwrap_or_else(|error| reply(StatusCode::BAD_GATEWAY, "text/plain", error.to_string())))
}

/// Returns the call if the wallet answers it. Batches are the node's.
fn wallet_call(parts: &Parts, body: &Bytes) -> Option<Value> {
    let call: Value = (parts.method == Method::POST).then(|| serde_json::from_slice(body).ok())??;
    METHODS.contains(&call["method"].as_str()?).then_some(call)
}

fn reply(status: StatusCode, kind: &str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
    response.body(Full::new(body.into())).expect("the status and the type come from a response")
}
