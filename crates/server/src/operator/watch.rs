//! The watches as JSON, for `birdhouse watch`, and their changes.

use anyhow::{Context as _, Result};
use birdhouse_dashboard::Warning;
use birdhouse_watch::outbox::ChannelStatus;
use birdhouse_watch::{WatchStatus, WatchView, Watches};
use serde_json::{Value, json};

use crate::config::ControlCommand;

/// Advice for every fault of a watch.
const ADVICE: &str = "`birdhouse watch list` shows all watches and channels.";
/// Notices of one answer.
const NOTICES_MAX: u32 = 1_000;

/// Cause of the failure of a command about watches.
pub(super) const NO_INDEX: &str = "there are no watches without an index";

/// Sends a test message to a channel. Waits for the other side.
pub(super) fn test(watches: Option<&Watches>, channel: &str) -> Result<Value> {
    watches.context(NO_INDEX)?.test(channel)?;
    Ok(json!({ "delivered": channel }))
}

/// Reads the watch file again. Waits for an update under way.
pub(super) fn reload(watches: Option<&Watches>) -> Result<Value> {
    let watches = watches.context(NO_INDEX)?;
    watches.reload()?;
    let file = watches.file();
    Ok(json!({ "watches": file.watches.len(), "channels": file.channels.len() }))
}

/// Executes a command about watches.
pub(super) fn execute(watches: &Watches, command: &ControlCommand) -> Result<Value> {
    Ok(match command {
        ControlCommand::Notices { from, count } => {
            let count = (*count).min(NOTICES_MAX);
            let newest = || (watches.status().notices + 1).saturating_sub(u64::from(count));
            json!(watches.notices(from.unwrap_or_else(newest), count as usize)?)
        }
        _ => status(&watches.status()),
    })
}

/// The state of the watches.
pub(super) fn status(status: &WatchStatus) -> Value {
    let watches: Vec<Value> = status.watches.iter().map(watch).collect();
    let channels = &status.channels;
    let mut value = json!({ "watches": watches, "channels": channels, "notices": status.notices });
    if let Some(waiting) = &status.waiting {
        value["waiting"] = json!(waiting);
    }
    if let Some(fault) = &status.fault {
        value["fault"] = json!(fault);
    }
    value
}

/// Whatever of the watches needs a person, for dashboard and `birdhouse top`.
pub(super) fn warnings(status: &WatchStatus) -> Vec<Warning> {
    let of_file = status.fault.iter().map(|fault| format!("The watch file is not in effect: {fault}."));
    let of_all = of_file.chain(status.waiting.iter().map(|reason| format!("The watches tell nothing now: {reason}.")));
    let fault = |view: &WatchView| view.fault.as_ref().map(|fault| format!("Watch \"{}\": {fault}.", view.name));
    let texts = of_all.chain(status.watches.iter().filter_map(fault));
    texts
        .chain(status.channels.iter().filter_map(trouble))
        .map(|text| Warning { about: "watches".to_owned(), text, advice: ADVICE.to_owned() })
        .collect()
}

/// The reason why a channel does not deliver.
fn trouble(channel: &ChannelStatus) -> Option<String> {
    let ChannelStatus { name, waiting, given_up, last_given_up, disabled, last_error, next_attempt, .. } = channel;
    if let Some(why) = disabled {
        return Some(format!("Channel \"{name}\" is no longer used: {why}."));
    }
    if let Some(failure) = last_error.as_ref().filter(|_| next_attempt.is_some()) {
        return Some(format!("Channel \"{name}\" does not deliver, and {waiting} notices wait: {}.", failure.why));
    }
    let why = &last_given_up.as_ref()?.why;
    Some(format!(
        "Channel \"{name}\" has given up {given_up} notices: {why}. A test message that arrives ends this warning."
    ))
}

fn watch(view: &WatchView) -> Value {
    let WatchView { name, kind, scripts, used, balance, open, fault, .. } = view;
    let mut value = json!({
        "name": name.as_str(),
        "source": kind,
        "scripts": scripts,
        "used": used,
        "confirmed_sat": balance.confirmed,
        "unconfirmed_sat": balance.unconfirmed,
        "open_transactions": open,
    });
    if let Some(fault) = fault {
        value["fault"] = json!(fault);
    }
    value
}
