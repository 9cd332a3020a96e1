//! The state of the server in a terminal.

use birdhouse_web::amounts;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Gauge, Paragraph, Row, Table, Widget, Wrap};

use crate::status::{Bitcoin, Build, Phase, Rate, Relay, Status, Stream, Watched};

/// Rows of the lists.
const LIST_ROWS: usize = 10;

/// The widget of a status; it fills its area.
#[derive(Debug)]
pub struct Top<'a>(pub &'a Status);

/// Returns one frame as lines of text.
pub fn frame_text(status: &Status, width: u16, height: u16) -> String {
    let area = Rect::new(0, 0, width, height);
    let mut buffer = Buffer::empty(area);
    Top(status).render(area, &mut buffer);
    let mut text = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

impl Widget for Top<'_> {
    fn render(self, area: Rect, buffer: &mut Buffer) {
        let status = self.0;
        let build = status.bitcoin.as_ref().and_then(|bitcoin| Some((bitcoin.build.as_ref()?, bitcoin.sync_percent)));
        let warnings: Vec<Line<'_>> = status.warnings.iter().map(|one| warning(&one.text, &one.advice)).collect();
        let rows = |count: usize| u16::try_from(count.min(LIST_ROWS)).unwrap_or(u16::MAX);
        // Long warnings wrap, so each has two lines.
        let warning_rows = if warnings.is_empty() { 0 } else { 2 + 2 * rows(warnings.len()) };
        let list_rows = 3 + rows(status.slowest.len().max(status.disk.len()).max(1));
        let derived = status.bitcoin.as_ref().map_or(0, |bitcoin| bitcoin.derived.len());
        let watched = status.watched.as_ref().map(of_watched).unwrap_or_default();
        let further_rows = rows((derived + watched.len()).max(status.streams.len()));
        let [head, progress, alarms, facts, lists] = Layout::vertical([
            Constraint::Length(2),
            Constraint::Length(if build.is_some() { 3 } else { 0 }),
            Constraint::Length(warning_rows),
            Constraint::Length(12 + further_rows),
            Constraint::Length(list_rows),
        ])
        .areas(area);
        header(status).render(head, buffer);
        if let Some((build, percent)) = build {
            gauge(build, percent).render(progress, buffer);
        }
        if !warnings.is_empty() {
            let block = Block::bordered().title(" Warnings ").border_style(Color::Red);
            Paragraph::new(warnings).wrap(Wrap { trim: true }).block(block).render(alarms, buffer);
        }
        let [chain, clients, events] = Layout::horizontal([Constraint::Fill(1); 3]).areas(facts);
        let of_chain = status.bitcoin.as_ref().map(of_chain).unwrap_or_default();
        let of_derived = status.bitcoin.as_ref().map(of_derived).unwrap_or_default();
        let facts = of_chain.into_iter().chain(watched).chain(of_derived);
        boxed("Node and chain", facts.collect()).render(chain, buffer);
        boxed("Clients and process", of_process(status)).render(clients, buffer);
        let of_relay = status.relay.as_ref().map(of_relay).unwrap_or_default();
        let of_streams = status.streams.iter().take(LIST_ROWS).map(of_stream);
        boxed("Relay", of_relay.into_iter().chain(of_streams).collect()).render(events, buffer);
        let [slow, disk] = Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]).areas(lists);
        slowest(status).render(slow, buffer);
        tables(status).render(disk, buffer);
    }
}

fn header(status: &Status) -> Paragraph<'_> {
    let color = if status.is_good { Color::Green } else { Color::Yellow };
    let network = status.bitcoin.as_ref().map(|bitcoin| format!(" {}", bitcoin.network)).unwrap_or_default();
    let first = format!("Birdhouse {}{network}, up {}", status.version, amounts::duration(status.uptime_s));
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Paragraph::new(vec![Line::styled(plain(&first), bold), Line::styled(plain(&status.health), color)])
}

fn gauge(build: &Build, percent: u8) -> Gauge<'static> {
    let done = match build.phase {
        Phase::Scanning => String::new(),
        Phase::Reading => {
            format!(", block {} of {}, {:.1} MB/s", build.blocks, build.blocks_total, build.done_per_s / 1e6)
        }
        Phase::Sorting => format!(", partition {} of {}", build.done, build.total),
    };
    let left = build.left_s.map(|left| format!(", {} left", plain(&amounts::duration(left)))).unwrap_or_default();
    Gauge::default()
        .block(Block::bordered().title(" First build "))
        .gauge_style(Color::Yellow)
        .percent(u16::from(percent.min(100)))
        .label(format!("{percent} %, {}{done}{left}", build.phase_name().to_lowercase()))
}

fn warning<'a>(text: &'a str, advice: &'a str) -> Line<'a> {
    let bold = Style::new().add_modifier(Modifier::BOLD);
    Line::from(vec![Span::styled(text, bold), Span::raw(" "), Span::raw(advice)])
}

