//! The watches as JSON, for `birdhouse watch`, and their changes.

use anyhow::Result;
use birdhouse_dashboard::Warning;
use birdhouse_watch::{WatchStatus, WatchView, Watches};
use serde_json::{Value, json};

use crate::config::ControlCommand;

/// Advice for every fault of a watch.
const ADVICE: &str = "`birdhouse watch list` shows all watches.";
/// Notices of one answer.
const NOTICES_MAX: u32 = 1_000;

/// Executes a command about watches.
pub(super) fn execute(watches: &Watches, command: &ControlCommand) -> Result<Value> {
    Ok(match command {
        ControlCommand::ReloadWatches => {
            watches.reload()?;
            json!({ "watches": watches.file().watches.len(), "channels": watches.file().channels.len() })
        }
        ControlCommand::TestChannel { channel } => {
            watches.test(channel)?;
            json!({ "sent": channel })
        }
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
    let mut value = json!({ "watches": watches, "channels": status.channels, "notices": status.notices });
    if let Some(waiting) = &status.waiting {
        value["waiting"] = json!(waiting);
    }
    value
}

/// Whatever of the watches needs a person, for dashboard and `birdhouse top`.
pub(super) fn warnings(status: &WatchStatus) -> Vec<Warning> {
    let of_all = status.waiting.iter().map(|reason| format!("The watches tell nothing now: {reason}."));
    let fault = |view: &WatchView| view.fault.as_ref().map(|fault| format!("Watch \"{}\": {fault}.", view.name));
    let texts = of_all.chain(status.watches.iter().filter_map(fault));
    texts.map(|text| Warning { text, advice: ADVICE.to_owned() }).collect()
}

fn watch(view: &WatchView) -> Value {
    let WatchView { name, kind, scripts, used, balance, open, fault } = view;
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
