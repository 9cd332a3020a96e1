//! Responses of HTTP.

use hyper::header::CONTENT_TYPE;
use hyper::{Response, StatusCode};

/// Returns a response with this body.
pub(super) fn response(status: StatusCode, content_type: &'static str, body: String) -> Response<String> {
    let response = Response::builder().status(status).header(CONTENT_TYPE, content_type);
    response.body(body).expect("status and header are valid")
}
