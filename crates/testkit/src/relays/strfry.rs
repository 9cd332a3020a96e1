//! `strfry`, the program that `$STRFRY` names.

use std::env;
use std::path::{Path, PathBuf};

use birdhouse_regtest::child_guard::Launch;

use super::{Relay, quoted};
use crate::error::{Error, Result};

/// It shows private messages to their people alone, unless told otherwise.
pub(super) const SETTINGS: [(&str, &str); 7] = [
    ("events.maxEventSize", "262144"),
    ("events.rejectEventsOlderThanSeconds", "946080000"),
    ("relay.nofiles", "0"),
    ("relay.maxWebsocketPayloadSize", "4194304"),
    ("relay.maxFilterLimit", "5000"),
    ("relay.auth.restrictedReadKinds", "\"\""),
    ("relay.logging.invalidEvents", "false"),
];

pub(super) fn program() -> Result<PathBuf> {
    let unnamed = Error::Unnamed { program: "strfry", variable: "STRFRY" };
    env::var_os("STRFRY").map(PathBuf::from).ok_or(unnamed)
}

pub(super) fn serve(relay: &Relay, port: u16) -> Result<Launch> {
    let config = configure(relay, &[("relay.bind", quoted("127.0.0.1")), ("relay.port", port.to_string())])?;
    Ok(relay.launch(vec![config.into(), "relay".into()]))
}

pub(super) fn import(relay: &Relay, events: &Path) -> Result<Launch> {
    let config = configure(relay, &[])?;
    // It reads standard input alone. The shell becomes the program: the process stays the same.
    let shell = "exec \"$0\" \"$1\" import <\"$2\"".into();
    let args = vec!["-c".into(), shell, relay.program.clone().into(), config.into(), events.into()];
    Ok(Launch { program: "sh".into(), ..relay.launch(args) })
}

fn configure(relay: &Relay, place: &[(&str, String)]) -> Result<String> {
    let folder = [("db", quoted(relay.events_dir().join("")))];
    let config = relay.configure("strfry.conf", &[&folder, place].concat())?;
    Ok(format!("--config={}", config.display()))
}
