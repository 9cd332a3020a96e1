//! The page with the commands of `birdhouse ctl`, and the pages of their outcomes.

use birdhouse_web::amounts;
use birdhouse_web::parts::code;
use maud::{Markup, html};

use crate::site;

/// Values of the page.
#[derive(Debug)]
pub struct Control<'a> {
    /// Name of the network; `None` for the relay alone.
    pub network: Option<&'a str>,
    /// The commands that browsers may use.
    pub commands: Commands<'a>,
    /// The reorg that waits for the operator.
    pub deep_reorg: Option<&'a str>,
    /// The relay is on.
    pub has_relay: bool,
    /// The server may watch wallets of the operator.
    pub has_watches: bool,
    /// Connections of clients, the oldest first.
    pub connections: &'a [ConnectionLine],
    /// Connections that are not in the list.
    pub more_connections: usize,
}

/// Access of browsers to commands.
#[derive(Debug, Clone, Copy)]
pub enum Commands<'a> {
    /// They are off; the page shows the commands to type.
    Off,
    /// Each form carries this token.
    On {
        /// The token of this process.
        token: &'a str,
    },
}

/// A connection of a client. It has no address: the page shows counts only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionLine {
    /// Number of the connection.
    pub id: u64,
    /// Name of its listener.
    pub listener: String,
    /// Seconds since it was opened.
    pub age_s: u64,
    /// Requests on it.
    pub requests: u64,
    /// Bytes to and from it.
    pub bytes: u64,
    /// Milliseconds of work done for it.
    pub work_ms: u64,
}

/// The outcome of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It was done; the answer.
    Done(String),
    /// It was not done; the reason.
    Failed(String),
}

/// Returns the page with all commands.
pub fn control_page(control: &Control<'_>) -> String {
    site::page(
        "Control",
        control.network,
        &html! {
            h1 { "Control" }
            @if control.has_watches { p { a href="/watches" { "Watched wallets and channels" } } }
            @if control.has_relay { p { a href="/reports" { "Reports to the relay, and bans" } } }
            @if let Commands::On { .. } = control.commands { p { a href="/audit" { "Audit log" } } }
            @match control.commands {
                Commands::Off => (typed(control)),
                Commands::On { token } => {
                    @if let Some(reason) = control.deep_reorg { (reorg(token, reason)) }
                    div.columns { (log_level(token)) (stop(token)) }
                    @if control.has_relay { (explain(token)) }
                    (connections(token, control))
                }
            }
        },
    )
}

/// The page with the form of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormPage {
    /// `/control`.
    Control,
    /// `/watches`.
    Watches,
    /// `/audit`.
    Audit,
}

impl FormPage {
    /// Returns the link back to it.
    fn link(self) -> Markup {
        match self {
            Self::Control => html! { a href="/control" { "Back to the commands" } },
            Self::Watches => html! { a href="/watches" { "Back to the watches" } },
            Self::Audit => html! { a href="/audit" { "Back to the audit log" } },
        }
    }
}

/// Returns the page of a command's outcome. `command` is the one to type for the same.
pub fn outcome_page(command: &str, page: FormPage, outcome: &Outcome) -> String {
    let (title, class, text) = match outcome {
        Outcome::Done(answer) => ("Done", "good", answer),
        Outcome::Failed(reason) => ("Not done", "bad", reason),
    };
    site::page(
        title,
        None,
        &html! {
            h1 { (title) }
            section.card.(class) aria-label="Outcome" role="status" {
                p { (command) }
                (code(text, "Answer"))
            }
            p { (page.link()) }
        },
    )
}

/// Returns the page of a request that is refused.
pub fn refusal_page(title: &str, reason: &str) -> String {
    site::page(
        title,
        None,
        &html! {
            h1 { (title) }
            section.card.bad aria-label="Reason" { p { (reason) } }
            p { a href="/" { "To the state of the server" } }
        },
    )
}

