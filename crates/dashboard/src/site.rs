//! The frame of the dashboard's pages.

use std::sync::LazyLock;

use birdhouse_web::{Frame, Site};
use maud::{Markup, html};

/// The script of the dashboard, at `/live.js`.
pub const SCRIPT: &str = include_str!("live.js");

/// Seconds after which a browser without scripts loads the state again.
const RELOAD_S: u64 = 10;

static SITE: LazyLock<Site> = LazyLock::new(|| Site::new(SCRIPT, PAGES, || html! {}, footer));

const PAGES: &[(&str, &str)] = &[("Status", "/"), ("Control", "/control")];

/// Puts a page into its frame. `network` is shown unless it is mainnet.
pub(crate) fn page(title: &str, network: Option<&str>, content: &Markup) -> String {
    frame(title, network).around(&SITE, content)
}

/// Puts a page into its frame that its script reads again every two seconds.
pub(crate) fn live_page(title: &str, network: Option<&str>, content: &Markup) -> String {
    Frame { live: Some("/"), reload_s: Some(RELOAD_S), ..frame(title, network) }.around(&SITE, content)
}

fn frame<'a>(title: &'a str, network: Option<&'a str>) -> Frame<'a> {
    Frame { title, mark: network.filter(|network| *network != "bitcoin"), ..Frame::default() }
}

fn footer() -> Markup {
    html! {
        p { "Birdhouse " (env!("CARGO_PKG_VERSION")) ". This page is for the operator: keep its address private." }
        p { a href="/metrics" { "Metrics" } " · " a href="/health" { "Health" } }
    }
}
