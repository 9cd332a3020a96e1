//! The page of a request without an answer.

use birdhouse_esplora::Refusal;
use birdhouse_web::parts::sentence;
use hyper::StatusCode;
use maud::html;

use super::layout::Frame;

/// Returns the page.
pub(crate) fn page(refusal: &Refusal) -> String {
    if let Some(syncing) = refusal.syncing {
        let frame = Frame { title: "The index is being built", reload_s: refusal.retry_after_s, ..Frame::default() };
        return frame.around(&html! {
            h1 { "The index is being built" }
            div.card {
                p { label for="done" { "So far " (syncing.percent) " %" } }
                progress #done max="100" value=(syncing.percent) { (syncing.percent) " %" }
                p { (syncing) "." }
                p { "Until then there is nothing to show. This page loads itself again." }
            }
        });
    }
    let title = title(refusal.status);
    Frame { title, ..Frame::default() }.around(&html! {
        h1 { (title) }
        div.card {
            p { (sentence(&refusal.text)) }
            p { a href="/" { "Go to the first page" } }
        }
    })
}

fn title(status: StatusCode) -> &'static str {
    match status {
        StatusCode::NOT_FOUND => "Not found",
        StatusCode::TOO_MANY_REQUESTS => "Too many requests",
        status if status.is_client_error() => "This cannot be answered",
        _ => "Not available now",
    }
}
