//! The control socket, for `birdhouse ctl`: one line of JSON for the command, one for the answer.
//!
//! It lies in the folder of the index, or of the relay where there is no index. Only its owner may open it, so it needs
//! no other authorization.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow};
use birdhouse_events::Explanation;
use birdhouse_relay::{Actor, Verdict};
use nix::sys::stat::{Mode, fchmod};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::{UnixListener, UnixSocket, UnixStream};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::config::{Banned, ControlCommand, Decided};
use crate::index::Pruner;
use crate::operator::connections::Connection;
use crate::operator::control::Control;
use crate::operator::stores::Pace;
use crate::operator::{accept, audit, connections, exchange, members, reports, retention, rules, status, watch};
use crate::process::users::OtherUser;

/// Concurrent connections; further ones wait to be accepted.
pub(crate) const CONNECTIONS_MAX: usize = 8;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 16;
/// Bytes of a command; a filter may have thousands of authors.
const COMMAND_BYTES_MAX: u64 = 1 << 20;
/// Time for a command to arrive, and again for its answer to be read.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Answers of the server: `{"ok": ..}` or `{"error": ".."}`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    /// The result of the command.
    Ok(Value),
    /// The cause of its failure.
    Error(String),
}

/// Returns the path of the socket in a folder.
pub(crate) fn path(folder: &Path) -> PathBuf {
    folder.join("ctl.sock")
}

/// Returns true if a server answers the socket in a folder.
///
/// # Errors
/// This user may not ask.
pub(crate) fn is_served(folder: &Path) -> Result<bool> {
    let path = path(folder);
    match std::os::unix::net::UnixStream::connect(&path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Err(refused(&path, &error)),
        Err(_) => Ok(false),
    }
}

/// Returns the error of a socket that cannot be connected to, with the way to do so.
pub(crate) fn refused(path: &Path, error: &std::io::Error) -> Error {
    let owner = || path.ancestors().skip(1).find_map(OtherUser::of);
    let remedy = match (error.kind(), owner()) {
        (ErrorKind::PermissionDenied, Some(other)) => {
            format!("the server's data is of the user {}: `{}`", other.name, other.command(".."))
        }
        _ => "is the server running, with this --data-dir and --network?".to_owned(),
    };
    anyhow!("failed to connect to {}: {error}; {remedy}", path.display())
}

/// Binds the socket, for its owner alone. Replaces one that an earlier process left: the store's lock proves that no
/// other process runs.
pub(crate) fn bind(path: &Path) -> Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("failed to replace the socket {}", path.display()));
        }
        _ => {}
    }
    bind_private(path).with_context(|| format!("failed to create the socket {}", path.display()))
}

/// Binds a socket that has its final mode from its first moment: Linux gives a bound socket the mode of the unbound
/// one.
fn bind_private(path: &Path) -> std::io::Result<UnixListener> {
    let socket = UnixSocket::new_stream()?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    socket.bind(path)?;
    socket.listen(BACKLOG)
}

/// Serves for as long as the future is polled.
pub(crate) async fn serve(listener: UnixListener, control: Arc<Control>) {
    let answer = |socket| {
        let control = Arc::clone(&control);
        async move {
            if let Err(error) = serve_connection(socket, &control).await {
                tracing::debug!(%error, "control connection failed");
            }
        }
    };
    accept::each(listener, CONNECTIONS_MAX, answer).await;
}

