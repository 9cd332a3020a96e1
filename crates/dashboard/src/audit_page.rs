//! The page of the audit log: who has changed which rule, when and for which reason, with a button that undoes it.

use birdhouse_web::parts::long_name;
use maud::{Markup, html};

use crate::control_page::{Commands, form};
use crate::reports_page::{Named, readable};
use crate::site;

/// Values of the page.
#[derive(Debug)]
pub struct Audit<'a> {
    /// Name of the network; `None` for the relay alone.
    pub network: Option<&'a str>,
    /// The commands that browsers may use.
    pub commands: Commands<'a>,
    /// The newest entries, the newest first; or why they cannot be read.
    pub lines: Result<&'a [AuditLine], &'a str>,
    /// Entries that are not on the page.
    pub more: usize,
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditLine {
    /// Its number.
    pub number: u64,
    /// Its time in ISO 8601.
    pub time: String,
    /// The key of an admin, or the name of a part of the server.
    pub actor: String,
    /// The action in a word, as the command of `birdhouse ctl` for it.
    pub action: &'static str,
    /// The subject; `None` if the action is about none.
    pub subject: Option<Named>,
    /// The reason, or further words.
    pub reason: String,
    /// The end of a rule, in ISO 8601.
    pub until: Option<String>,
    /// Number of the entry that ended its effect.
    pub ended_by: Option<u64>,
    /// It can be undone.
    pub is_undoable: bool,
}

/// Returns the page.
pub fn audit_page(audit: &Audit<'_>) -> String {
    site::page(
        "Audit log",
        audit.network,
        &html! {
            h1 { "Audit log" }
            p.quiet { "Changes of rules, texts, invites and roles, and deletions by retention, the newest first." }
            @match audit.lines {
                Err(why) => section.card.bad aria-label="Reason" { p { (why) } },
                Ok([]) => p { "There is no entry yet." },
                Ok(lines) => section aria-label="Entries" { (table(audit.commands, lines)) },
            }
            @if audit.more > 0 { p.quiet { "And " (audit.more) " more: birdhouse ctl audit --count NUMBER" } }
        },
    )
}

fn table(commands: Commands<'_>, lines: &[AuditLine]) -> Markup {
    html! {
        table {
            thead { tr {
                th scope="col" { "Entry" }
                th scope="col" { "Change" }
                th scope="col" { "Ended by" }
            } }
            tbody { @for line in lines { (row(commands, line)) } }
        }
    }
}

fn row(commands: Commands<'_>, line: &AuditLine) -> Markup {
    html! {
        tr id={ "entry-" (line.number) } {
            th scope="row" { (line.number) }
            td.wide {
                p {
                    (line.action)
                    @if let Some(subject) = &line.subject { " " (subject.noun) " " (long_name(&subject.value)) }
                    @if let Some(until) = &line.until { " until " time datetime=(until) { (readable(until)) } }
                }
                @if !line.reason.is_empty() { p.note { (line.reason) } }
                p.quiet { time datetime=(line.time) { (readable(&line.time)) } " by " (long_name(&line.actor)) }
            }
            td.number {
                @if let Some(ended_by) = line.ended_by { a href={ "#entry-" (ended_by) } { "entry " (ended_by) } }
                @if line.is_undoable && let Commands::On { token } = commands {
                    (form("undo", token, &html! {
                        input type="hidden" name="number" value=(line.number);
                        button aria-label={ "Undo entry " (line.number) } { "Undo" }
                    }))
                }
            }
        }
    }
}
