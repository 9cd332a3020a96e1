//! Clients that flood, stall and never come to an end: others are served meanwhile, and memory has bounds.

use std::time::{Duration, Instant};

use birdhouse_events::{Kind, Timestamp, UnsignedEvent, VerifiedEvent};
use birdhouse_relay::{Limits, Settings};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_tungstenite::tungstenite::Message;

use crate::app::{App, PATIENCE, event, keys};
use crate::compression::{frame, raw, text_frame};

const LARGE_BYTES: usize = 100_000;
const LARGE_EVENTS: usize = 400;

/// Events that no socket's buffers hold all of.
fn large() -> impl Iterator<Item = VerifiedEvent> {
    (0..LARGE_EVENTS as u64).map(|second| {
        let (created_at, content) = (Timestamp(1_700_000_000 + second), "x".repeat(LARGE_BYTES));
        UnsignedEvent { created_at, kind: Kind(1), tags: Vec::new(), content }.sign(&keys(1))
    })
}

async fn app_with_large_events(limits: Limits) -> App {
    let app = App::start(Settings { limits, ..Settings::default() }).await;
    let mut author = app.client().await;
    for event in large() {
        author.store(&event).await;
    }
    drop(author);
    app.until("the author is gone", || app.relay.overview().connections == 0).await;
    app
}

/// The status that the relay closes a connection with; what it says before is skipped.
async fn status(socket: &mut TcpStream) -> u16 {
    let closing = async {
        loop {
            let (first, payload) = frame(socket).await;
            if first == 0x88 {
                return u16::from_be_bytes([payload[0], payload[1]]);
            }
        }
    };
    timeout(PATIENCE, closing).await.expect("the relay closes")
}

