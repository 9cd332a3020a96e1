//! The audit log of the operator's rules, for `birdhouse ctl audit` and `undo`, and the dashboard.

use anyhow::Result;
use birdhouse_dashboard::{Audit, AuditLine, Commands, Named, audit_page};
use birdhouse_net::offload;
use birdhouse_relay::{Actor, Audited, Deed, Rule, Text, Verdict};
use serde_json::{Value, json};

use crate::operator::control::Control;
use crate::operator::shown::iso;

/// Entries on the page, the newest; `birdhouse ctl audit --count` lists more.
const SHOWN_MAX: usize = 200;

/// Lists the newest entries.
pub(super) fn list(control: &Control, count: usize) -> Result<Value> {
    let to_json = |line: AuditLine| {
        let (noun, value) = line.subject.map(|named| (named.noun, named.value)).unzip();
        json!({
            "id": line.number,
            "time": line.time,
            "actor": line.actor,
            "action": line.action,
            "type": noun,
            "value": value,
            "reason": line.reason,
            "until": line.until,
            "ended_by": line.ended_by,
            "undo": line.is_undoable,
        })
    };
    Ok(read(control)?.into_iter().take(count).map(|one| to_json(line(one))).collect())
}

/// Undoes the change of an entry.
pub(super) fn undo(control: &Control, number: u64, actor: Actor) -> Result<Value> {
    let changed = offload(|| control.rules.undo(number, actor))?;
    tracing::info!(number, "undid an entry of the audit log for the operator");
    Ok(json!({ "undone": number, "disconnected": changed.disconnected }))
}

/// Returns the page.
pub(super) fn page(control: &Control, commands: Commands<'_>) -> String {
    let network = control.bitcoin.as_ref().map(|bitcoin| bitcoin.network.to_string());
    let (mut lines, mut more) = (Vec::new(), 0);
    let failure = match read(control) {
        Ok(all) => {
            more = all.len().saturating_sub(SHOWN_MAX);
            lines = all.into_iter().take(SHOWN_MAX).map(line).collect();
            None
        }
        Err(error) => Some(format!("{error:#}")),
    };
    let lines = failure.as_deref().map_or(Ok(&lines[..]), Err);
    audit_page(&Audit { network: network.as_deref(), commands, lines, more })
}

fn read(control: &Control) -> Result<Vec<Audited>> {
    Ok(offload(|| control.rules.audit())?)
}

fn line(Audited { entry, ended_by, is_undoable }: Audited) -> AuditLine {
    let mut line = AuditLine {
        number: entry.number,
        time: iso(entry.time),
        actor: entry.actor.to_string(),
        action: "delete",
        subject: None,
        reason: String::new(),
        until: None,
        ended_by,
        is_undoable,
    };
    match entry.deed {
        Deed::Rule { subject, before, after } => {
            line.subject = Some(Named { noun: subject.noun(), value: subject.to_string() });
            line.action = action(entry.actor, before.as_ref(), after.as_ref());
            let rule = after.or(before);
            line.until = rule.as_ref().and_then(|rule| rule.until).map(iso);
            line.reason = rule.map(|rule| rule.reason).unwrap_or_default();
        }
        Deed::Text { which, after, .. } => {
            line.action = match which {
                Text::Name => "name",
                Text::Description => "description",
                Text::Icon => "icon",
            };
            line.reason = after.unwrap_or_default();
        }
        Deed::Invited(id) => (line.action, line.subject) = ("invite", Some(invite(id))),
        Deed::Revoked(id) => (line.action, line.subject) = ("revoke", Some(invite(id))),
        Deed::Role(words) => (line.action, line.reason) = ("role", words),
        Deed::Deleted(by_rule) => line.reason = deleted(&by_rule),
    }
    line
}

/// Returns the command for a change of a rule.
fn action(actor: Actor, before: Option<&Rule>, after: Option<&Rule>) -> &'static str {
    match (after.map(|rule| rule.verdict), before.map(|rule| rule.verdict)) {
        (Some(Verdict::Ban), _) => "ban",
        (Some(Verdict::Allow), _) => "allow",
        (Some(Verdict::Ignore), _) => "ignore",
        (None, _) if actor == Actor::Expiry => "expire",
        (None, Some(Verdict::Allow)) => "unallow",
        (None, Some(Verdict::Ignore)) => "unignore",
        (None, Some(Verdict::Ban) | None) => "unban",
    }
}

fn invite(id: String) -> Named {
    Named { noun: "invite", value: id }
}

/// Returns in words what retention did not keep.
fn deleted(by_rule: &[u64]) -> String {
    let of_rules = (1..).zip(by_rule).filter(|(_, events)| **events > 0);
    of_rules.map(|(rule, events)| format!("{events} events by rule {rule}")).collect::<Vec<_>>().join(", ")
}
