//! The watches as JSON, for `birdhouse watch`, and as a page, and their changes.

use anyhow::{Context as _, Result};
use birdhouse_dashboard::{
    ChannelLine, Commands, Subject, Warning, WatchLine, Watched, Watches as WatchesPage, watches_page,
};
use birdhouse_watch::channel::Clock;
use birdhouse_watch::outbox::ChannelStatus;
use birdhouse_watch::{ChannelSettings, NewWatch, WatchSettings, WatchStatus, WatchView, Watches};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::config::ControlCommand;
use crate::operator::control::Control;
use crate::services::count_of;

/// Advice for every fault of a watch.
const ADVICE: &str = "`birdhouse watch list` shows all watches and channels.";
/// Notices of one answer.
const NOTICES_MAX: u32 = 1_000;

/// Cause of the failure of a command about watches.
pub(super) const NO_INDEX: &str = "there are no watches without an index";

/// Sends a test message to a channel, as the file has it now. Waits for the other side.
pub(super) fn test(watches: Option<&Watches>, channel: &str) -> Result<Value> {
    let watches = watches.context(NO_INDEX)?;
    watches.reload()?;
    watches.test(channel)?;
    Ok(json!({ "delivered": channel }))
}

/// Reads the watch file again. Waits for an update under way.
pub(super) fn reload(watches: Option<&Watches>) -> Result<Value> {
    let watches = watches.context(NO_INDEX)?;
    watches.reload()?;
    let file = watches.file();
    Ok(json!({ "watches": file.watches.len(), "channels": file.channels.len() }))
}

/// Adds a watch to the file, and puts it to work. Waits for an update under way.
pub(super) fn add(watches: Option<&Watches>, new: &NewWatch) -> Result<Value> {
    watches.context(NO_INDEX)?.add(new)?;
    Ok(json!({ "added": new.name }))
}

/// Removes a watch from the file. Waits for an update under way.
pub(super) fn remove(watches: Option<&Watches>, name: &str) -> Result<Value> {
    watches.context(NO_INDEX)?.remove(name)?;
    Ok(json!({ "removed": name }))
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

/// Returns the page of the watches, which leads to pages of the watch API at a URL, where it is served.
pub(super) fn page(control: &Control, commands: Commands<'_>, api: Option<&str>) -> String {
    let network = control.bitcoin.as_ref().map(|bitcoin| bitcoin.network.to_string()).unwrap_or_default();
    let Some(watches) = &control.watches else { return String::new() };
    let (file, status, now) = (watches.file(), watches.status(), Clock::system().now().as_secs());
    let channel_of = |settings: &ChannelSettings| {
        let state = status.channels.iter().find(|state| state.name == settings.name.as_str());
        channel_line(settings, state, now)
    };
    let watch_of = |settings: &WatchSettings| {
        let line = watch_line(settings, status.watches.iter().find(|view| view.name == settings.name));
        let page = api.map(|url| format!("{}/watch/{}", url.trim_end_matches('/'), encoded(&line.name)));
        WatchLine { page, ..line }
    };
    watches_page(&WatchesPage {
        network: &network,
        commands,
        file: watches.path().display().to_string(),
        troubles: troubles(&status).collect(),
        watches: file.watches.iter().map(watch_of).collect(),
        channels: file.channels.iter().map(channel_of).collect(),
    })
}

/// Returns a name as a part of a path.
fn encoded(name: &str) -> String {
    utf8_percent_encode(name, NON_ALPHANUMERIC).to_string()
}

fn watch_line(settings: &WatchSettings, view: Option<&WatchView>) -> WatchLine {
    let line = WatchLine {
        name: settings.name.to_string(),
        kind: settings.source.name(),
        is_cold: settings.is_cold,
        channels: settings.channels.iter().map(ToString::to_string).collect(),
        ..WatchLine::default()
    };
    let Some(view) = view else { return line };
    let (confirmed, unconfirmed) = (view.balance.confirmed, view.balance.unconfirmed);
    WatchLine { scripts: view.scripts, confirmed, unconfirmed, fault: view.fault.clone(), ..line }
}

fn channel_line(settings: &ChannelSettings, state: Option<&ChannelStatus>, now: u64) -> ChannelLine {
    let line = ChannelLine { name: settings.name.to_string(), kind: settings.kind.name(), ..ChannelLine::default() };
    let Some(state) = state else { return line };
    let failure = state.last_error.as_ref();
    let (error, error_s) = match &state.disabled {
        Some(why) => (Some(format!("no longer used: {why}")), None),
        None => (failure.map(|failure| failure.why.clone()), failure.map(|failure| now.saturating_sub(failure.at))),
    };
    let last_delivery_s = state.last_delivery.map(|time| now.saturating_sub(time));
    ChannelLine { waiting: state.waiting, delivered: state.delivered, last_delivery_s, error, error_s, ..line }
}

/// Reasons why the watches, or all of their file, tell nothing.
fn troubles(status: &WatchStatus) -> impl Iterator<Item = String> {
    let of_file = status.fault.iter().map(|fault| format!("The watch file is not in effect: {fault}."));
    of_file.chain(status.waiting.iter().map(|reason| format!("The watches tell nothing now: {reason}.")))
}

/// Returns the counts of the watches, for `birdhouse top`.
pub(super) fn counts(status: &WatchStatus) -> Watched {
    let fails = |channel: &&ChannelStatus| channel.next_attempt.is_some() || channel.disabled.is_some();
    Watched {
        watches: count_of(status.watches.len()),
        watch_faults: count_of(status.watches.iter().filter(|watch| watch.fault.is_some()).count()),
        watch_notices: status.notices,
        watch_waiting: count_of(status.channels.iter().map(|channel| channel.waiting).sum()),
        watch_channels: count_of(status.channels.len()),
        failing_channels: status.channels.iter().filter(fails).map(|channel| channel.name.clone()).collect(),
    }
}

/// Whatever of the watches needs a person, for dashboard and `birdhouse top`.
pub(super) fn warnings(status: &WatchStatus) -> Vec<Warning> {
    let fault = |view: &WatchView| view.fault.as_ref().map(|fault| format!("Watch \"{}\": {fault}.", view.name));
    let texts = troubles(status).chain(status.watches.iter().filter_map(fault));
    texts
        .chain(status.channels.iter().filter_map(trouble))
        .map(|text| Warning { about: "watches".to_owned(), subject: Subject::Watches, text, advice: ADVICE.to_owned() })
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
