//! The operator's socket: one JSON object a line for a command, one for its answer. `birdhouse ctl` speaks it.
//!
//! It lies in the index's folder, or the relay's where there is no index, for its owner alone, so who may reach it may do everything it offers.

use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use birdhouse_electrum::SessionInfo;
use birdhouse_events::Explanation;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

use crate::accept;
use crate::control::{BitcoinSeen, Control, Seen};

/// Connections at one time; more wait to be accepted.
pub(crate) const CONNECTIONS_MAX: usize = 8;
/// Bytes of a command: a filter may name thousands of authors.
const COMMAND_BYTES_MAX: u64 = 1 << 20;
/// How long a command may take to come, and its answer to be taken.
const PATIENCE: Duration = Duration::from_secs(30);

/// What an operator can tell a running server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, clap::Subcommand)]
#[serde(tag = "command", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Command {
    /// How the server is.
    Status,
    /// Which wallets are connected, and what for each was done.
    Sessions,
    /// End a wallet's connection.
    Disconnect {
        /// Its number, as `sessions` shows it.
        id: u64,
    },
    /// How the relay answers a filter, and what its first page costs.
    Explain {
        /// NIP-01, like `{"kinds":[1],"limit":100}`.
        filter: String,
    },
    /// Change what is logged, until the next start.
    LogLevel {
        /// error, warn, info, debug, or levels by module.
        level: String,
    },
    /// End the server.
    Stop,
}

/// What the server answers: `{"ok": ..}` or `{"error": ".."}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// It is done; what there is to see.
    Ok(Value),
    /// Why it is not.
    Error(String),
}

/// Where the socket of an index is.
pub(crate) fn path(index_dir: &Path) -> PathBuf {
    index_dir.join("ctl.sock")
}

/// The socket, for the owner of the folder alone. One that an earlier process has left is replaced: the store's lock
/// says that there is no other.
pub(crate) fn bind(path: &Path) -> Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot replace {}", path.display()));
        }
        _ => {}
    }
    let listener = UnixListener::bind(path).with_context(|| format!("cannot make the socket {}", path.display()))?;
    fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok(listener)
}

/// Obeys for as long as it is polled.
pub(crate) async fn serve(listener: UnixListener, control: Arc<Control>) {
    let answer = |socket| {
        let control = Arc::clone(&control);
        async move {
            if let Err(error) = converse(socket, &control).await {
                tracing::debug!(%error, "the operator's connection broke");
            }
        }
    };
    accept::each(listener, "the operator's connection", CONNECTIONS_MAX, answer).await;
}

async fn converse(mut socket: UnixStream, control: &Control) -> Result<()> {
    let (reader, mut writer) = socket.split();
    let mut line = String::new();
    timeout(PATIENCE, BufReader::new(reader.take(COMMAND_BYTES_MAX)).read_line(&mut line)).await??;
    let command = serde_json::from_str(&line);
    let answer = match &command {
        Ok(command) => obey(command, control).unwrap_or_else(|error| Answer::Error(format!("{error:#}"))),
        Err(error) => Answer::Error(format!("no command: {error}")),
    };
    let answer = serde_json::to_string(&answer)? + "\n";
    timeout(PATIENCE, writer.write_all(answer.as_bytes())).await??;
    // Only now: the answer is on its way.
    if command.is_ok_and(|command| command == Command::Stop) {
        control.stop.notify_one();
    }
    Ok(())
}

fn obey(command: &Command, control: &Control) -> Result<Answer> {
    Ok(match command {
        Command::Status => Answer::Ok(status(control)),
        Command::Sessions => Answer::Ok(
            control.bitcoin.iter().flat_map(|bitcoin| bitcoin.monitor.sessions()).map(|info| session(&info)).collect(),
        ),
        Command::Disconnect { id } if control.bitcoin.as_ref().is_some_and(|half| half.monitor.disconnect(*id)) => {
            tracing::info!(id, "the operator ends a connection");
            Answer::Ok(json!({ "disconnected": id }))
        }
        Command::Disconnect { id } => Answer::Error(format!("there is no connection {id}")),
        Command::LogLevel { level } => {
            control.level.set(level)?;
            tracing::info!(level, "the operator changes what is logged");
            Answer::Ok(json!({ "level": level }))
        }
        Command::Explain { filter } => match &control.relay {
            None => Answer::Error("there is no relay (--relay-addr)".into()),
            Some(relay) => {
                relay.explain(filter).map_or_else(Answer::Error, |explanation| Answer::Ok(plan(&explanation)))
            }
        },
        Command::Stop => {
            tracing::info!("the operator ends the server");
            Answer::Ok(json!({ "stopping": true }))
        }
    })
}

fn status(control: &Control) -> Value {
    let Seen { health, bitcoin, relay, usage } = control.see();
    let mut status = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "health": health.to_string(),
        "uptime_s": control.started.elapsed().as_secs(),
        "memory_bytes": usage.map(|usage| usage.rss_bytes),
    });
    let halves = bitcoin.as_ref().map(bitcoin_status).into_iter().chain(relay.as_ref().map(relay_status));
    for (name, value) in halves.filter_map(|half| half.as_object().cloned()).flatten() {
        status[name] = value;
    }
    status
}

fn bitcoin_status(seen: &BitcoinSeen) -> Value {
    let BitcoinSeen { network, electrum, tip, node, .. } = seen;
    json!({
        "network": network.to_string(),
        "tip_height": tip.map(|tip| tip.height.0),
        "tip_hash": tip.map(|tip| tip.hash.to_string()),
        "node_height": node.and_then(|node| node.tip).map(|tip| tip.height.0),
        "connections": electrum.connections.iter().map(|(_, count)| count).sum::<usize>(),
        "clients": electrum.clients,
        "subscriptions": electrum.subscriptions,
        "turns_waiting": electrum.turns.iter().map(|(_, waiting)| waiting.now).sum::<usize>(),
    })
}

fn relay_status(seen: &birdhouse_relay::Overview) -> Value {
    json!({
        "relay_connections": seen.connections,
        "relay_clients": seen.clients,
        "relay_subscriptions": seen.subscriptions,
        "relay_events": seen.live_events,
        "relay_turns_waiting": seen.turns.now,
    })
}

fn plan(Explanation { steps, cost }: &Explanation) -> Value {
    json!({ "plan": steps.join(", then "), "postings": cost.postings, "events": cost.events, "rows": cost.rows })
}

fn session(session: &SessionInfo) -> Value {
    json!({
        "id": session.id,
        "listener": session.listener,
        "client": session.client,
        "age_s": session.age.as_secs(),
        "requests": session.requests,
        "bytes_in": session.bytes_in,
        "bytes_out": session.bytes_out,
        "subscriptions": session.subscriptions,
        "work_ms": millis(session.work),
        "client_work_ms": millis(session.client_work),
    })
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn commands_are_as_documented() {
        let table = [
            (Command::Status, r#"{"command":"status"}"#),
            (Command::Disconnect { id: 7 }, r#"{"command":"disconnect","id":7}"#),
            (Command::LogLevel { level: "debug".into() }, r#"{"command":"log-level","level":"debug"}"#),
        ];
        for (command, json) in table {
            assert_eq!(serde_json::to_string(&command).unwrap(), json);
            assert_eq!(serde_json::from_str::<Command>(json).unwrap(), command);
        }
    }

    #[tokio::test]
    async fn the_socket_is_for_its_owner_alone_and_replaces_one_that_was_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path());
        drop(bind(&path).unwrap());
        assert!(path.exists());
        let _listener = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
