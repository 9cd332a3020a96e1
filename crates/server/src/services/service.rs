//! The contract between a protocol and the rest of the server.

use std::fmt::{Debug, Result};
use std::pin::Pin;

use birdhouse_clients::SlowKind;
use birdhouse_dashboard::Status;
use birdhouse_net::ConnectionInfo;
use tokio::sync::oneshot;

use super::metrics_writer::MetricsWriter;
use super::rates::{Counts, PerSecond};
use crate::config::Options;
use crate::sockets::BoundListener;

/// The work of a service from start to end.
pub(crate) type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;
/// Completes, as its sender is dropped, when the server ends.
pub(crate) type Stopped = oneshot::Receiver<()>;

/// A protocol whose listeners are bound.
pub(crate) trait Service: Send + Sync {
    /// Returns the name of the protocol for the operator.
    fn name(&self) -> &'static str;

    /// Returns its listeners. Their certificates are loaded again at SIGHUP.
    fn listeners(&self) -> &[BoundListener];

    /// Serves its listeners until `stopped` completes; then clients have the shutdown timeout to take their answers.
    /// Called once.
    fn serve(&self, stopped: Stopped) -> Serving;

    /// Returns what a panic of [`Service::serve`] means for the others.
    fn on_panic(&self) -> OnPanic {
        OnPanic::OthersGoOn
    }

    /// Takes the settings that may change while it runs.
    fn reload(&self, _options: &Options) {}

    /// Returns every open connection. Their numbers come from the
    /// [`Connections`](birdhouse_net::Connections) of the process.
    fn connections(&self) -> Vec<ConnectionInfo>;

    /// Ends a connection. Returns false if there is none of this number.
    fn disconnect(&self, id: u64) -> bool;

    /// Reads its state once.
    fn overview(&self) -> Box<dyn Overview>;
}

/// The state of a service at one moment.
pub(crate) trait Overview: Debug + Send + Sync {
    /// Returns the number of open connections of every listener, also of one that nobody uses.
    fn connections(&self) -> Vec<(String, usize)>;

    /// Returns its slowest kinds of questions.
    fn slowest(&self) -> &[SlowKind];

    /// Writes its metrics.
    fn metrics(&self, metrics: &mut MetricsWriter<'_>) -> Result;

    /// Adds its counts to those of which the status has rates.
    fn count(&self, _counts: &mut Counts) {}

    /// Adds its figures to the status. `rates` are those of the last minute.
    fn show(&self, _status: &mut Status, _rates: PerSecond) {}
}

/// Consequence of a panic of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnPanic {
    EndsServer,
    OthersGoOn,
}

/// Returns the open connections of every listener, also of one that nobody uses.
pub(super) fn by_listener(listeners: &[BoundListener], open: &[(String, usize)]) -> Vec<(String, usize)> {
    let connections = |name: &String| open.iter().find(|(listener, _)| listener == name).map_or(0, |(_, count)| *count);
    listeners.iter().map(|BoundListener { name, .. }| (name.clone(), connections(name))).collect()
}
