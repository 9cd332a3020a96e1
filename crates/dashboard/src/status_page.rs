//! The page with the state of the server.

use std::collections::HashMap;

use birdhouse_web::amounts;
use birdhouse_web::parts::{badge, bar, code, fact, qr, sentence};
use maud::{Markup, html};

use crate::site;
use crate::status::{
    Bitcoin, Build, Endpoint, Link, Phase, Rate, Relay, SetAside, SlowKind, Status, Stream, TableSize,
};

/// Events on the page that streams have given up.
const SET_ASIDE_ROWS: usize = 20;

/// Returns the page.
pub fn status_page(status: &Status) -> String {
    let network = status.bitcoin.as_ref().map(|bitcoin| bitcoin.network.as_str());
    site::live_page(
        "Status",
        network,
        &html! {
            (summary(status))
            (warnings(status))
            (wallets(&status.endpoints))
            (links(&status.links))
            div.columns {
                @if let Some(bitcoin) = &status.bitcoin { (chain(bitcoin)) }
                (clients(status))
            }
            @if let Some(relay) = &status.relay { (events(relay)) }
            @if !status.streams.is_empty() { (streams(&status.streams)) }
            @if !status.set_aside.is_empty() { (set_aside(&status.set_aside)) }
            (slowest(&status.slowest))
            div.columns { (memory(status)) (disk(status)) }
        },
    )
}

fn summary(status: &Status) -> Markup {
    let build = status.bitcoin.as_ref().and_then(|bitcoin| bitcoin.build.as_ref());
    let (title, class) = match (status.is_good, build) {
        (true, _) => ("Ready", "good"),
        (false, Some(_)) => ("The index is being built", "open"),
        (false, None) => ("Not ready", "bad"),
    };
    html! {
        h1 { (title) }
        section.card.(class) aria-label="Summary" {
            p #silent role="status" hidden { (badge("open", "no answer")) " The server does not answer; the figures are old." }
            p { (sentence(&status.health)) " Up for " (amounts::duration(status.uptime_s)) "." }
            @if let (Some(build), Some(bitcoin)) = (build, &status.bitcoin) { (progress(build, bitcoin.sync_percent)) }
        }
    }
}

fn progress(build: &Build, percent: u8) -> Markup {
    html! {
        p { label for="built" { (build.phase_name()) ", " (percent) " % of all" } }
        progress #built max="100" value=(percent) { (percent) " %" }
        dl.facts {
            @if build.blocks_total > 0 {
                (fact("Blocks", &html! { (amounts::count(build.blocks)) " of " (amounts::count(build.blocks_total)) }))
            }
            @match build.phase {
                Phase::Scanning => {}
                Phase::Reading => {
                    (fact("Read", &html! { (amounts::bytes(build.done)) " of " (amounts::bytes(build.total)) }))
                    (fact("Rate", &html! { (amounts::bytes(whole(build.done_per_s))) " each second" }))
                }
                Phase::Sorting => {
                    (fact("Partitions", &html! { (amounts::count(build.done)) " of " (amounts::count(build.total)) }))
                }
            }
            (fact("Time left", &html! {
                @match build.left_s {
                    Some(seconds) => { "about " (amounts::duration(seconds)) }
                    None => "not known yet",
                }
            }))
        }
    }
}

fn warnings(status: &Status) -> Markup {
    html! {
        @if !status.warnings.is_empty() {
            section.card.bad aria-labelledby="warnings" {
                h2 #warnings { "Warnings" }
                ul.parts {
                    @for warning in &status.warnings {
                        li { p { strong { (sentence(&warning.text)) } } p { (with_code(&warning.advice)) } }
                    }
                }
            }
        }
    }
}

/// Text with commands between backquotes.
fn with_code(text: &str) -> Markup {
    html! {
        @for (index, piece) in text.split('`').enumerate() {
            @if index % 2 == 1 { code { (piece) } } @else { (piece) }
        }
    }
}

fn wallets(endpoints: &[Endpoint]) -> Markup {
    html! {
        @if !endpoints.is_empty() {
            section aria-labelledby="wallets" {
                h2 #wallets { "Connect a wallet" }
                ul.parts { @for endpoint in endpoints { li { (wallet(endpoint)) } } }
            }
        }
    }
}

