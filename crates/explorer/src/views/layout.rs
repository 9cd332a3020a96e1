//! The frame of every page: head, navigation, search, footer.

use bitcoin::Network;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::assets::{ICON, VERSION};

/// The frame of one page.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Frame<'a> {
    /// The title, which is the heading, too.
    pub(crate) title: &'a str,
    /// Shown beside the name unless it is mainnet; `None` where it is not known.
    pub(crate) network: Option<Network>,
    /// Seconds after which a browser loads the page again.
    pub(crate) reload_s: Option<u64>,
    /// The query of the events after which the page's script reads it again.
    pub(crate) live: Option<&'a str>,
}

impl Frame<'_> {
    /// Puts a page's content into its frame.
    pub(crate) fn around(self, content: &Markup) -> String {
        let version = VERSION.as_str();
        html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="robots" content="noindex";
                    @if let Some(seconds) = self.reload_s {
                        meta http-equiv="refresh" content=(seconds);
                    }
                    title { (self.title) " · Birdhouse" }
                    link rel="icon" href={ "/icon.svg?" (version) };
                    link rel="stylesheet" href={ "/style.css?" (version) };
                    @if self.live.is_some() { script src={ "/live.js?" (version) } defer {} }
                }
                body {
                    a.skip href="#main" { "Skip to the content" }
                    (self.header())
                    main #main tabindex="-1" data-live=[self.live.map(|query| format!("/api/events?{query}"))] { (content) }
                    (footer())
                }
            }
        }
        .into_string()
    }

    fn header(self) -> Markup {
        html! {
            header.site {
                div.bar {
                    a.brand href="/" {
                        span.mark aria-hidden="true" { (PreEscaped(ICON)) }
                        "Birdhouse"
                        @if let Some(network) = self.network.filter(|network| *network != Network::Bitcoin) {
                            " " span.network { (network) }
                        }
                    }
                    nav aria-label="Pages" {
                        a href="/" { "Home" }
                        a href="/blocks" { "Blocks" }
                        a href="/addresses" { "Wallet" }
                        a href="/push" { "Broadcast" }
                        a href="/status" { "Status" }
                    }
                    (search())
                }
            }
        }
    }
}

fn search() -> Markup {
    html! {
        form.search role="search" action="/search" method="post" {
            label.unseen for="q" { "Search: height, block hash, txid, address or script hash" }
            input #q name="q" type="search" required autocomplete="off" autocapitalize="off" spellcheck="false"
                placeholder="Height, hash, txid or address";
            button { "Search" }
        }
    }
}

fn footer() -> Markup {
    html! {
        footer.site {
            div.bar {
                p { "Birdhouse " (env!("CARGO_PKG_VERSION")) ", on its operator's own node. Nothing that you look up is logged." }
                p { a href="/api/openapi.json" { "REST API" } }
            }
        }
    }
}
