//! The operator's rules for `birdhouse ctl`: ban, unban, allow, unallow, ignore, unignore, banned.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use birdhouse_net::offload;
use birdhouse_relay::{Change, Rule, Subject, Verdict};
use serde_json::{Value, json};

use crate::config::Named;
use crate::operator::control::Control;

/// Cause of the failure of a command that needs the relay.
pub(super) const RELAY_IS_OFF: &str = "the relay is off; set --relay-addr";

/// Makes a rule.
pub(super) fn decide(control: &Control, named: &Named, verdict: Verdict, reason: &str) -> Result<Value> {
    let rule = Rule { verdict, reason: reason.to_owned(), since: now() };
    let subject = subject(control, named)?;
    let changed = offload(|| control.rules.change(&Change::Decide(subject, rule)))?;
    tracing::info!(?verdict, r#type = subject.noun(), "made a rule for the operator");
    Ok(json!({
        "verdict": verdict,
        "type": subject.noun(),
        "value": subject.to_string(),
        "changed": changed.is_changed,
        "disconnected": changed.disconnected,
    }))
}

/// Makes a rule that ignores reports about an event or an author.
pub(super) fn ignore(control: &Control, named: &Named, reason: &str) -> Result<Value> {
    match named.parse()? {
        Subject::Event(_) | Subject::Author(_) => decide(control, named, Verdict::Ignore, reason),
        Subject::Kind(_) | Subject::Client(_) => bail!("only events and authors are reported"),
    }
}

/// Takes a rule back.
pub(super) fn take_back(control: &Control, named: &Named, verdict: Verdict) -> Result<Value> {
    let subject = subject(control, named)?;
    if !offload(|| control.rules.change(&Change::TakeBack(subject, verdict)))?.is_changed {
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
#[expect(clippy::disallowed_methods, reason = "a rule says when it was made; nothing depends on it")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