fn typed(control: &Control<'_>) -> Markup {
    html! {
        section aria-label="Commands" {
            p { "Buttons are off because this address is not on loopback. The setting ops-control = \"on\" shows them to \
                everyone who reaches it. On the server, type:" }
            dl.facts {
                (birdhouse_web::parts::fact("birdhouse ctl log-level LEVEL", &html! { "change the log level" }))
                (birdhouse_web::parts::fact("birdhouse ctl stop", &html! { "stop the server" }))
                (birdhouse_web::parts::fact("birdhouse ctl connections", &html! { "list the connections" }))
                (birdhouse_web::parts::fact("birdhouse ctl disconnect ID", &html! { "close one of them" }))
                @if control.network.is_some() {
                    (birdhouse_web::parts::fact("birdhouse ctl accept-reorg", &html! { "follow a deep reorg" }))
                }
                @if control.has_relay {
                    (birdhouse_web::parts::fact("birdhouse ctl explain FILTER", &html! { "show the plan of a filter" }))
                }
            }
            @if let Some(reason) = control.deep_reorg { p { strong { (reason) } } }
        }
    }
}

/// A form for one command.
pub(crate) fn form(command: &str, token: &str, content: &Markup) -> Markup {
    html! {
        form.ask method="post" action={ "/control/" (command) } {
            input type="hidden" name="token" value=(token);
            (content)
        }
    }
}

fn reorg(token: &str, reason: &str) -> Markup {
    html! {
        section.card.bad aria-labelledby="reorg" {
            h2 #reorg { "A deep reorg waits" }
            p { (reason) }
            (form("accept-reorg", token, &html! { button { "Follow the node's chain" } }))
        }
    }
}

fn log_level(token: &str) -> Markup {
    html! {
        section aria-labelledby="log" {
            h2 #log { "Log" }
            (form("log-level", token, &html! {
                label for="level" { "Level until the next start" }
                input #level name="level" required autocomplete="off" spellcheck="false" list="levels" value="info";
                datalist #levels { @for level in ["off", "error", "warn", "info", "debug", "trace"] { option value=(level) {} } }
                button { "Change the level" }
            }))
        }
    }
}

fn stop(token: &str) -> Markup {
    html! {
        section aria-labelledby="end" {
            h2 #end { "Stop" }
            (form("stop", token, &html! {
                label.check { input type="checkbox" name="sure" value="yes" required; " Yes, stop the server now" }
                button { "Stop Birdhouse" }
            }))
            p.quiet { "A service that restarts by itself starts it again." }
        }
    }
}

fn explain(token: &str) -> Markup {
    html! {
        section aria-labelledby="explain" {
            h2 #explain { "Explain a filter" }
            (form("explain", token, &html! {
                label for="filter" { "Filter of NIP-01" }
                textarea #filter name="filter" rows="3" required spellcheck="false" { "{\"kinds\":[1],\"limit\":100}" }
                button { "Show its plan and cost" }
            }))
        }
    }
}

fn connections(token: &str, control: &Control<'_>) -> Markup {
    html! {
        section aria-labelledby="connections" {
            h2 #connections { "Connections" }
            @if control.connections.is_empty() {
                p.quiet { "None is open." }
            } @else {
                table {
                    thead { tr {
                        th scope="col" { "Number" }
                        th.spare scope="col" { "Listener" }
                        th scope="col" { "Age" }
                        th.number scope="col" { "Requests" }
                        th.number.spare scope="col" { "Bytes" }
                        th.number.spare scope="col" { "Work (ms)" }
                        th scope="col" { span.unseen { "Close" } }
                    } }
                    tbody { @for line in control.connections { (connection(token, line)) } }
                }
            }
            @if control.more_connections > 0 { p.quiet { "And " (control.more_connections) " more." } }
        }
    }
}

fn connection(token: &str, line: &ConnectionLine) -> Markup {
    html! {
        tr {
            th scope="row" { (line.id) }
            td.spare { (line.listener) }
            td { (amounts::duration(line.age_s)) }
            td.number { (amounts::count(line.requests)) }
            td.number.spare { (amounts::bytes(line.bytes)) }
            td.number.spare { (amounts::count(line.work_ms)) }
            td.number {
                (form("disconnect", token, &html! {
                    input type="hidden" name="id" value=(line.id);
                    button aria-label={ "Close connection " (line.id) } { "Close" }
                }))
            }
        }
    }
}
