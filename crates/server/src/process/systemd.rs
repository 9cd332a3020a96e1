//! Notifications to systemd (`Type=notify`): ready, alive, stopping. Without systemd they do nothing.

use std::time::Duration;

use sd_notify::NotifyState;

/// Reports that the server listens.
pub(crate) fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Sets the line that `systemctl status` shows.
pub(crate) fn status(text: &str) {
    notify(&[NotifyState::Status(text)]);
}

/// Reports that the server is stopping.
pub(crate) fn stopping() {
    notify(&[NotifyState::Stopping]);
}

/// Feeds the watchdog twice in each of its periods, for as long as the future is polled and `is_alive` says so.
pub(crate) async fn keep_alive(is_alive: impl Fn() -> bool) {
    let Some(period) = sd_notify::watchdog_enabled() else { return std::future::pending().await };
    let mut ticks = tokio::time::interval(period.div_f64(2.0).max(Duration::from_millis(1)));
    loop {
        ticks.tick().await;
        if is_alive() {
            notify(&[NotifyState::Watchdog]);
        }
    }
}

fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "failed to notify systemd");
    }
}
