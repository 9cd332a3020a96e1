//! The page of what others have reported to the relay (NIP-56), with the operator's decisions. It shows text alone: no
//! picture of a reported event is loaded.

use birdhouse_web::parts::{badge, long_name};
use maud::{Markup, html};

use crate::control_page::{Commands, form};
use crate::site;

/// Values of the page.
#[derive(Debug)]
pub struct Reports<'a> {
    /// Name of the network; `None` for the relay alone.
    pub network: Option<&'a str>,
    /// The commands that browsers may use.
    pub commands: Commands<'a>,
    /// Events and authors on which nothing is decided, the most reported first; or why they cannot be read.
    pub reported: Result<&'a [ReportedLine], &'a str>,
    /// The newest decisions.
    pub decided: &'a [DecidedLine],
}

/// An event or an author that others have reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedLine {
    /// The event or the author.
    pub subject: Named,
    /// The author of the event, or the author itself, in hexadecimal.
    pub author: String,
    /// Kind of the event; `None` for an author.
    pub kind: Option<u16>,
    /// Beginning of the event's content.
    pub content: String,
    /// Number of reporters.
    pub reporters: usize,
    /// Types of their reports.
    pub reason: String,
    /// Beginnings of their texts.
    pub texts: Vec<String>,
}

/// A decision of the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecidedLine {
    /// The thing that it is about.
    pub subject: Named,
    /// The decision.
    pub decision: Decision,
    /// The operator's reason.
    pub reason: String,
    /// Its end, in ISO 8601.
    pub until: Option<String>,
}

/// A decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is refused, and in no answer.
    Banned,
    /// It is accepted, whatever the lists of the settings say.
    Allowed,
    /// Reports about it are not listed.
    Ignored,
}

/// A subject as `birdhouse ctl` names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// `event`, `author`, `kind` or `client`.
    pub noun: &'static str,
    /// Id or key in hexadecimal, number or network.
    pub value: String,
}

/// Returns the page.
pub fn reports_page(reports: &Reports<'_>) -> String {
    site::page(
        "Reports",
        reports.network,
        &html! {
            h1 { "Reports" }
            p.quiet { "What others have reported, and the relay stores. A report alone decides nothing." }
            @if let Commands::On { .. } = reports.commands {
                p { a href="/audit" { "Audit log: all decisions, and a way to undo them" } }
            }
            @match reports.reported {
                Err(why) => section.card.bad aria-label="Reason" { p { (why) } },
                Ok([]) => p { "Nothing waits for a decision." },
                Ok(lines) => @for (at, line) in lines.iter().enumerate() { (reported(reports.commands, at, line)) },
            }
            @if let Commands::On { token } = reports.commands { (ban(token)) }
            (decided(reports.commands, reports.decided))
        },
    )
}

fn reported(commands: Commands<'_>, at: usize, line: &ReportedLine) -> Markup {
    let heading = format!("reported-{at}");
    html! {
        section aria-labelledby=(heading) {
            h2 id=(heading) {
                @match line.kind {
                    Some(kind) => { "Event of kind " (kind) },
                    None => "Author",
                }
                " " (badge("bad", &line.reason))
            }
            dl.facts {
                (birdhouse_web::parts::fact("Reporters", &html! { (line.reporters) }))
                @if line.kind.is_some() { (birdhouse_web::parts::fact("Event", &long_name(&line.subject.value))) }
                (birdhouse_web::parts::fact("Author", &long_name(&line.author)))
            }
            @if !line.content.is_empty() { p.note { (line.content) } }
            @for text in &line.texts { p.quiet { "Reporter: " (text) } }
            @match commands {
                Commands::Off => p.quiet { "On the server: birdhouse ctl ban " (line.subject.noun) " " (line.subject.value) },
                Commands::On { token } => div.choices {
                    @let label = format!("Ban this {}", line.subject.noun);
                    (decide(token, Choice::Ban, &line.subject, &line.reason, &label))
                    @if line.kind.is_some() {
                        @let author = Named { noun: "author", value: line.author.clone() };
                        (decide(token, Choice::Ban, &author, &line.reason, "Ban its author"))
                    }
                    (decide(token, Choice::Ignore, &line.subject, "reports ignored", "Ignore the reports"))
                },
            }
        }
    }
}

