//! Deletions by the relay's rules of retention before they happen, for `birdhouse ctl retention`.

use anyhow::{Context as _, Result};
use birdhouse_relay::Relay;
use serde_json::{Value, json};

use crate::config::Options;
use crate::operator::rules::RELAY_IS_OFF;
use crate::services::retention;

/// Reads the settings file again, and judges all events by its rules; deletes none. Returns a line for each rule.
pub(super) fn weigh(relay: Option<&Relay>, flags: &Options) -> Result<Value> {
    let relay = relay.context(RELAY_IS_OFF)?;
    let rules = retention(&flags.clone().with_file()?);
    let judged = relay.weigh(&rules).context("failed to read the events")?;
    let line = |(rule, judged): (usize, &birdhouse_events::Judged)| {
        json!({
            "rule": rule,
            "keeps": judged.kept.events,
            "keeps_bytes": judged.kept.bytes,
            "deletes": judged.unkept.events,
            "deletes_bytes": judged.unkept.bytes,
        })
    };
    Ok((1..).zip(&judged).map(line).collect())
}