async fn serve_connection(mut socket: UnixStream, control: &Control) -> Result<()> {
    let (reader, mut writer) = socket.split();
    let (mut reader, mut line) = (BufReader::new(reader), String::new());
    timeout(TIMEOUT, (&mut reader).take(COMMAND_BYTES_MAX).read_line(&mut line)).await??;
    let command = serde_json::from_str(&line);
    let answer = match &command {
        Ok(command @ (ControlCommand::Verify | ControlCommand::Backup { .. })) => {
            let (command, stores) = (command.clone(), control.stores.clone());
            at_length(move || match &command {
                ControlCommand::Backup { folder } => stores.back_up(folder, Pace::Gentle).map(|done| json!(done)),
                _ => stores.check(Pace::Gentle).map(|checked| json!(checked)),
            })
            .await
        }
        Ok(ControlCommand::OfferPrune { keep_bytes }) => with_pruner(control, *keep_bytes, Pruner::offer).await,
        Ok(ControlCommand::Prune { keep_bytes }) => with_pruner(control, *keep_bytes, Pruner::prune).await,
        Ok(ControlCommand::Retention) => {
            let (relay, flags) = (control.relay.clone(), control.flags.clone());
            at_length(move || retention::weigh(relay.as_deref(), &flags)).await
        }
        Ok(ControlCommand::ReloadWatches) => {
            let watches = control.watches.clone();
            at_length(move || watch::reload(watches.as_ref())).await
        }
        Ok(ControlCommand::TestChannel { channel }) => {
            let (channel, watches) = (channel.clone(), control.watches.clone());
            at_length(move || watch::test(watches.as_ref(), &channel)).await
        }
        Ok(command @ (ControlCommand::Import | ControlCommand::Export | ControlCommand::Sync(_))) => {
            let exchanged = exchange(command, control, &mut reader, &mut writer).await;
            exchanged.map_or_else(|error| Answer::Error(format!("{error:#}")), Answer::Ok)
        }
        Ok(command) => {
            execute(command, control, Actor::Ctl).unwrap_or_else(|error| Answer::Error(format!("{error:#}")))
        }
        Err(error) => Answer::Error(format!("failed to parse the command: {error}")),
    };
    let answer = serde_json::to_string(&answer)? + "\n";
    timeout(TIMEOUT, writer.write_all(answer.as_bytes())).await??;
    // Only now that the answer is written.
    if command.is_ok_and(|command| command == ControlCommand::Stop) {
        control.stop.notify_one();
    }
    Ok(())
}

/// Executes a command that reads or writes more than one line.
async fn exchange(
    command: &ControlCommand,
    control: &Control,
    reader: &mut (impl AsyncBufRead + Unpin),
    writer: &mut (impl AsyncWrite + Unpin),
) -> Result<Value> {
    let relay = control.relay.as_ref().context(rules::RELAY_IS_OFF)?;
    Ok(match command {
        ControlCommand::Import => json!(exchange::import(relay, reader, writer).await?),
        ControlCommand::Sync(request) => {
            json!(exchange::synchronize_over(relay, &control.dial, request, writer).await?)
        }
        _ => json!(exchange::export(relay, writer).await?),
    })
}

/// Asks the pruner, which asks the node.
async fn with_pruner<T: Serialize>(
    control: &Control,
    keep_bytes: u64,
    ask: impl FnOnce(&Pruner, u64) -> Result<T> + Send + 'static,
) -> Answer {
    match control.bitcoin.as_ref().and_then(|bitcoin| bitcoin.pruner.clone()) {
        Some(pruner) => at_length(move || ask(&pruner, keep_bytes).map(|answer| json!(answer))).await,
        None => Answer::Error("failed to prune: the server has no node".into()),
    }
}

/// Executes what takes long, on a thread of its own that ends with the process.
pub(super) async fn at_length(work: impl FnOnce() -> Result<Value> + Send + 'static) -> Answer {
    let (done, answer) = oneshot::channel();
    std::thread::spawn(move || {
        // Nobody waits for it any more.
        let _ = done.send(work());
    });
    let answer = answer.await.context("failed to execute the command: its thread ended early; see the log");
    answer.flatten().map_or_else(|error| Answer::Error(format!("{error:#}")), Answer::Ok)
}

