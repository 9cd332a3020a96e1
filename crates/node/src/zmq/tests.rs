//! Messages as Core sends them, and a hand-written publisher.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use super::*;

const TXID: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

fn body(tail: &[u8]) -> Vec<u8> {
    let hash: Vec<u8> = (0..32).collect();
    [&hash, tail].concat()
}

fn parts(body: Vec<u8>, counter: u32) -> Vec<Vec<u8>> {
    vec![TOPIC.to_vec(), body, counter.to_le_bytes().to_vec()]
}

fn framed(parts: &[Vec<u8>]) -> Vec<u8> {
    let last = parts.len() - 1;
    let frame = |(place, part): (usize, &Vec<u8>)| {
        [&[u8::from(place < last), u8::try_from(part.len()).unwrap()], part.as_slice()].concat()
    };
    parts.iter().enumerate().flat_map(frame).collect()
}

#[test]
fn each_label_is_read_as_core_documents_it() {
    let txid: Txid = TXID.parse().unwrap();
    let number = 77_u64.to_le_bytes();
    let event = |tail: &[u8]| parse(&parts(body(tail), 5));
    assert_eq!(event(b"C"), Some((ZmqEvent::Block, 5)));
    assert_eq!(event(b"D"), Some((ZmqEvent::Block, 5)));
    let added = event(&[b"A", &number[..]].concat());
    assert_eq!(added, Some((ZmqEvent::Mempool(MempoolChange::Added(txid)), 5)));
    let removed = event(&[b"R", &number[..]].concat());
    assert_eq!(removed, Some((ZmqEvent::Mempool(MempoolChange::Removed { txid, sequence: 77 }), 5)));
}

#[test]
fn other_messages_than_sequence_are_ignored() {
    for tail in [&b""[..], b"X", b"R", b"R123", b"Cmore"] {
        assert_eq!(parse(&parts(body(tail), 0)), None, "{tail:?}");
    }
    let other = vec![b"hashblock".to_vec(), body(b"C"), vec![0; 4]];
    assert_eq!(parse(&other), None);
    assert_eq!(parse(&[TOPIC.to_vec(), body(b"C")]), None);
}

/// Starts a publisher that greets, expects the subscription, and then sends the given bytes as they come.
fn publisher(says: impl IntoIterator<Item = Vec<u8>> + Send + 'static) -> (String, thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let publishing = thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let mut greeting = [0; 64];
        socket.read_exact(&mut greeting).unwrap();
        socket.write_all(&greeting).unwrap();
        socket.write_all(b"\x04\x19\x05READY\x0bSocket-Type\x00\x00\x00\x03PUB").unwrap();
        let mut said = vec![0; 2 + 25 + 2 + 9];
        socket.read_exact(&mut said).unwrap();
        assert!(said.ends_with(b"\x00\x09\x01sequence"));
        for bytes in says {
            socket.write_all(&bytes).unwrap();
        }
        // Waits until the subscriber has closed the connection.
        let _ = socket.read(&mut [0]);
    });
    (address, publishing)
}

#[test]
fn changes_follow_one_unknown_update() {
    let added = parts(body(&[b"A", &[1; 8][..]].concat()), 1);
    let (address, publishing) = publisher(vec![framed(&added), framed(&parts(body(b"C"), 2))]);
    let zmq = ZmqSequence::subscribe(&format!("tcp://{address}"));
    // A new connection may have missed messages.
    assert_eq!(zmq.wait(Duration::from_secs(20)), NodeUpdate::Unknown);
    assert!(zmq.is_connected());
    drop(zmq);
    publishing.join().unwrap();
}

#[test]
fn gap_in_the_counter_is_an_unknown_update() {
    let state = State::default();
    let (sender, queue) = sync_channel(10);
    let (say, says) = sync_channel(3);
    // One at a time: the gap must not be noted before the news of the connection is taken.
    let say = move |counter| say.send(framed(&parts(body(b"C"), counter))).unwrap();
    let (address, publishing) = publisher(says);
    thread::scope(|scope| {
        let reading = scope.spawn(|| read(&address, &sender, &state));
        say(1);
        queue.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(state.missed.swap(false, Ordering::AcqRel), "the connection is new");
        say(2);
        queue.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(!state.missed.load(Ordering::Acquire));
        // The third message reveals a gap.
        say(4);
        while !state.missed.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        state.stop.store(true, Ordering::Release);
        reading.join().unwrap().unwrap();
    });
    drop(say);
    publishing.join().unwrap();
}

#[test]
fn other_servers_than_publishers_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let speaking = thread::spawn(move || listener.accept().unwrap().0.write_all(&[b'H'; 64]).unwrap());
    let (sender, _queue) = sync_channel(1);
    let error = read(&address.to_string(), &sender, &State::default()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    speaking.join().unwrap();
}