/// A list of terms and values in a box.
fn boxed(title: &'static str, facts: Vec<(&str, String)>) -> Table<'static> {
    let rows = facts.into_iter().map(|(term, value)| Row::new([term.to_owned(), plain(&value)]));
    let block = Block::bordered().title(format!(" {title} "));
    Table::new(rows, [Constraint::Length(14), Constraint::Fill(1)]).block(block)
}

fn of_chain(bitcoin: &Bitcoin) -> Vec<(&str, String)> {
    let count = |number: Option<u64>| number.map_or_else(|| "-".to_owned(), |number| number.to_string());
    let mempool = format!(
        "{} txs, {}",
        count(bitcoin.mempool_transactions),
        bitcoin.mempool_vbytes.map_or_else(|| "-".into(), amounts::vbytes)
    );
    vec![
        ("index", count(bitcoin.tip_height.map(u64::from))),
        ("node", count(bitcoin.node_height.map(u64::from))),
        ("answered", bitcoin.node_silent_s.map_or_else(|| "-".into(), |s| format!("{} ago", amounts::duration(s)))),
        ("index disk", amounts::bytes(bitcoin.index_bytes)),
        ("node disk", node_disk(bitcoin)),
        (
            "both disks",
            bitcoin.node_bytes.map_or_else(|| "-".into(), |bytes| amounts::bytes(bytes + bitcoin.index_bytes)),
        ),
        ("old blocks", format!("{} fetched", count(bitcoin.fetched_blocks))),
        ("calls", format!("{}, {} failed", count(bitcoin.node_calls), count(bitcoin.node_failed_calls))),
        ("mempool", mempool),
        ("cache", amounts::bytes(bitcoin.cache_bytes)),
    ]
}

fn of_derived(bitcoin: &Bitcoin) -> Vec<(&str, String)> {
    let derived = bitcoin.derived.iter().take(LIST_ROWS);
    derived.map(|one| (one.name.as_str(), format!("{} of {} blocks", one.blocks, one.of_blocks))).collect()
}

fn of_watched(watched: &Watched) -> Vec<(&str, String)> {
    let Watched { watches, watch_faults, watch_notices, watch_waiting, watch_channels, failing_channels } = watched;
    let with = |count: &u64, more: String| if more.is_empty() { count.to_string() } else { format!("{count}, {more}") };
    let some = |count: &u64, what: &str| if *count == 0 { String::new() } else { format!("{count} {what}") };
    let failing = failing_channels.join(", ");
    let failing = if failing.is_empty() { failing } else { format!("failing: {failing}") };
    vec![
        ("watches", with(watches, some(watch_faults, "faulty"))),
        ("channels", with(watch_channels, failing)),
        ("notices", with(watch_notices, some(watch_waiting, "waiting"))),
    ]
}

fn node_disk(bitcoin: &Bitcoin) -> String {
    let Some(bytes) = bitcoin.node_bytes else { return "-".into() };
    match bitcoin.node_prunable_bytes.filter(|free| *free > 0) {
        Some(free) => format!("{}, {} can go", amounts::bytes(bytes), amounts::bytes(free)),
        None => amounts::bytes(bytes),
    }
}

/// The connections of each protocol, then the figures of the process.
fn of_process(status: &Status) -> Vec<(&str, String)> {
    let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), amounts::bytes);
    let mut facts: Vec<(&str, u64)> = Vec::new();
    for line in &status.protocols {
        match facts.iter_mut().find(|(protocol, _)| *protocol == line.protocol) {
            Some((_, connections)) => *connections += line.connections,
            None => facts.push((&line.protocol, line.connections)),
        }
    }
    let facts = facts.into_iter().take(LIST_ROWS).map(|(protocol, connections)| (protocol, connections.to_string()));
    let bitcoin = status.bitcoin.as_ref();
    let of_process = [
        ("scripts", bitcoin.map_or(0, |bitcoin| bitcoin.subscriptions).to_string()),
        ("waiting", status.waiting_clients.to_string()),
        ("memory", bytes(status.memory_bytes)),
        ("files", status.open_files.map_or_else(|| "-".to_owned(), |files| files.to_string())),
        ("disk free", bytes(status.disk_free_bytes)),
    ];
    facts.chain(of_process).collect()
}

/// One line for a URL of a stream. The name comes from the settings.
fn of_stream(stream: &Stream) -> (&'static str, String) {
    let Stream { stream, url, state, received, accepted, .. } = stream;
    ("stream", format!("{stream} {state}, {received} in, {accepted} out, {url}"))
}

fn of_relay(relay: &Relay) -> Vec<(&'static str, String)> {
    let rate = |rate: Rate| format!("{}/s, {}", amounts::rate(rate.per_s), rate.total);
    let refusals = relay.relay_refusals.iter().take(2);
    let refusals: Vec<String> = refusals.map(|one| format!("{} {}", one.reason, one.events)).collect();
    vec![
        ("state", relay.relay_state.clone()),
        ("events", relay.relay_events.to_string()),
        ("accepted", rate(relay.relay_accepted)),
        ("refused", rate(relay.relay_refused)),
        ("reasons", if refusals.is_empty() { "-".into() } else { refusals.join(", ") }),
        ("sent", rate(relay.relay_sent)),
        ("open REQs", relay.relay_subscriptions.to_string()),
    ]
}

