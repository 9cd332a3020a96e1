//! `strfry`, the program that `$STRFRY` names.

use std::env;
use std::path::{Path, PathBuf};

use birdhouse_regtest::child_guard::Launch;

use super::folder::{RelayFolder, quoted};
use crate::error::{Error, Result};

/// Settings that raise its limits. By default it serves private messages to their authors and recipients only.
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

pub(super) fn serve(relay: &RelayFolder, port: u16) -> Result<Launch> {
    let config = configure(relay, &[("relay.bind", quoted("127.0.0.1")), ("relay.port", port.to_string())])?;
    Ok(relay.launch(vec![config.into(), "relay".into()]))
}

pub(super) fn import(relay: &RelayFolder, events: &Path) -> Result<Launch> {
    let config = configure(relay, &[])?;
    // strfry imports from standard input only. The shell becomes the program, so the process id stays the same.
    let shell = "exec \"$0\" \"$1\" import <\"$2\"".into();
    let args = vec!["-c".into(), shell, relay.program.clone().into(), config.into(), events.into()];
    Ok(Launch { program: "sh".into(), ..relay.launch(args) })
}

fn configure(relay: &RelayFolder, locations: &[(&str, String)]) -> Result<String> {
    let folder = [("db", quoted(relay.events_dir().join("")))];
    let config = relay.configure("strfry.conf", &[&folder, locations].concat(), &SETTINGS)?;
    Ok(format!("--config={}", config.display()))
}
