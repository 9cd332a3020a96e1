//! The page of the REST API's endpoints, for people; programs read `/api/openapi.json`.

use birdhouse_esplora::Route;
use bitcoin::Network;
use maud::html;

use super::layout::Frame;

/// Returns the page.
pub(crate) fn page(network: Network, endpoints: impl Iterator<Item = &'static Route>) -> String {
    Frame { title: "REST API", network: Some(network), ..Frame::default() }.around(&html! {
        h1 { "REST API" }
        p.quiet {
            "Paths are those of Esplora and, under /v1, of mempool. Programs read them, with the forms of parameters and \
             answers, as an " a href="/api/openapi.json" { "OpenAPI document" } "."
        }
        dl.facts {
            @for route in endpoints {
                div {
                    dt { (route.method()) " " span.whole { "/api" (route.path()) } }
                    dd { (route.summary()) }
                }
            }
        }
    })
}