fn slowest(status: &Status) -> Table<'_> {
    let rows = status.slowest.iter().take(LIST_ROWS).map(|kind| {
        let (mean, longest) = (amounts::rate(kind.mean_ms), amounts::rate(kind.longest_ms));
        Row::new([format!("{} {}", kind.protocol, kind.shape), kind.count.to_string(), mean, longest])
    });
    let widths = [Constraint::Fill(1), Constraint::Length(8), Constraint::Length(9), Constraint::Length(9)];
    Table::new(rows, widths)
        .header(Row::new(["kind", "number", "mean ms", "most ms"]).style(Style::new().add_modifier(Modifier::DIM)))
        .block(Block::bordered().title(" Slowest questions of the last hour "))
}

fn tables(status: &Status) -> Table<'_> {
    let rows = status
        .disk
        .iter()
        .take(LIST_ROWS)
        .map(|table| Row::new([format!("{} {}", table.part, table.table), plain(&amounts::bytes(table.bytes))]));
    Table::new(rows, [Constraint::Fill(1), Constraint::Length(11)])
        .header(Row::new(["table", "size"]).style(Style::new().add_modifier(Modifier::DIM)))
        .block(Block::bordered().title(" Disk "))
}

/// Replaces the narrow spaces of pages, which some terminals draw too wide.
fn plain(text: &str) -> String {
    text.replace(['\u{a0}', '\u{202f}'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::{Derived, Protocol, SlowKind, TableSize, Warning};

    fn status() -> Status {
        let bitcoin = Bitcoin {
            network: "regtest".into(),
            tip_height: Some(840_000),
            sync_percent: 100,
            derived: vec![Derived { name: "filters".into(), blocks: 7, of_blocks: 840_001, failure: None }],
            ..Bitcoin::default()
        };
        Status {
            version: "0.1.0".into(),
            health: "serving at height 840000".into(),
            is_good: true,
            uptime_s: 400,
            disk: vec![TableSize { part: "index".into(), table: "script".into(), bytes: 2_500_000_000 }],
            slowest: vec![SlowKind {
                protocol: "Electrum".into(),
                shape: "history".into(),
                count: 7,
                mean_ms: 1.5,
                longest_ms: 250.0,
            }],
            protocols: vec![Protocol { protocol: "Electrum".into(), listener: "tls".into(), connections: 31 }],
            bitcoin: Some(bitcoin),
            ..Status::default()
        }
    }

    #[test]
    fn a_frame_shows_state_clients_slow_questions_and_disk() {
        let text = frame_text(&status(), 110, 40);
        for part in [
            "Birdhouse 0.1.0 regtest, up 6 min",
            "serving at height 840000",
            "index          840000",
            "filters        7 of 840001 blocks",
            "Electrum       31",
            "Electrum history",
            "250",
            "index script",
            "2.50 GB",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        assert!(!text.contains("First build") && !text.contains("Warnings"), "{text}");
    }

    #[test]
    fn watches_are_shown_by_their_counts_and_the_channels_that_fail() {
        let mut status = status();
        assert!(!frame_text(&status, 110, 40).contains("channels"), "without a watch file");
        let watched = Watched { watches: 3, watch_channels: 2, watch_notices: 120, ..Watched::default() };
        status.watched = Some(watched.clone());
        let text = frame_text(&status, 110, 40);
        for part in ["watches        3 ", "channels       2 ", "notices        120 ", "filters        7 of 840001"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
        let failing_channels = vec!["hook".into(), "me".into()];
        status.watched = Some(Watched { watch_faults: 1, watch_waiting: 4, failing_channels, ..watched });
        let text = frame_text(&status, 110, 40);
        for part in ["watches        3, 1 faulty", "channels       2, failing: hook, me", "120, 4 waiting"] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }

    #[test]
    fn a_build_and_warnings_come_first() {
        let mut status = status();
        let build = Build {
            phase: Phase::Reading,
            blocks: 5,
            blocks_total: 10,
            done_per_s: 3e6,
            left_s: Some(300),
            ..Build::default()
        };
        if let Some(bitcoin) = &mut status.bitcoin {
            (bitcoin.build, bitcoin.sync_percent) = (Some(build), 37);
        }
        status.warnings =
            vec![Warning { text: "The disk is full.".into(), advice: "Make room.".into(), ..Warning::default() }];
        let text = frame_text(&status, 100, 45);
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}:\n{text}"));
        assert!(
            place("37 %, reading blocks, block 5 of 10, 3.0 MB/s, 5 min left") < place("The disk is full. Make room.")
        );
        assert!(place("Make room.") < place("Node and chain"));
    }

    #[test]
    fn any_size_of_a_terminal_is_drawn() {
        for (width, height) in [(0, 0), (1, 1), (20, 5), (300, 100)] {
            frame_text(&status(), width, height);
        }
    }
}