/// Sends a part again and again until the connection ends. The pause sets the rate; it waits for no condition.
async fn go_on(mut socket: tokio::net::tcp::OwnedWriteHalf, part: Vec<u8>) {
    while socket.write_all(&part).await.is_ok() {
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_made_for_who_does_not_read_and_nothing_is_lost_when_it_does() {
    let app = app_with_large_events(Limits::default()).await;
    let mut slow = app.client().await;
    slow.say(json!(["REQ", "a", {}])).await;
    let mut made = 0;
    loop {
        // Proves that nothing happens: no event is made in this time.
        sleep(Duration::from_millis(300)).await;
        let now = app.relay.overview().rows;
        if now == made && made > 0 {
            break;
        }
        made = now;
    }
    assert!(made <= 200, "{made}: what buffers of the system take, and no more than a page of some events");
    let mut other = app.client().await;
    for limit in [1, 3, 8, 50] {
        // More than one page, as these are bounded in bytes, too.
        let newest: Vec<String> = large().map(|event| event.id.to_string()).skip(LARGE_EVENTS - limit).collect();
        let stored = other.stored(&[json!({ "limit": limit })]).await;
        assert!(stored.iter().eq(newest.iter().rev()), "the newest {limit}");
    }
    let mut heard = 0;
    while slow.hear().await[0] == "EVENT" {
        heard += 1;
    }
    assert_eq!(heard, LARGE_EVENTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_takes_nothing_for_too_long_is_gone() {
    let limits = Limits { write_timeout: Duration::from_millis(300), ..Limits::default() };
    let app = app_with_large_events(limits).await;
    let mut stalled = app.client().await;
    let before = app.relay.overview().connections;
    stalled.say(json!(["REQ", "a", {}])).await;
    let start = Instant::now();
    while app.relay.overview().connections >= before {
        assert!(start.elapsed() < PATIENCE, "it is still there");
        sleep(Duration::from_millis(50)).await;
    }
}

/// Sends a beginning and then more and more; the relay must close the connection with this status.
async fn assert_sent_away(app: &App, beginning: &[u8], more: Vec<u8>, expected: u16) {
    let (_, mut socket) = raw(app, "").await;
    socket.write_all(beginning).await.unwrap();
    let (mut reader, writer) = socket.into_split();
    let writing = tokio::spawn(go_on(writer, more));
    let mut said = Vec::new();
    let end = timeout(PATIENCE, reader.read_to_end(&mut said));
    // A connection that the relay has closed while we write may be reset.
    let _ = end.await.expect("the relay closes");
    let at = said.windows(4).rposition(|bytes| bytes[0] == 0x88 && bytes[2..4] == u16::to_be_bytes(expected));
    assert!(at.is_some(), "{expected}: {said:?}");
    writing.abort();
    assert_eq!(app.client().await.count(json!({})).await, 0, "others are served");
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_and_fragments_without_an_end_end() {
    let limits = Limits { message_timeout: Duration::from_millis(500), ..Limits::default() };
    let app = App::start(Settings { limits, ..Settings::default() }).await;
    let unfinished = [
        // A frame of which a byte comes now and then; fragments of nothing; fragments, with pings between them.
        (text_frame(0x81, b"[", 9000), b" ".to_vec()),
        (text_frame(0x01, b"[", 1), text_frame(0x00, b"", 0)),
        (text_frame(0x01, b"[", 1), [text_frame(0x00, b" ", 1), vec![0x89, 0x80, 0, 0, 0, 0]].concat()),
        // A header that never ends.
        (vec![0x81], Vec::new()),
    ];
    for (beginning, more) in unfinished {
        assert_sent_away(&app, &beginning, more, 1008).await;
    }
}

/// However long each of them takes on its way.
#[tokio::test(flavor = "multi_thread")]
async fn fragments_that_add_up_to_too_much_end() {
    let limits = Limits { message_bytes: 10_000, ..Limits::default() };
    let app = App::start(Settings { limits, ..Settings::default() }).await;
    assert_sent_away(&app, &text_frame(0x01, b"[", 1), text_frame(0x00, &[b' '; 3000], 3000), 1009).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn beginnings_of_messages_have_room_together_and_who_needs_more_is_sent_away() {
    let limits = Limits { partial_message_bytes: 300_000, ..Limits::default() };
    let app = App::start(Settings { limits, ..Settings::default() }).await;
    let mut begun = Vec::new();
    for _ in 0..10 {
        let (_, mut socket) = raw(&app, "").await;
        socket.write_all(&text_frame(0x81, &vec![b' '; 90_000], 500_000)).await.unwrap();
        begun.push(socket);
    }
    let mut sent_away = 0;
    for socket in &mut begun {
        let closing = timeout(Duration::from_millis(500), status(socket)).await;
        sent_away += usize::from(closing.is_ok_and(|status| status == 1013));
    }
    assert!((5..=8).contains(&sent_away), "{sent_away} of 10");
    let mut other = app.client().await;
    other.store(&event(1, 1, 1, &[])).await;
    drop(begun);
    // What they held is free again.
    let free = async {
        loop {
            let (_, mut socket) = raw(&app, "").await;
            socket.write_all(&text_frame(0x81, &vec![b' '; 250_000], 500_000)).await.unwrap();
            if timeout(Duration::from_millis(300), status(&mut socket)).await.is_err() {
                return;
            }
        }
    };
    timeout(PATIENCE, free).await.expect("room is free");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_queries_and_events_from_one_address_holds_up_itself() {
    let settings = Settings { proxies: vec!["127.0.0.0/8".parse().unwrap()], ..Settings::default() };
    let app = App::start(settings).await;
    let mut author = app.client().await;
    for second in 0..1000 {
        author.store(&event(1, 1, second, &[])).await;
    }
    let mut floods = Vec::new();
    for number in 0..20_u64 {
        let mut flood = app.client_at("198.51.100.1").await.unwrap();
        floods.push(tokio::spawn(async move {
            let spam = json!(["EVENT", crate::app::wire(&event(2, 1, number, &[]))]).to_string();
            loop {
                for text in [r#"["COUNT","a",{}]"#, r#"["REQ","b",{}]"#, &spam] {
                    flood.socket.feed(Message::text(text)).await.unwrap();
                }
                flood.socket.flush().await.unwrap();
                // It reads what comes, so it is no slow reader.
                for _ in 0..1000 {
                    flood.socket.next().await.unwrap().unwrap();
                }
            }
        }));
    }
    app.until("the flood is served", || app.relay.overview().counts >= 20).await;
    let mut polite = app.client_at("198.51.100.2").await.unwrap();
    let mut times = Vec::new();
    for second in 2000..2020 {
        let start = Instant::now();
        polite.store(&event(3, 1, second, &[])).await;
        assert_eq!(polite.stored(&[json!({ "authors": [keys(3).pubkey().to_string()], "limit": 1 })]).await.len(), 1);
        times.push(start.elapsed());
    }
    for flood in &floods {
        assert!(!flood.is_finished(), "the flood goes on");
        flood.abort();
    }
    // Of a relay that lets the flood go first, every round is slow.
    times.sort_unstable();
    println!("median {:?}, slowest {:?}", times[10], times[19]);
    assert!(times[10] < Duration::from_secs(2), "{times:?}");
}
