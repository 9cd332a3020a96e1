//! The operator's rules for `birdhouse ctl`: ban, unban, allow, unallow, ignore, unignore, banned.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use birdhouse_net::offload;
use birdhouse_relay::{Actor, Change, Rule, Subject, Verdict};
use serde_json::{Value, json};

use crate::config::Named;
use crate::operator::control::Control;

/// Cause of the failure of a command that needs the relay.
pub(super) const RELAY_IS_OFF: &str = "the relay is off; set --relay-addr";

/// Returns a rule that begins now, and lasts this many seconds if they are given.
pub(super) fn rule(verdict: Verdict, reason: &str, seconds: Option<u64>) -> Rule {
    let since = now();
    Rule { verdict, reason: reason.to_owned(), since, until: seconds.map(|seconds| since.saturating_add(seconds)) }
}

/// Makes a rule.
pub(super) fn decide(control: &Control, named: &Named, rule: Rule, actor: Actor) -> Result<Value> {
    let (subject, verdict, until) = (subject(control, named)?, rule.verdict, rule.until);
    let changed = offload(|| control.rules.change(&Change::Decide(subject, rule), actor))?;
    tracing::info!(?verdict, r#type = subject.noun(), "made a rule for the operator");
    Ok(json!({
        "verdict": verdict,
        "type": subject.noun(),
        "value": subject.to_string(),
        "until": until,
        "changed": changed.is_changed,
        "disconnected": changed.disconnected,
    }))
}

/// Makes a rule that ignores reports about an event or an author.
pub(super) fn ignore(control: &Control, named: &Named, reason: &str, actor: Actor) -> Result<Value> {
    match named.parse()? {
        Subject::Event(_) | Subject::Author(_) => decide(control, named, rule(Verdict::Ignore, reason, None), actor),
        Subject::Kind(_) | Subject::Client(_) => bail!("only events and authors are reported"),
    }
}

/// Takes a rule back.
pub(super) fn take_back(control: &Control, named: &Named, verdict: Verdict, actor: Actor) -> Result<Value> {
    let subject = subject(control, named)?;
    if !offload(|| control.rules.change(&Change::TakeBack(subject, verdict), actor))?.is_changed {
        let done = match verdict {
            Verdict::Ban => "banned",
            Verdict::Allow => "allowed",
            Verdict::Ignore => "ignored",
        };
        bail!("the {} {subject} is not {done} by a rule; list them with `birdhouse ctl banned`", subject.noun());
    }
    tracing::info!(?verdict, r#type = subject.noun(), "took a rule back for the operator");
    Ok(json!({ "verdict": null, "type": subject.noun(), "value": subject.to_string() }))
}

/// Lists all rules.
pub(super) fn list(control: &Control) -> Value {
    let rules = control.rules.current();
    let line = |(subject, rule): (Subject, &Rule)| {
        json!({
            "verdict": rule.verdict,
            "type": subject.noun(),
            "value": subject.to_string(),
            "reason": rule.reason,
            "since": rule.since,
            "until": rule.until,
        })
    };
    rules.list().into_iter().map(line).collect()
}

/// Returns the subject of a rule. Without a relay there are only clients.
fn subject(control: &Control, named: &Named) -> Result<Subject> {
    match named.parse()? {
        Subject::Author(_) | Subject::Event(_) | Subject::Kind(_) if control.relay.is_none() => bail!(RELAY_IS_OFF),
        subject => Ok(subject),
    }
}

/// Returns the seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "the time of a rule, which the relay compares")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