/// A choice about what is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Ban,
    Ignore,
}

/// A form that decides on a subject.
fn decide(token: &str, choice: Choice, subject: &Named, reason: &str, label: &str) -> Markup {
    let command = if choice == Choice::Ban { "ban" } else { "ignore" };
    form(
        command,
        token,
        &html! {
            (hidden(subject))
            input type="hidden" name="reason" value=(reason);
            @if choice == Choice::Ban { (time_of_ban(&format!("{label}: time"))) }
            button aria-label={ (label) ": " (subject.value) } { (label) }
        },
    )
}

/// Times of bans that the page offers, as the setting's text and in words.
const TIMES: [(&str, &str); 4] =
    [("1 h", "for an hour"), ("1 d", "for a day"), ("7 d", "for a week"), ("30 d", "for 30 days")];

/// A field for the time of a ban.
fn time_of_ban(label: &str) -> Markup {
    html! {
        select name="for" aria-label=(label) {
            option value="" { "until it is taken back" }
            @for (time, words) in TIMES {
                option value=(time) { (words) }
            }
        }
    }
}

/// A form that bans anything.
fn ban(token: &str) -> Markup {
    html! {
        section aria-labelledby="ban" {
            h2 #ban { "Ban" }
            (form("ban", token, &html! {
                label for="type" { "Type" }
                select #type name="type" {
                    @for noun in ["author", "event", "kind", "client"] { option value=(noun) { (noun) } }
                }
                label for="value" { "Key, id, number of a kind, or address or network of clients" }
                input #value name="value" required autocomplete="off" spellcheck="false";
                label for="reason" { "Reason, for your own records" }
                input #reason name="reason" autocomplete="off";
                (time_of_ban("Time of the ban"))
                button { "Ban" }
            }))
        }
    }
}

fn hidden(subject: &Named) -> Markup {
    html! {
        input type="hidden" name="type" value=(subject.noun);
        input type="hidden" name="value" value=(subject.value);
    }
}

fn decided(commands: Commands<'_>, lines: &[DecidedLine]) -> Markup {
    html! {
        @if !lines.is_empty() {
            section aria-labelledby="decided" {
                h2 #decided { "Decided" }
                table {
                    thead { tr {
                        th scope="col" { "Decision" }
                        th scope="col" { "About" }
                        th.spare scope="col" { "Reason" }
                        th scope="col" { span.unseen { "Take back" } }
                    } }
                    tbody { @for line in lines { (decided_line(commands, line)) } }
                }
            }
        }
    }
}

fn decided_line(commands: Commands<'_>, line: &DecidedLine) -> Markup {
    let (text, command) = match line.decision {
        Decision::Banned => ("banned", "unban"),
        Decision::Allowed => ("allowed", "unallow"),
        Decision::Ignored => ("reports ignored", "unignore"),
    };
    html! {
        tr {
            td {
                (text)
                @if let Some(until) = &line.until { " until " time datetime=(until) { (readable(until)) } }
            }
            td.wide { (line.subject.noun) " " (long_name(&line.subject.value)) }
            td.spare { (line.reason) }
            td.number {
                @if let Commands::On { token } = commands {
                    (form(command, token, &html! {
                        (hidden(&line.subject))
                        button aria-label={ "Take back: " (line.subject.value) } { "Take back" }
                    }))
                }
            }
        }
    }
}

/// Returns a time of ISO 8601 for readers, to the minute.
pub(crate) fn readable(iso: &str) -> String {
    format!("{} UTC", iso.get(..16).unwrap_or(iso).replace('T', " "))
}
