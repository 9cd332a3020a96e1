//! Replies that wait for their client: their order, their bounds, and the turns of others meanwhile.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use birdhouse_net::{CloseCode, Lines, Outbox, Patience, Pool, SHARE_BYTES, Unsent, write_now};
use tokio::io::AsyncReadExt as _;
use tokio::task::yield_now;
use tokio::time::timeout;

/// Bytes that the outbox writes before other tasks have their turn.
const WRITE_BYTES: usize = 128 << 10;

const STALLED: Duration = Duration::from_mins(1);
const PATIENCE: Patience = Patience { usual: STALLED, crowded: Duration::from_secs(5) };

fn unsent(bytes_max: usize) -> Unsent {
    Unsent { all: Pool::new(bytes_max), client: Pool::new(usize::MAX) }
}

fn outbox(bytes_max: usize, unsent_max: usize) -> Outbox {
    Outbox::new::<Lines>(bytes_max, unsent(unsent_max))
}

#[tokio::test]
async fn lines_leave_whole_and_in_order_until_closed() {
    let outbox = outbox(100, 100);
    let mut written = Vec::new();
    outbox.push(b"one".to_vec());
    outbox.push(b"two".to_vec());
    outbox.close(CloseCode::Normal);
    outbox.push(b"three".to_vec());
    outbox.drain(&mut written, STALLED).await;
    assert_eq!(written, b"one\ntwo\n");
    assert!(!outbox.room().await);
    outbox.closed().await;
}

#[tokio::test]
async fn a_full_outbox_has_room_again_once_the_client_has_read() {
    let outbox = Arc::new(outbox(8, 100));
    let (mut client, server) = tokio::io::duplex(4);
    outbox.push(b"0123456789".to_vec());
    assert!(!outbox.has_room());
    let writer = tokio::spawn({
        let outbox = Arc::clone(&outbox);
        async move { outbox.drain(server, STALLED).await }
    });
    let mut line = [0; 11];
    client.read_exact(&mut line).await.unwrap();
    assert_eq!(&line, b"0123456789\n");
    assert!(outbox.room().await);
    outbox.close(CloseCode::Normal);
    writer.await.unwrap();
}

#[tokio::test]
async fn while_much_is_written_others_have_their_turns() {
    for messages in [vec![10 * WRITE_BYTES], vec![WRITE_BYTES; 10]] {
        let outbox = outbox(usize::MAX, usize::MAX);
        for bytes in messages {
            outbox.push(vec![b'x'; bytes]);
        }
        outbox.close(CloseCode::Normal);
        let turns = Arc::new(AtomicUsize::new(0));
        let other = tokio::spawn({
            let turns = Arc::clone(&turns);
            async move {
                loop {
                    turns.fetch_add(1, Ordering::Relaxed);
                    yield_now().await;
                }
            }
        });
        outbox.drain(Vec::new(), STALLED).await;
        assert!((9..20).contains(&turns.load(Ordering::Relaxed)), "{turns:?}");
        other.abort();
    }
}

/// Counts how often a task was woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn a_writer_that_is_polled_anyway_is_woken_by_nobody() {
    let outbox = outbox(100, 100);
    let mut written = Vec::new();
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let mut context = Context::from_waker(&waker);
    {
        let mut draining = pin!(outbox.drain(&mut written, STALLED));
        let mut poll = || assert!(draining.as_mut().poll(&mut context).is_pending());
        poll();
        outbox.push(b"one".to_vec());
        outbox.push(b"two".to_vec());
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1, "once for all that waits");
        poll();
        outbox.attend();
        outbox.push(b"three".to_vec());
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        poll();
        outbox.push(b"four".to_vec());
        assert_eq!(wakes.0.load(Ordering::Relaxed), 2);
    }
    assert_eq!(written, b"one\ntwo\nthree\n");
}

#[tokio::test]
async fn a_client_that_is_gone_closes_the_outbox() {
    let outbox = outbox(8, 100);
    let (client, server) = tokio::io::duplex(4);
    drop(client);
    outbox.push(b"0123456789".to_vec());
    outbox.drain(server, STALLED).await;
    assert!(!outbox.room().await);
}

