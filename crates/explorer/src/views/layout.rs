//! The frame of the explorer's pages: navigation, search, footer.

use std::sync::LazyLock;

use birdhouse_chain::Waiting;
use birdhouse_chain::source::BlockId;
use birdhouse_esplora::Surroundings;
use birdhouse_web::Site;
use bitcoin::Network;
use maud::{Markup, html};

use crate::assets::{PAGE_SCRIPT, SCRIPT};

static SITE: LazyLock<Site> =
    LazyLock::new(|| Site::new(SCRIPT, PAGES, search, footer).with_script("/page.js", PAGE_SCRIPT));

const PAGES: &[(&str, &str)] =
    &[("Home", "/"), ("Blocks", "/blocks"), ("Wallet", "/addresses"), ("Broadcast", "/push"), ("Status", "/status")];

/// The frame of one page.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Frame<'a> {
    /// The title, which is the heading, too.
    pub(crate) title: &'a str,
    /// Shown beside the name unless it is mainnet; `None` where it is not known.
    pub(crate) network: Option<Network>,
    /// Seconds after which a browser loads the page again.
    pub(crate) reload_s: Option<u64>,
    /// The events after which the page's script reads it again.
    pub(crate) live: Option<Live<'a>>,
}

/// The events of what is on a page, and what the page has of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Live<'a> {
    /// The query without the tip.
    pub(crate) query: &'a str,
    /// The tip at which the page was made. Events begin with the blocks since then.
    pub(crate) tip: BlockId,
    /// The state of the page's address or transaction, in the script's words. Events begin with it.
    pub(crate) state: Option<&'a str>,
}

impl Live<'_> {
    /// Returns the events of blocks alone.
    pub(crate) fn blocks(tip: BlockId) -> Self {
        Self { query: "blocks", tip, state: None }
    }

    fn path(&self) -> String {
        let Self { query, tip, .. } = self;
        format!("/api/events?{query}&lastEventId={}-{}", tip.height, tip.hash)
    }
}

impl Frame<'_> {
    /// Puts a page's content into its frame.
    pub(crate) fn around(self, content: &Markup) -> String {
        let network = self.network.filter(|network| *network != Network::Bitcoin).map(|network| network.to_string());
        let live = self.live.map(|live| live.path());
        let (mark, live) = (network.as_deref(), live.as_deref());
        let content = html! {
            @if let Some(state) = self.live.and_then(|live| live.state) { div hidden data-state=(state) {} }
            (content)
        };
        birdhouse_web::Frame { title: self.title, mark, reload_s: self.reload_s, live }.around(&SITE, &content)
    }
}

/// Makes the links of a page relative, and adds a notice while the index does not follow the node.
pub(crate) fn finish(page: &str, surroundings: &Surroundings) -> String {
    let page = birdhouse_web::relative(page, &surroundings.way_up);
    let Some(waiting) = &surroundings.waiting else { return page };
    let why = match waiting {
        Waiting::NodeDownloads { .. } | Waiting::Building { .. } => format!("Not today's chain: {waiting}."),
        _ => format!("These pages may be out of date: the server does not follow its node now ({}).", waiting.kind()),
    };
    let notice = html! {
        p { (why) " " a href={ (surroundings.way_up) "status" } { "State of the server" } }
    };
    birdhouse_web::with_notice(&page, &notice)
}

fn search() -> Markup {
    html! {
        form.search role="search" action="/search" method="post" {
            label.unseen for="q" { "Search: height, block hash, txid, outpoint, address, script, key or descriptor" }
            input #q name="q" type="search" required autocomplete="off" autocapitalize="off" spellcheck="false"
                placeholder="Height, hash, txid or address";
            button { "Search" }
        }
    }
}

fn footer() -> Markup {
    html! {
        p { "Birdhouse " (env!("CARGO_PKG_VERSION")) ", on its operator's own node. Nothing that you look up is logged." }
        p { a href="/labels" { "Labels" } " · " a href="/rest" { "REST API" } }
    }
}
