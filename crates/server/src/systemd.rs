//! What systemd is told, when it listens (`Type=notify`): ready, still alive, stopping. Elsewhere nothing happens.

use std::time::Duration;

use sd_notify::NotifyState;

/// The server listens.
pub(crate) fn ready() {
    tell(&[NotifyState::Ready]);
}

/// One line for `systemctl status`.
pub(crate) fn status(text: &str) {
    tell(&[NotifyState::Status(text)]);
}

/// The server ends.
pub(crate) fn stopping() {
    tell(&[NotifyState::Stopping]);
}

/// Says again and again that the server is alive, as often as systemd wants it twice, for as long as this is polled.
pub(crate) async fn keep_alive() {
    let Some(every) = sd_notify::watchdog_enabled() else { return std::future::pending().await };
    let mut ticks = tokio::time::interval(every.div_f64(2.0).max(Duration::from_millis(1)));
    loop {
        ticks.tick().await;
        tell(&[NotifyState::Watchdog]);
    }
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd cannot be told");
    }
}
