//! The management API (NIP-86): an admin changes the rules with signed requests on the relay's own address.
//!
//! Source: [NIP-86](https://github.com/nostr-protocol/nips/blob/master/86.md).

mod auth;
mod methods;

use std::net::{IpAddr, SocketAddr};

use birdhouse_net::{Response, StatusCode, body, offload, plain_response};
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request};
use serde::Deserialize;
use serde_json::{Value, json};
use tracing::info;

use crate::clock::now;
use crate::entrance::management::auth::Asked;
use crate::entrance::management::methods::Admin;
use crate::limits::MANAGEMENT_BYTES;
use crate::policy::Local;
use crate::relay::Relay;

/// The media type of requests and answers.
const RPC: &str = "application/nostr+json+rpc";

/// A request.
#[derive(Debug, Deserialize)]
struct Call {
    method: String,
    #[serde(default)]
    params: Vec<Value>,
}

/// True for a request to the management API, where there are admins.
pub(super) fn is_meant(relay: &Relay, request: &Request<Incoming>) -> bool {
    let media_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media_type = media_type.split(';').next().unwrap_or_default().trim();
    *request.method() == Method::POST && media_type.eq_ignore_ascii_case(RPC) && !relay.gate().admins().is_empty()
}

/// The two ends of the connection of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ends {
    pub(crate) local: SocketAddr,
    /// The client's address, as it is known.
    pub(super) client: IpAddr,
}

/// Answers a request.
pub(crate) async fn answer(relay: &Relay, ends: Ends, request: Request<Incoming>) -> Box<Response> {
    let authorization = request.headers().get(AUTHORIZATION).cloned();
    let query = request.uri().query().unwrap_or_default().to_owned();
    let Some(body) = body(request, MANAGEMENT_BYTES).await else {
        return plain_response(StatusCode::PAYLOAD_TOO_LARGE, "the request is too long or not complete\n");
    };
    offload(|| answer_body(relay, ends, &query, authorization.as_ref(), &body))
}

fn answer_body(
    relay: &Relay,
    ends: Ends,
    query: &str,
    authorization: Option<&HeaderValue>,
    body: &Bytes,
) -> Box<Response> {
    let local = Local::of(relay.events.urls(), ends.local);
    let (gate, asked) = (relay.gate(), Asked { local: &local, query, now: now().into(), body });
    let is_endpoint = |path: &str| relay.is_endpoint(path);
    let admin = match asked.admin(gate.admins(), is_endpoint, authorization, &relay.used_authorizations) {
        Ok(admin) => admin,
        Err(why) => {
            let mut response = rpc_response(StatusCode::UNAUTHORIZED, &json!({ "error": why }));
            response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Nostr"));
            return response;
        }
    };
    let Ok(Call { method, params }) = serde_json::from_slice(body) else {
        let answer = json!({ "error": "the request is not an object with a method and an array of params" });
        return rpc_response(StatusCode::BAD_REQUEST, &answer);
    };
    let result = methods::call(&Admin { relay, key: admin, address: ends.client }, &method, &params);
    // An unknown name is the client's text.
    if result.is_ok() {
        info!(%admin, method, "answered an admin");
    }
    let answer = match result {
        Ok(result) => json!({ "result": result }),
        Err(error) => json!({ "error": error }),
    };
    rpc_response(StatusCode::OK, &answer)
}

fn rpc_response(status: StatusCode, answer: &Value) -> Box<Response> {
    let mut response = Box::new(Response::new(answer.to_string().into()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(RPC));
    response
}
