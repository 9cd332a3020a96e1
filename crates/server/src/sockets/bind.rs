//! Binding of sockets, with advice where that fails.

use std::io::ErrorKind;
use std::net::SocketAddr;

use anyhow::{Result, anyhow};
use tokio::net::TcpListener;

/// Binds the listener of this name, or of this setting.
pub(crate) async fn listen(name: &str, addr: SocketAddr) -> Result<TcpListener> {
    let failed =
        |error: std::io::Error| anyhow!("failed to bind {name} to {addr}: {error}; {}", advice(error.kind(), addr));
    TcpListener::bind(addr).await.map_err(failed)
}

/// Returns the way out if an address cannot be bound.
pub(crate) fn advice(error: ErrorKind, addr: SocketAddr) -> String {
    match error {
        ErrorKind::AddrInUse => {
            format!("`ss -tlnp 'sport = :{}'` shows the program there; stop it, or choose another port", addr.port())
        }
        _ => "choose an address of this machine and a port above 1023".to_owned(),
    }
}
