//! A peer that answers by a function.

use std::net::SocketAddr;

use futures_util::{SinkExt as _, StreamExt as _};
use tokio::net::TcpListener;
use tokio_tungstenite::accept_async;
use tokio_tungstenite::tungstenite::Message;

/// The answer of a peer that hangs up.
pub(crate) const HANGS_UP: &str = "";

/// A peer that answers each message of each connection with others, which it writes together.
pub(crate) async fn peer(answers: impl Fn(&str) -> Vec<String> + Clone + Send + 'static) -> SocketAddr {
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = socket.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = socket.accept().await {
            let answers = answers.clone();
            tokio::spawn(async move {
                let Ok(mut client) = accept_async(socket).await else { return };
                while let Some(Ok(message)) = client.next().await {
                    // A stream sends a ping every half minute.
                    let Message::Text(text) = message else { continue };
                    for answer in answers(&text) {
                        if answer == HANGS_UP {
                            let _ = client.close(None).await;
                            return;
                        }
                        if client.feed(Message::text(answer)).await.is_err() {
                            return;
                        }
                    }
                    if client.flush().await.is_err() {
                        return;
                    }
                }
            });
        }
    });
    addr
}
