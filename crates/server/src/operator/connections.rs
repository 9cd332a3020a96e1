//! The open connections of all protocols, for `birdhouse ctl` and the dashboard.
//!
//! The protocols of a process number their connections with one counter (`Connections` of `net`), so `birdhouse ctl`
//! names a connection by its number alone.

use std::sync::Arc;
use std::time::Duration;

use birdhouse_net::ConnectionInfo;
use serde_json::{Value, json};

use crate::operator::control::Control;
use crate::services::Service;

/// A connection and the protocol that it speaks.
#[derive(Debug)]
pub(super) struct Connection {
    protocol: &'static str,
    pub(super) info: ConnectionInfo,
}

/// Lists the connections, the oldest first.
pub(super) fn list(control: &Control) -> Vec<Connection> {
    let of = |service: &Arc<dyn Service>| {
        let protocol = service.name();
        service.connections().into_iter().map(move |info| Connection { protocol, info })
    };
    let mut all: Vec<Connection> = control.services.iter().flat_map(of).collect();
    all.sort_by_key(|connection| connection.info.id);
    all
}

/// Ends a connection. Returns false if there is none of this number.
pub(super) fn disconnect(control: &Control, id: u64) -> bool {
    control.services.iter().any(|service| service.disconnect(id))
}

impl Connection {
    /// Returns its part of the answer to `birdhouse ctl connections`.
    pub(super) fn to_json(&self) -> Value {
        let Self { protocol, info } = self;
        json!({
            "id": info.id,
            "protocol": protocol,
            "listener": info.listener,
            "client": info.client,
            "age_s": info.age.as_secs(),
            "requests": info.requests,
            "bytes_in": info.bytes_in,
            "bytes_out": info.bytes_out,
            "subscriptions": info.subscriptions,
            "work_ms": millis(info.work),
            "client_work_ms": millis(info.client_work),
        })
    }
}

/// Returns a time in milliseconds.
pub(super) fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