/// A link where a browser opens the URL; a relay's is for Nostr clients.
fn links(links: &[Link]) -> Markup {
    html! {
        @if !links.is_empty() {
            section aria-labelledby="links" {
                h2 #links { "Other services" }
                dl.facts {
                    @for Link { serves, url } in links {
                        (fact(sentence(serves).trim_end_matches('.'), &html! {
                            @if url.starts_with("http") { a.whole href=(url) { (url) } } @else { span.whole { (url) } }
                        }))
                    }
                }
            }
        }
    }
}

fn wallet(endpoint: &Endpoint) -> Markup {
    let server = endpoint.server();
    // A phone does not reach a loopback address or a container's.
    let picture =
        if endpoint.is_local || endpoint.is_inner { None } else { qr(&server, &format!("QR code of {server}")) };
    html! {
        div.columns.code {
            div {
                dl.facts {
                    (fact("Host", &html! { span.whole { (endpoint.host) } }))
                    (fact("Port", &html! { (endpoint.port) }))
                    (fact("SSL or TLS", &html! { @if endpoint.is_tls { "on" } @else { "off" } }))
                    @if let Some(fingerprint) = &endpoint.fingerprint {
                        (fact("Certificate, SHA-256", &code(fingerprint, "SHA-256 of the certificate")))
                    }
                    (fact("In one word", &html! { span.whole { (server) } }))
                }
                p.quiet {
                    @if endpoint.is_onion() { "Over Tor alone." }
                    @else if endpoint.is_local {
                        "Only wallets on this machine reach it; electrum-tls-addr = \"0.0.0.0\" opens it to others."
                    }
                    @else if endpoint.is_inner {
                        "This is the address of a container. Other machines use the host's, at the port that it \
                         publishes; public-host says which."
                    }
                    @else { "For wallets that reach this address." }
                }
            }
            @if let Some(picture) = picture { div.picture { (picture) } }
        }
    }
}

fn chain(bitcoin: &Bitcoin) -> Markup {
    let count = |number: Option<u64>| number.map_or_else(|| "\u{2013}".to_owned(), amounts::count);
    html! {
        section aria-labelledby="chain" {
            h2 #chain { "Node and chain" }
            dl.facts {
                (fact("Network", &html! { (bitcoin.network) }))
                (fact("Index", &html! {
                    @match bitcoin.tip_height {
                        Some(height) => { "at height " (amounts::count(height.into())) }
                        None => { (bitcoin.sync_percent) " % built" }
                    }
                }))
                @for one in &bitcoin.derived {
                    (fact(&one.name, &html! {
                        (amounts::count(one.blocks.into())) " of " (amounts::count(one.of_blocks.into())) " blocks"
                    }))
                }
                @if let Some(hash) = &bitcoin.tip_hash { (fact("Tip", &html! { span.whole { (hash) } })) }
                (fact("Node", &html! {
                    @match (bitcoin.node_silent_s, bitcoin.node_height) {
                        (None, _) => "none: blocks alone",
                        (Some(_), Some(height)) => { "at height " (amounts::count(height.into())) }
                        (Some(_), None) => "has not answered yet",
                    }
                }))
                @if let Some(silent) = bitcoin.node_silent_s {
                    (fact("Its last answer", &html! { (amounts::duration(silent)) " ago" }))
                    (fact("Calls to it", &html! {
                        (count(bitcoin.node_calls)) ", " (count(bitcoin.node_failed_calls)) " without an answer"
                    }))
                }
                (fact("Index on disk", &html! { (amounts::bytes(bitcoin.index_bytes)) }))
                @if let Some(bytes) = bitcoin.node_bytes {
                    (fact("Node's blocks on disk", &html! {
                        (amounts::bytes(bytes))
                        @if let Some(first) = bitcoin.node_first_block.filter(|first| *first > 0) {
                            ", from height " (amounts::count(first.into())) " on"
                        }
                        @if let Some(free) = bitcoin.node_prunable_bytes.filter(|free| *free > 0) {
                            "; " code { "birdhouse prune" } " can free " (amounts::bytes(free))
                        }
                    }))
                    (fact("Both on disk", &html! { (amounts::bytes(bytes + bitcoin.index_bytes)) }))
                    @if bitcoin.node_first_block.is_some_and(|first| first > 0) {
                        (fact("Old blocks from peers", &html! {
                            (count(bitcoin.fetched_blocks)) " fetched, " (count(bitcoin.failed_fetches)) " not sent; "
                            (amounts::bytes(bitcoin.fetched_bytes.unwrap_or(0))) " of transactions kept"
                        }))
                    }
                }
                @if bitcoin.mempool_transactions.is_some() {
                    (fact("Mempool", &html! {
                        (count(bitcoin.mempool_transactions)) " transactions, "
                        (amounts::vbytes(bitcoin.mempool_vbytes.unwrap_or(0)))
                    }))
                }
            }
        }
    }
}