#[tokio::test]
async fn what_is_written_now_counts_only_while_the_client_does_not_take_it() {
    let unsent = unsent(usize::MAX);
    let held = || unsent.all.bytes.load(Ordering::Relaxed);
    let (mut client, mut server) = tokio::io::duplex(100);
    write_now(&mut server, &[b'x'; 100], PATIENCE, &unsent).await.unwrap();
    {
        let mut writing = pin!(write_now(&mut server, &[b'y'; 80], PATIENCE, &unsent));
        assert!(timeout(Duration::from_millis(10), &mut writing).await.is_err());
        assert_eq!(held(), 80);
        client.read_exact(&mut [0; 100]).await.unwrap();
        writing.await.unwrap();
    }
    assert_eq!(held(), 0);
    assert!(timeout(Duration::from_millis(10), write_now(&mut server, &[b'z'; 80], PATIENCE, &unsent)).await.is_err());
    assert_eq!(held(), 0, "given up");
    let usual = Duration::from_millis(10);
    let stalled = write_now(&mut server, &[b'z'; 80], Patience { usual, ..PATIENCE }, &unsent).await;
    assert_eq!(stalled.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test(start_paused = true)]
async fn who_takes_nothing_has_less_time_while_memory_is_short() {
    for (bytes_max, expected) in [(50, PATIENCE.crowded), (usize::MAX, PATIENCE.usual)] {
        let unsent = unsent(bytes_max);
        let (_client, mut server) = tokio::io::duplex(100);
        let since = tokio::time::Instant::now();
        let stalled = write_now(&mut server, &[b'z'; 180], PATIENCE, &unsent).await;
        assert_eq!(stalled.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        assert_eq!(since.elapsed().as_secs(), expected.as_secs(), "{bytes_max}");
        assert_eq!(unsent.all.bytes.load(Ordering::Relaxed), 0);
    }
}

#[tokio::test]
async fn when_all_hold_too_much_each_may_hold_its_share() {
    let unsent = unsent(2 * SHARE_BYTES);
    let greedy = Outbox::new::<Lines>(10 * SHARE_BYTES, unsent.clone());
    let modest = Outbox::new::<Lines>(10 * SHARE_BYTES, unsent.clone());
    greedy.push(vec![b'x'; 2 * SHARE_BYTES]);
    assert!(!greedy.has_room());
    modest.push(vec![b'x'; SHARE_BYTES - 1]);
    assert!(modest.has_room());
    modest.push(b"x".to_vec());
    assert!(!modest.has_room());
    drop(greedy);
    assert!(modest.has_room());
    modest.close(CloseCode::Normal);
    modest.drain(Vec::new(), STALLED).await;
    assert_eq!(unsent.all.bytes.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn an_outbox_whose_writer_is_dropped_is_closed() {
    let unsent = unsent(1_000_000);
    let outbox = Outbox::new::<Lines>(100, unsent.clone());
    outbox.push(vec![7; 1000]);
    let writing = outbox.drain(tokio::io::duplex(10).0, STALLED);
    let mut waiting = pin!(outbox.room());
    assert!(timeout(Duration::from_millis(10), waiting.as_mut()).await.is_err());
    drop(writing);
    assert!(!waiting.await);
    outbox.closed().await;
    assert_eq!(unsent.all.bytes.load(Ordering::Relaxed), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_added_is_flushed_once_it_is_written() {
    let outbox = Arc::new(outbox(100, 100));
    assert!(outbox.flushed().await, "nothing waits");
    let (mut client, server) = tokio::io::duplex(4);
    outbox.push(b"0123456789".to_vec());
    let writer = tokio::spawn({
        let outbox = Arc::clone(&outbox);
        async move { outbox.drain(server, STALLED).await }
    });
    // Time passes when nobody has anything left to do.
    assert!(timeout(Duration::from_secs(1), outbox.flushed()).await.is_err());
    let mut line = [0; 11];
    client.read_exact(&mut line).await.unwrap();
    assert!(outbox.flushed().await);
    outbox.close(CloseCode::Normal);
    writer.await.unwrap();
    assert!(!outbox.flushed().await, "nobody writes any more");
}
