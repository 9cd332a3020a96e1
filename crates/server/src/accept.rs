//! The accept loop of relay, metrics and control socket: a bounded number of connections, each on a task of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Pause after a failed accept, for example when the process has no file descriptor left.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// A listening socket.
pub(crate) trait Listener {
    type Socket: Send + 'static;

    /// Waits for a connection.
    fn next(&self) -> impl Future<Output = io::Result<Self::Socket>> + Send;
}

impl Listener for TcpListener {
    type Socket = TcpStream;

    async fn next(&self) -> io::Result<TcpStream> {
        self.accept().await.map(|(socket, _)| socket)
    }
}

impl Listener for UnixListener {
    type Socket = UnixStream;

    async fn next(&self) -> io::Result<UnixStream> {
        self.accept().await.map(|(socket, _)| socket)
    }
}

/// Runs `serve` for each connection, on a task of its own, for as long as the future is polled. With
/// `connections_max` open, further ones wait in the system's queue. `purpose` names the listener in the log.
pub(crate) async fn each<L: Listener, C>(
    listener: L,
    purpose: &str,
    connections_max: usize,
    serve: impl Fn(L::Socket) -> C,
) where
    C: Future<Output = ()> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(connections_max));
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await.expect("the semaphore is never closed");
        match listener.next().await {
            Ok(socket) => {
                let connection = serve(socket);
                tokio::spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, purpose, "failed to accept a connection");
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}
