//! Bounds of time and memory; the framings test what messages are.
#![expect(clippy::unwrap_used, reason = "tests")]

use tokio::io::{AsyncWriteExt as _, DuplexStream};

use super::*;
use crate::lines::Lines;

/// Every message of a stream that comes in pieces, and how it ends. Replies of the framing are passed over.
pub(crate) async fn all<F: Framing>(pieces: &[&[u8]], message_bytes_max: usize) -> (Vec<Vec<u8>>, Next) {
    let stream = pieces
        .iter()
        .fold(Box::new(tokio::io::empty()) as Box<dyn AsyncRead + Unpin>, |head, piece| Box::new(head.chain(*piece)));
    let limits = Limits { message_bytes: message_bytes_max, ..Limits::default() };
    let mut incoming = Incoming::<_, F>::new(stream, &limits, Arc::new(Semaphore::new(1 << 20)));
    let mut taken = Vec::new();
    loop {
        match incoming.next().await.unwrap() {
            Next::Message => taken.push(incoming.take().to_vec()),
            Next::Reply(_) => {}
            end => return (taken, end),
        }
    }
}

fn lines(limits: &Limits, unfinished: &Arc<Semaphore>) -> (DuplexStream, Incoming<DuplexStream, Lines>) {
    let (client, server) = tokio::io::duplex(1 << 20);
    (client, Incoming::new(server, limits, Arc::clone(unfinished)))
}

/// What the reader says, and after how many seconds.
async fn next(incoming: &mut Incoming<DuplexStream, Lines>) -> (Next, u64) {
    let start = Instant::now();
    let next = incoming.next().await.unwrap();
    (next, start.elapsed().as_secs())
}

#[tokio::test(start_paused = true)]
async fn silence_ends_sooner_before_the_first_byte_than_later() {
    let limits = Limits {
        first_message_timeout: Duration::from_secs(5),
        idle_timeout: Duration::from_secs(50),
        ..Limits::default()
    };
    let (mut client, mut incoming) = lines(&limits, &Arc::new(Semaphore::new(0)));
    assert_eq!(next(&mut incoming).await, (Next::Idle, 5));
    client.write_all(b"one\n").await.unwrap();
    assert_eq!(next(&mut incoming).await.0, Next::Message);
    incoming.take();
    assert_eq!(next(&mut incoming).await, (Next::Idle, 50));
}

#[tokio::test(start_paused = true)]
async fn a_message_that_trickles_in_is_slow_however_often_bytes_come() {
    let limits = Limits { message_timeout: Duration::from_secs(20), ..Limits::default() };
    let (mut client, mut incoming) = lines(&limits, &Arc::new(Semaphore::new(0)));
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
    let unfinished = Arc::new(Semaphore::new(100_000));
    let limits = Limits::default();
    let (mut first_client, mut first) = lines(&limits, &unfinished);
    let (mut second_client, mut second) = lines(&limits, &unfinished);
    first_client.write_all(&vec![b'x'; 60_000]).await.unwrap();
    second_client.write_all(&vec![b'x'; 60_000]).await.unwrap();
    second_client.write_all(b"\n").await.unwrap();
    assert!(timeout(Duration::from_millis(100), first.next()).await.is_err(), "there is memory for one");
    assert_eq!(second.next().await.unwrap(), Next::Crowded);
    first_client.write_all(b"\n").await.unwrap();
    assert_eq!(first.next().await.unwrap(), Next::Message);
    assert_eq!(first.take().len(), 60_000);
    assert!(timeout(Duration::from_millis(100), first.next()).await.is_err(), "nothing more comes");
    assert_eq!(
        unfinished.available_permits() + second.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits),
        100_000
    );
    assert_eq!(second.next().await.unwrap(), Next::Message);
}
