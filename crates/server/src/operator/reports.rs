//! Reports of others about events and authors (NIP-56), for `birdhouse ctl reports` and the dashboard.

use anyhow::{Result, anyhow, bail};
use birdhouse_dashboard::{Commands, DecidedLine, Decision, Named, ReportedLine, Reports, reports_page};
use birdhouse_net::offload;
use birdhouse_relay::{Reported, Rule, Subject, Verdict};
use serde_json::{Value, json};

use crate::operator::control::Control;
use crate::operator::rules::RELAY_IS_OFF;
use crate::operator::shown::iso;

/// Decisions on the page, the newest; `birdhouse ctl banned` lists all.
const DECIDED_MAX: usize = 100;

/// Lists what is reported.
pub(super) fn list(control: &Control) -> Result<Value> {
    let line = |one: Reported| {
        json!({
            "type": one.subject.noun(),
            "value": one.subject.to_string(),
            "author": one.author.to_string(),
            "reporters": one.reporters,
            "reason": one.reason(),
            "content": one.content,
            "texts": one.texts,
        })
    };
    Ok(reported(control)?.into_iter().map(line).collect())
}

/// Returns the page.
pub(super) fn page(control: &Control, commands: Commands<'_>) -> String {
    let network = control.bitcoin.as_ref().map(|bitcoin| bitcoin.network.to_string());
    let lines = reported(control).map(|all| all.into_iter().map(reported_line).collect::<Vec<_>>());
    let lines = lines.map_err(|error| format!("{error:#}"));
    let rules = control.rules.current();
    let mut decided = rules.list();
    // Where there are no commands, readers need not be the operator: addresses of clients are not for them.
    let is_listed = |subject: &Subject| !matches!((subject, commands), (Subject::Client(_), Commands::Off));
    decided.retain(|(subject, _)| is_listed(subject));
    decided.sort_by_key(|(_, rule)| std::cmp::Reverse(rule.since));
    let decided: Vec<_> = decided.into_iter().take(DECIDED_MAX).map(decided_line).collect();
    reports_page(&Reports {
        network: network.as_deref(),
        commands,
        reported: lines.as_deref().map_err(String::as_str),
        decided: &decided,
    })
}

fn reported(control: &Control) -> Result<Vec<Reported>> {
    let Some(relay) = &control.relay else { bail!(RELAY_IS_OFF) };
    offload(|| relay.reported()).map_err(|error| anyhow!("failed to read the reports: {error}"))
}

fn reported_line(one: Reported) -> ReportedLine {
    ReportedLine {
        reason: one.reason(),
        subject: Named { noun: one.subject.noun(), value: one.subject.to_string() },
        author: one.author.to_string(),
        kind: one.kind.map(|kind| kind.0),
        content: one.content,
        reporters: one.reporters,
        texts: one.texts,
    }
}

fn decided_line((subject, rule): (Subject, &Rule)) -> DecidedLine {
    let decision = match rule.verdict {
        Verdict::Ban => Decision::Banned,
        Verdict::Allow => Decision::Allowed,
        Verdict::Ignore => Decision::Ignored,
    };
    let subject = Named { noun: subject.noun(), value: subject.to_string() };
    DecidedLine { subject, decision, reason: rule.reason.clone(), until: rule.until.map(iso) }
}
