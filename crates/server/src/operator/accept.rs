//! The accept loop of the control socket: a bounded number of connections, each on a task of its own.

use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// Pause after a failed accept, for example when the process has no file descriptor left.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// Runs `serve` for each connection, on a task of its own, for as long as the future is polled. With
/// `connections_max` open, further ones wait in the system's queue: only the owner of the socket can connect.
pub(super) async fn each<C>(listener: UnixListener, connections_max: usize, serve: impl Fn(UnixStream) -> C)
where
    C: Future<Output = ()> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(connections_max));
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await.expect("the semaphore is never closed");
        match listener.accept().await {
            Ok((socket, _)) => {
                let connection = serve(socket);
                tokio::spawn(async move {
                    connection.await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection of the control socket");
                sleep(RETRY_PAUSE).await;
            }
        }
    }
}
