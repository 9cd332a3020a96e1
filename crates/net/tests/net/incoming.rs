//! Bounds of time and memory; the framings test what messages are.

use std::time::Duration;

use birdhouse_clients::{ClientKeying, Origin};
use birdhouse_net::{Bounds, ClientBounds, Connections, Incoming, Lines, Next, PartialMessages, Registry};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, repeat};
use tokio::time::{Instant, timeout};

use crate::BOUNDS;

fn lines(bounds: Bounds, partial: &PartialMessages) -> (DuplexStream, Incoming<DuplexStream, Lines>) {
    let (client, server) = tokio::io::duplex(1 << 20);
    (client, Incoming::new(server, Vec::new(), Lines::default(), bounds, partial.clone()))
}

/// The reader's next step, and the seconds until it.
async fn next(incoming: &mut Incoming<DuplexStream, Lines>) -> (Next, u64) {
    let start = Instant::now();
    let next = incoming.next().await.unwrap();
    (next, start.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn silence_ends_sooner_before_the_first_byte_than_later() {
    let bounds = Bounds { first_message: Duration::from_secs(5), idle: Duration::from_secs(50), ..BOUNDS };
    let (mut client, mut incoming) = lines(bounds, &PartialMessages::new(0));
    assert_eq!(next(&mut incoming).await, (Next::Idle, 5));
    client.write_all(b"one\n").await.unwrap();
    assert_eq!(next(&mut incoming).await.0, Next::Message);
    incoming.take();
    assert_eq!(next(&mut incoming).await, (Next::Idle, 50));
    incoming.ask(Duration::from_secs(7));
    assert_eq!(next(&mut incoming).await, (Next::Unanswered, 7));
}

#[tokio::test(start_paused = true)]
async fn a_silence_goes_on_though_its_future_is_dropped() {
    let (mut client, mut incoming) = lines(BOUNDS, &PartialMessages::new(0));
    for _ in 0..5 {
        assert!(timeout(Duration::from_secs(11), incoming.next()).await.is_err());
    }
    assert_eq!(next(&mut incoming).await, (Next::Idle, 5));
    incoming.ask(Duration::from_secs(50));
    client.write_all(b"o").await.unwrap();
    assert!(timeout(Duration::from_secs(45), incoming.next()).await.is_err());
    client.write_all(b"ne\n").await.unwrap();
    assert_eq!(next(&mut incoming).await.0, Next::Message);
    incoming.take();
    assert_eq!(next(&mut incoming).await, (Next::Idle, 30 * 60));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_trickles_in_is_slow_however_often_bytes_come() {
    let bounds = Bounds { message: Duration::from_secs(20), ..BOUNDS };
    let (mut client, mut incoming) = lines(bounds, &PartialMessages::new(0));
    let trickle = tokio::spawn(async move {
        while client.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    });
    assert_eq!(next(&mut incoming).await, (Next::Slow, 20));
    drop(incoming);
    trickle.await.unwrap();
}

#[tokio::test]
async fn beginnings_of_messages_share_one_bound_and_give_it_back() {
    let partial = PartialMessages::new(100_000);
    let (mut first_client, mut first) = lines(BOUNDS, &partial);
    let (mut second_client, mut second) = lines(BOUNDS, &partial);
    first_client.write_all(&vec![b'x'; 60_000]).await.unwrap();
    second_client.write_all(&vec![b'x'; 60_000]).await.unwrap();
    second_client.write_all(b"\n").await.unwrap();
    assert!(timeout(Duration::from_millis(100), first.next()).await.is_err(), "there is memory for one");
    assert_eq!(second.next().await.unwrap(), Next::Crowded);
    first_client.write_all(b"\n").await.unwrap();
    assert_eq!(first.next().await.unwrap(), Next::Message);
    assert_eq!(first.take().bytes.len(), 60_000);
    assert!(timeout(Duration::from_millis(100), first.next()).await.is_err(), "nothing more comes");
    assert_eq!(second.next().await.unwrap(), Next::Message);
    drop((first, second));
    let (mut third_client, mut third) = lines(BOUNDS, &partial);
    third_client.write_all(&vec![b'x'; 60_000]).await.unwrap();
    assert!(timeout(Duration::from_millis(100), third.next()).await.is_err(), "the memory is there again");
}

/// Bytes that are read of a client after it was sent away, and then of a second connection of the same client.
async fn read_after_farewells(work: Option<Duration>) -> [u64; 2] {
    const BYTES: u64 = 6_000_000;
    let registry = Registry::new(ClientKeying::default(), Connections::default());
    let bounds = ClientBounds { connections: None, work, work_percent: 0, unsent_bytes: None };
    let origin = Origin::of([192, 0, 2, 1].into());
    let mut read = [0; 2];
    for (number, read) in (0..).zip(&mut read) {
        let client = registry.enter(number, "tcp", origin, &bounds, std::time::Instant::now()).unwrap();
        let endless = repeat(b'{').take(BYTES);
        let partial = PartialMessages::new(1 << 20);
        let mut incoming = Incoming::new(endless, Vec::new(), Lines::default(), BOUNDS, partial);
        incoming.farewell(&client.meter).await;
        *read = BYTES - incoming.stream().limit();
    }
    read
}

#[tokio::test(start_paused = true)]
async fn a_client_pays_for_what_it_sends_after_it_was_sent_away() {
    assert_eq!(read_after_farewells(None).await, [6_000_000; 2]);
    // At 20 ns a byte.
    let [first, second] = read_after_farewells(Some(Duration::from_millis(2))).await;
    assert!((100_000..200_000).contains(&first), "{first}");
    assert!(second < 50_000, "one step: {second}");
}
