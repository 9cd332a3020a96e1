//! Places of a listener that is full.

use std::future::pending;
use std::sync::Arc;
use std::time::{Duration, Instant};

use birdhouse_clients::{ClientKeying, PlaceBounds};
use birdhouse_net::{Accepted, ConnectionSlots, Connections, Listener, Proxy, Registry, Seats, Transport, serve};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

#[tokio::test]
async fn a_connection_that_cannot_leave_keeps_no_newcomer_out() {
    let registry = Registry::new(ClientKeying::default(), Connections::default());
    let seats = Seats::new(PlaceBounds::of_networks(None), Vec::new(), Arc::default(), Instant::now());
    let slots = ConnectionSlots::new(2, seats);
    let socket = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = socket.local_addr().unwrap();
    let listener = Listener { name: "tcp".into(), transport: Transport::Tcp, proxy: Proxy::Off, limits: () };
    let converse = async |Accepted { id, mut socket, seat, permit, .. }: Accepted<()>| {
        socket.write_all(b"in").await.unwrap();
        // As one that waits for the node.
        if id == 1 {
            pending::<()>().await;
        }
        seat.displaced().await;
        drop(permit);
    };
    let serving = tokio::spawn(async move {
        let listeners = vec![(socket, listener)];
        serve(listeners, &registry, |()| slots.clone(), pending(), Duration::ZERO, converse).await;
    });
    let open = async || {
        let mut socket = TcpStream::connect(addr).await.unwrap();
        let welcome = timeout(Duration::from_secs(20), socket.read_exact(&mut [0; 2])).await;
        welcome.expect("a place").unwrap();
        socket
    };
    let [_first, mut second, _third] = [open().await, open().await, open().await];
    assert_eq!(second.read(&mut [0]).await.unwrap(), 0);
    serving.abort();
}
