//! Properties of every request to the REST API, for the fuzz target and for tests with random damage. The routes are
//! the real ones, and behind each path all parts of the request are read in all ways in which endpoints read them. No
//! index and no node is asked.

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, Uri};
use axum::response::Response;
use axum::routing::{MethodFilter, on};
use bitcoin::Network;
use futures_util::FutureExt as _;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;

use crate::endpoints;
use crate::endpoints::Route;
use crate::http::{named_parts, of_api, refusal};
use crate::live::Wishes;
use crate::wire::{AskedRange, Failure, Params, Wanted, Watch};

/// Bytes that a refusal may have more than the request: its own words, and a path whose every byte is escaped.
const REFUSAL_BYTES_MORE: usize = 256;
const ESCAPED_BYTES: usize = 12;
/// Bytes of the file of which a part is asked for.
const FILE_BYTES: u64 = 1000;
const NETWORKS: [Network; 2] = [Network::Bitcoin, Network::Regtest];

/// Reads bytes as a request: a line with method and target, then the body. It is routed and read, or refused with a
/// status of the client's fault and a text that is not much longer than the request. Returns the status; `None` for
/// bytes that are no request.
///
/// # Panics
/// When this does not hold.
pub fn request(bytes: &[u8]) -> Option<u16> {
    let (line, body) = match bytes.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        None => (bytes, &[][..]),
    };
    let _ = Wishes::parse(body);
    let (method, target) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let (method, uri) = (method.parse::<Method>().ok()?, target.parse::<Uri>().ok()?);
    let body = Body::from(body.to_vec());
    let request = Request::builder().method(method).uri(uri).body(body).expect("its parts are valid");
    let answered = TowerToHyperService::new(router()).call(request).now_or_never();
    let answer = answered.expect("nothing is waited for").expect("a router never fails");
    let status = answer.status();
    assert!(status.is_success() || status.is_client_error() || status.is_redirection(), "{status}");
    let text = answer.into_body().collect().now_or_never().expect("it is there").expect("it is whole").to_bytes();
    assert!(text.len() <= bytes.len() * ESCAPED_BYTES + REFUSAL_BYTES_MORE, "{} bytes", text.len());
    Some(status.as_u16())
}

/// Returns the paths of the API and of private listeners.
fn router() -> Router {
    let routes = endpoints::all()
        .chain(endpoints::of_filters())
        .chain(endpoints::of_silent_payments())
        .chain(endpoints::internal());
    of_api(
        routes.fold(Router::new(), |router, route| router.route(route.path, handler(route))),
        Router::new(),
        Network::Regtest,
    )
}

fn handler(route: &'static Route) -> axum::routing::MethodRouter {
    let filter = if route.method == Method::POST { MethodFilter::POST } else { MethodFilter::GET };
    on(filter, async |request: Request| read(request).await.unwrap_or_else(refusal))
}

/// Reads all parts of a request, and fails if none can be read of one that has some in its path.
async fn read(request: Request) -> Result<Response, Failure> {
    let (mut parts, body) = request.into_parts();
    let path = named_parts(&mut parts).await?;
    let names: Vec<String> = path.iter().map(|(name, _)| name.clone()).collect();
    let query = parts.uri.query().unwrap_or_default().to_owned();
    let body = body.collect().await.map_err(|_| Failure::bad_request("Invalid body"))?.to_bytes().to_vec();
    let asked_range = AskedRange { range: Some(query.clone()), if_range: None };
    let params = Params { path, query, body: body.into(), last_event: Some(format!("{}", parts.uri)), asked_range };
    if let Wanted::Part(bytes) = params.asked_range.within(FILE_BYTES) {
        assert!(bytes.start < bytes.end && bytes.end <= FILE_BYTES, "{bytes:?}");
    }
    let mut read = if names.is_empty() { Ok(()) } else { Err(Failure::bad_request("Invalid path")) };
    read = names.iter().map(|name| read_path(&params, name)).fold(read, Result::or);
    for network in NETWORKS {
        read = read.or(params.script(network).map(drop)).or(Watch::of(&params, network).map(drop));
    }
    let _ = (params.query("txids"), params.form("tx"), params.query_list("txId").count());
    read.or(params.block_hash().map(drop)).or(params.json::<Vec<String>>().map(drop))?;
    Ok(Response::new(Body::empty()))
}

/// Reads a part of the path as number and as txid. What is read means the same when it is written again.
fn read_path(params: &Params, name: &str) -> Result<(), Failure> {
    if let Ok(txid) = params.txid(name) {
        assert!(txid.to_string().eq_ignore_ascii_case(params.text(name)), "{txid}");
    }
    params.number::<u32>(name).map(drop)
}