fn clients(status: &Status) -> Markup {
    let subscriptions = status.bitcoin.as_ref().map_or(0, |bitcoin| bitcoin.subscriptions);
    html! {
        section aria-labelledby="clients" {
            h2 #clients { "Clients" }
            table {
                thead { tr {
                    th scope="col" { "Protocol" }
                    th scope="col" { "Listener" }
                    th.number scope="col" { "Connections" }
                } }
                tbody { @for line in &status.protocols { tr {
                    th scope="row" { (line.protocol) }
                    td { (line.listener) }
                    td.number { (amounts::count(line.connections)) }
                } } }
            }
            dl.facts {
                @if status.bitcoin.is_some() {
                    (fact("Wallets subscribe to", &html! { (amounts::count(subscriptions)) " scripts" }))
                }
                @if let Some(relay) = &status.relay {
                    (fact("Open REQs", &html! { (amounts::count(relay.relay_subscriptions)) }))
                }
                (fact("Clients that wait", &html! { (amounts::count(status.waiting_clients)) }))
            }
        }
    }
}

fn events(relay: &Relay) -> Markup {
    let rate =
        |rate: Rate| html! { (amounts::rate(rate.per_s)) " each second, " (amounts::count(rate.total)) " in all" };
    html! {
        section aria-labelledby="relay" {
            h2 #relay { "Relay" }
            div.columns {
                dl.facts {
                    (fact("Events stored", &html! { (amounts::count(relay.relay_events)) }))
                    (fact("Accepted", &rate(relay.relay_accepted)))
                    (fact("Refused", &rate(relay.relay_refused)))
                    (fact("Sent", &rate(relay.relay_sent)))
                }
                @if !relay.relay_refusals.is_empty() {
                    table {
                        thead { tr { th scope="col" { "Refused because" } th.number scope="col" { "Events" } } }
                        tbody { @for line in &relay.relay_refusals { tr {
                            th scope="row" { (line.reason) }
                            td.number { (amounts::count(line.events)) }
                        } } }
                    }
                }
            }
        }
    }
}

fn streams(streams: &[Stream]) -> Markup {
    html! {
        section aria-labelledby="streams" {
            h2 #streams { "Streams" }
            table {
                thead { tr {
                    th scope="col" { "Stream" }
                    th scope="col" { "State" }
                    th.number scope="col" { "Came" }
                    th.number.spare scope="col" { "New" }
                    th.number scope="col" { "Went" }
                    th.number.spare scope="col" { "Refused there" }
                    th.number.spare scope="col" { "Wait" }
                } }
                tbody { @for line in streams { tr {
                    th scope="row" { (line.stream) ", " (line.dir) " " span.whole { (line.url) } }
                    td { (line.state) " for " (amounts::duration(line.state_s)) }
                    td.number { (amounts::count(line.received)) }
                    td.number.spare { (amounts::count(line.stored)) }
                    td.number { (amounts::count(line.accepted)) }
                    td.number.spare { (amounts::count(line.refused_there)) }
                    td.number.spare { (line.waiting.map_or_else(|| "\u{2013}".to_owned(), amounts::count)) }
                } } }
            }
            @for line in streams.iter() {
                @if let Some(why) = &line.last_refusal {
                    p.quiet { (line.stream) ", " (line.url) ": the last refusal there was \u{201c}" (why) "\u{201d}" }
                }
            }
        }
    }
}

