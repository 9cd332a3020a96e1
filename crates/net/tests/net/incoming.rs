//! Bounds of time and memory; the framings test what messages are.

use std::time::Duration;

use birdhouse_net::{Bounds, Incoming, Lines, Next, PartialMessages};
use tokio::io::{AsyncWriteExt as _, DuplexStream};
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