/// Executes a command that takes a moment, for the operator at one of the tools.
pub(crate) fn execute(command: &ControlCommand, control: &Control, actor: Actor) -> Result<Answer> {
    Ok(match command {
        ControlCommand::Status => Answer::Ok(json!(status::status(control))),
        ControlCommand::Connections => Answer::Ok(connections::list(control).iter().map(Connection::to_json).collect()),
        ControlCommand::Disconnect { id } if connections::disconnect(control, *id) => {
            tracing::info!(id, "closing a connection for the operator");
            Answer::Ok(json!({ "disconnected": id }))
        }
        ControlCommand::Disconnect { id } => {
            Answer::Error(format!("no connection has the id {id}; list them with `birdhouse ctl connections`"))
        }
        ControlCommand::LogLevel { level } => {
            control.level.set(level)?;
            tracing::info!(level, "changed the log level for the operator");
            Answer::Ok(json!({ "level": level }))
        }
        ControlCommand::Explain { filter } => match &control.relay {
            None => Answer::Error(rules::RELAY_IS_OFF.into()),
            Some(relay) => {
                relay.explain(filter).map_or_else(Answer::Error, |explanation| Answer::Ok(plan(&explanation)))
            }
        },
        ControlCommand::AcceptReorg => {
            match control.bitcoin.as_ref().and_then(|bitcoin| bitcoin.index.accept_reorg()) {
                None => Answer::Error("the index waits for no reorg; see `birdhouse ctl status`".into()),
                Some(reason) => {
                    tracing::warn!(%reason, "following the node's chain for the operator");
                    Answer::Ok(json!({ "accepted": reason.to_string() }))
                }
            }
        }
        ControlCommand::Ban(Banned { decided: Decided { subject, reason }, seconds }) => {
            let rule = rules::rule(Verdict::Ban, reason, *seconds);
            Answer::Ok(rules::decide(control, subject, rule, actor)?)
        }
        ControlCommand::Unban(subject) => Answer::Ok(rules::take_back(control, subject, Verdict::Ban, actor)?),
        ControlCommand::Allow(Decided { subject, reason }) => {
            Answer::Ok(rules::decide(control, subject, rules::rule(Verdict::Allow, reason, None), actor)?)
        }
        ControlCommand::Unallow(subject) => Answer::Ok(rules::take_back(control, subject, Verdict::Allow, actor)?),
        ControlCommand::Ignore(Decided { subject, reason }) => {
            Answer::Ok(rules::ignore(control, subject, reason, actor)?)
        }
        ControlCommand::Unignore(subject) => Answer::Ok(rules::take_back(control, subject, Verdict::Ignore, actor)?),
        ControlCommand::Banned => Answer::Ok(rules::list(control)),
        ControlCommand::Audit { count } => Answer::Ok(audit::list(control, *count)?),
        ControlCommand::Undo { number } => Answer::Ok(audit::undo(control, *number, actor)?),
        ControlCommand::Members => Answer::Ok(members::list(control)),
        ControlCommand::Invites => Answer::Ok(members::invites(control)),
        ControlCommand::Invite { uses, days } => Answer::Ok(members::invite(control, *uses, *days, actor)?),
        ControlCommand::Revoke { code } => Answer::Ok(members::revoke(control, code, actor)?),
        ControlCommand::Reports => Answer::Ok(reports::list(control)?),
        ControlCommand::Watches | ControlCommand::Notices { .. } => match &control.watches {
            None => Answer::Error(watch::NO_INDEX.into()),
            Some(watches) => Answer::Ok(watch::execute(watches, command)?),
        },
        ControlCommand::Stop => {
            tracing::info!("stopping for the operator");
            Answer::Ok(json!({ "stopping": true }))
        }
        ControlCommand::Verify
        | ControlCommand::Backup { .. }
        | ControlCommand::OfferPrune { .. }
        | ControlCommand::Prune { .. }
        | ControlCommand::Retention
        | ControlCommand::ReloadWatches
        | ControlCommand::Import
        | ControlCommand::Export
        | ControlCommand::Sync(_)
        | ControlCommand::TestChannel { .. } => unreachable!("they take long"),
    })
}

fn plan(Explanation { steps, cost }: &Explanation) -> Value {
    json!({ "plan": steps.join(", then "), "postings": cost.postings, "events": cost.events, "rows": cost.rows })
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[tokio::test]
    async fn the_socket_is_for_its_owner_alone_and_replaces_a_stale_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path());
        drop(bind(&path).unwrap());
        assert!(path.exists());
        let _listener = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