fn set_aside(events: &[SetAside]) -> Markup {
    html! {
        section aria-labelledby="set-aside" {
            h2 #set-aside { "Set aside" }
            p.quiet { "Other relays do not answer these events. The streams have gone on without them." }
            table {
                thead { tr {
                    th scope="col" { "Event" }
                    th scope="col" { "Stream" }
                    th scope="col" { "Last attempt" }
                } }
                tbody { @for one in in_turn(events).into_iter().take(SET_ASIDE_ROWS) { tr {
                    th scope="row" { span.whole { (one.event) } }
                    td { (one.stream) " " span.whole { (one.url) } }
                    td { (one.reason) }
                } } }
            }
            @if events.len() > SET_ASIDE_ROWS {
                p.quiet { (events.len() - SET_ASIDE_ROWS) " more are in the answer of " code { "birdhouse ctl status" } }
            }
        }
    }
}

/// Returns the newest event of each stream and relay, then the second ones, and so on. One that has many hides no
/// other.
fn in_turn(events: &[SetAside]) -> Vec<&SetAside> {
    let mut later: HashMap<(&str, &str), usize> = HashMap::new();
    let ranked = events.iter().rev().map(|one| {
        let rank = later.entry((&one.stream, &one.url)).or_default();
        *rank += 1;
        (*rank, one)
    });
    let mut ranked: Vec<(usize, &SetAside)> = ranked.collect();
    ranked.sort_by_key(|(rank, _)| *rank);
    ranked.into_iter().map(|(_, one)| one).collect()
}

fn slowest(kinds: &[SlowKind]) -> Markup {
    html! {
        section aria-labelledby="slowest" {
            h2 #slowest { "Slowest questions of the last hour" }
            @if kinds.is_empty() {
                p.quiet { "None took longer than a tenth of a millisecond." }
            } @else {
                table {
                    thead { tr {
                        th scope="col" { "Kind" }
                        th.number.spare scope="col" { "Number" }
                        th.number scope="col" { "Mean (ms)" }
                        th.number scope="col" { "Longest (ms)" }
                    } }
                    tbody { @for kind in kinds { tr {
                        th scope="row" { (kind.protocol) " " span.whole { (kind.shape) } }
                        td.number.spare { (amounts::count(kind.count)) }
                        td.number { (amounts::rate(kind.mean_ms)) }
                        td.number { (amounts::rate(kind.longest_ms)) }
                    } } }
                }
                p.quiet { "A kind has no arguments: nothing here tells what a client asked for." }
            }
        }
    }
}

fn memory(status: &Status) -> Markup {
    let bytes = |bytes: Option<u64>| html! { (bytes.map_or_else(|| "\u{2013}".to_owned(), amounts::bytes)) };
    html! {
        section aria-labelledby="memory" {
            h2 #memory { "Memory and files" }
            dl.facts {
                (fact("Memory", &bytes(status.memory_bytes)))
                (fact("At its peak", &bytes(status.memory_peak_bytes)))
                @if let Some(bitcoin) = &status.bitcoin {
                    (fact("Cached index blocks", &bytes(Some(bitcoin.cache_bytes))))
                }
                @if let (Some(open), Some(most)) = (status.open_files, status.open_files_max) {
                    (fact("Open files", &html! { (amounts::count(open)) " of " (amounts::count(most)) }))
                }
            }
        }
    }
}

fn disk(status: &Status) -> Markup {
    let all: u64 = status.disk.iter().map(|table| table.bytes).sum();
    let most = status.disk.iter().map(|table| table.bytes).max().unwrap_or(0).max(1);
    html! {
        section aria-labelledby="disk" {
            h2 #disk { "Disk" }
            dl.facts {
                (fact("Used", &html! { (amounts::bytes(all)) }))
                @if let Some(free) = status.disk_free_bytes { (fact("Free", &html! { (amounts::bytes(free)) })) }
            }
            @if !status.disk.is_empty() {
                table.histogram {
                    thead { tr {
                        th scope="col" { "Table" }
                        th scope="col" { span.unseen { "Share" } }
                        th.number scope="col" { "Size" }
                    } }
                    tbody { @for table in &status.disk { (size(table, most)) } }
                }
            }
        }
    }
}

