//! The relay's rules for `birdhouse ctl`: ban, unban, allow, unallow, banned.

use std::net::IpAddr;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, anyhow, bail};
use birdhouse_events::{EventId, Kind};
use birdhouse_net::offload;
use birdhouse_relay::{Change, Relay, Rule, Subject, Verdict};
use clap::ValueEnum;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::config::PubkeyText;
use crate::control::Control;

/// Cause of the failure of a command that needs the relay.
pub(crate) const RELAY_IS_OFF: &str = "the relay is off; set --relay-addr";

/// Types of subjects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum SubjectType {
    /// The events of an author: hexadecimal or npub.
    Author,
    /// An event by its id in hexadecimal.
    Event,
    /// The events of a kind, by its number.
    Kind,
    /// The clients at an IP address or in a network.
    Client,
}

/// A subject as the command line has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub(crate) struct Named {
    /// Type of the subject.
    #[arg(value_name = "TYPE")]
    #[serde(rename = "type")]
    kind: SubjectType,
    /// The author, event, kind or client.
    value: String,
}

/// A subject and a reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub(crate) struct Decided {
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) subject: Named,
    /// Reason for your own records; no client sees it.
    #[arg(long, default_value = "")]
    #[serde(default)]
    pub(crate) reason: String,
}

/// Makes a rule.
pub(crate) fn decide(control: &Control, named: &Named, verdict: Verdict, reason: &str) -> Result<Value> {
    let rule = Rule { verdict, reason: reason.to_owned(), since: now() };
    let (relay, subject) = (relay(control)?, named.parse()?);
    let changed = offload(|| relay.change_rules(&Change::Decide(subject, rule)))?;
    tracing::info!(?verdict, r#type = subject.noun(), "made a rule for the operator");
    Ok(json!({
        "verdict": verdict,
        "type": subject.noun(),
        "value": subject.to_string(),
        "changed": changed.is_changed,
        "disconnected": changed.disconnected,
    }))
}

/// Takes a rule back.
pub(crate) fn take_back(control: &Control, named: &Named, verdict: Verdict) -> Result<Value> {
    let (relay, subject) = (relay(control)?, named.parse()?);
    if !offload(|| relay.change_rules(&Change::TakeBack(subject, verdict)))?.is_changed {
        let done = if verdict == Verdict::Ban { "banned" } else { "allowed" };
        bail!("the {} {subject} is not {done} by a rule; list them with `birdhouse ctl banned`", subject.noun());
    }
    tracing::info!(?verdict, r#type = subject.noun(), "took a rule back for the operator");
    Ok(json!({ "verdict": null, "type": subject.noun(), "value": subject.to_string() }))
}

/// Lists all rules.
pub(crate) fn list(control: &Control) -> Result<Value> {
    let rules = relay(control)?.rules();
    let line = |(subject, rule): (Subject, &Rule)| {
        json!({
            "verdict": rule.verdict,
            "type": subject.noun(),
            "value": subject.to_string(),
            "reason": rule.reason,
            "since": rule.since,
        })
    };
    Ok(rules.list().into_iter().map(line).collect())
}

fn relay(control: &Control) -> Result<&Relay> {
    control.relay.as_deref().ok_or_else(|| anyhow!(RELAY_IS_OFF))
}

impl Named {
    fn parse(&self) -> Result<Subject> {
        let text = self.value.as_str();
        match self.kind {
            SubjectType::Author => text.parse().map(|PubkeyText(key)| Subject::Author(key)),
            SubjectType::Event => {
                let id = EventId::parse(text).map(Subject::Event);
                id.with_context(|| format!("{text:?} is not an event id: use 64 lowercase hexadecimal digits"))
            }
            SubjectType::Kind => {
                let kind = text.parse().ok().map(|kind| Subject::Kind(Kind(kind)));
                kind.with_context(|| format!("{text:?} is not a kind from 0 to 65535"))
            }
            SubjectType::Client => {
                let address = text.parse::<IpAddr>().ok().map(Subject::client);
                let network = || text.parse::<IpNet>().ok().map(Subject::clients);
                address
                    .or_else(network)
                    .with_context(|| format!("{text:?} is not an IP address, or a network like 203.0.113.0/24"))
            }
        }
    }
}

/// Returns the seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a rule says when it was made; nothing depends on it")]
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
