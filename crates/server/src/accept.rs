//! Accepting connections that are not wallets': so many at one time, the others wait in the system's queue.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::sleep;

/// How long to wait when the system has no socket to give.
const PAUSE: Duration = Duration::from_millis(100);

/// What gives connections.
pub(crate) trait Listener {
    type Socket: Send + 'static;

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

/// Gives each connection to a task with `converse`, for as long as it is polled. `whose` says in the log what they are for.
pub(crate) async fn each<L: Listener, C>(
    listener: L,
    whose: &str,
    connections_max: usize,
    converse: impl Fn(L::Socket) -> C,
) where
    C: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(connections_max));
    loop {
        let place = Arc::clone(&places).acquire_owned().await.expect("the semaphore is never closed");
        match listener.next().await {
            Ok(socket) => {
                let conversation = converse(socket);
                tokio::spawn(async move {
                    conversation.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept {whose}");
                sleep(PAUSE).await;
            }
        }
    }
}