fn size(size: &TableSize, most: u64) -> Markup {
    let share = u128::from(size.bytes) * 1000 / u128::from(most);
    html! {
        tr {
            th scope="row" { (size.part) " " (size.table) }
            td.wide { (bar(u64::try_from(share).unwrap_or(1000))) }
            td.number { (amounts::bytes(size.bytes)) }
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is positive and far below 2^52")]
fn whole(rate: f64) -> u64 {
    rate as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Derived, Warning};

    #[test]
    fn events_that_were_set_aside_are_shown_the_newest_first_and_not_too_many() {
        let event = |number: usize| SetAside { event: format!("event-{number}"), ..SetAside::default() };
        let of = |count: usize| Status { set_aside: (0..count).map(event).collect(), ..Status::default() };
        assert!(!status_page(&of(0)).contains("Set aside"));
        let page = status_page(&of(SET_ASIDE_ROWS + 2));
        assert!(page.contains("event-21<") && page.contains("event-2<") && !page.contains("event-1<"), "{page}");
        assert!(page.contains("2 more are in the answer"), "{page}");
    }

    #[test]
    fn events_that_one_stream_has_set_aside_hide_no_other_stream() {
        let of = |stream: &str, number: usize| SetAside {
            stream: stream.to_owned(),
            event: format!("{stream}-{number}"),
            ..SetAside::default()
        };
        let many = (0..SET_ASIDE_ROWS).map(|number| of("many", number));
        let page =
            status_page(&Status { set_aside: [of("one", 0)].into_iter().chain(many).collect(), ..Status::default() });
        assert!(page.contains("one-0<") && page.contains("many-19<") && !page.contains("many-0<"), "{page}");
    }

    #[test]
    fn a_build_shows_its_progress_rate_and_time_left() {
        let build = Build {
            phase: Phase::Reading,
            done: 300_000_000,
            total: 900_000_000,
            done_per_s: 20e6,
            blocks: 1000,
            blocks_total: 3000,
            left_s: Some(600),
        };
        let derived = vec![Derived { name: "filters".into(), blocks: 7, of_blocks: 3000, failure: None }];
        let bitcoin =
            Bitcoin { network: "signet".into(), sync_percent: 25, derived, build: Some(build), ..Bitcoin::default() };
        let page = status_page(&Status { bitcoin: Some(bitcoin), health: "syncing, 25 %".into(), ..Status::default() });
        for part in [
            "The index is being built",
            "20.00\u{a0}MB each second",
            "about 10\u{a0}min",
            "value=\"25\"",
            "signet",
            "7 of 3\u{202f}000 blocks",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn services_are_links_and_an_address_that_no_phone_reaches_has_no_qr_code() {
        let local = Endpoint { host: "127.0.0.1".into(), port: 50_001, is_local: true, ..Endpoint::default() };
        let public = Endpoint { host: "electrum.example.org".into(), is_local: false, ..local.clone() };
        let link = |serves: &str, url: &str| Link { serves: serves.into(), url: url.into() };
        let links = vec![link("explorer", "http://192.168.1.5:8080"), link("relay", "wss://relay.example.org")];
        let page =
            |endpoint| status_page(&Status { endpoints: vec![endpoint], links: links.clone(), ..Status::default() });
        assert!(!page(local.clone()).contains("QR code"));
        let inner = Endpoint { host: "172.17.0.2".into(), is_local: false, is_inner: true, ..local.clone() };
        let inner = page(inner);
        assert!(!inner.contains("QR code") && inner.contains("172.17.0.2") && inner.contains("a container"), "{inner}");
        let page = page(public);
        assert!(page.contains("QR code of electrum.example.org:50001:t"), "{page}");
        assert!(
            page.contains("href=\"http://192.168.1.5:8080\"") && page.contains("wss://relay.example.org"),
            "{page}"
        );
    }

    #[test]
    fn text_from_outside_is_escaped_and_commands_are_marked() {
        let warning = Warning { text: "<b>".into(), advice: "run `a & b` now".into(), ..Warning::default() };
        let page = status_page(&Status { warnings: vec![warning], ..Status::default() });
        assert!(page.contains("&lt;b&gt;") && !page.contains("<b>"), "{page}");
        assert!(page.contains("run <code>a &amp; b</code> now"), "{page}");
    }
}
