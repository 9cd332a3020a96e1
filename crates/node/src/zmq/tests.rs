//! Messages as Core sends them, and a publisher's wire spoken by hand.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use super::*;

const SHOWN: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

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
    let txid: Txid = SHOWN.parse().unwrap();
    let number = 77_u64.to_le_bytes();
    let told = |tail: &[u8]| parse(&parts(body(tail), 5));
    assert_eq!(told(b"C"), Some((Told::Block, 5)));
    assert_eq!(told(b"D"), Some((Told::Block, 5)));
    let added = told(&[b"A", &number[..]].concat());
    assert_eq!(added, Some((Told::Mempool(MempoolChange::Added(txid)), 5)));
    let removed = told(&[b"R", &number[..]].concat());
    assert_eq!(removed, Some((Told::Mempool(MempoolChange::Removed { txid, sequence: 77 }), 5)));
}

#[test]
fn what_is_no_sequence_message_is_passed_over() {
    for tail in [&b""[..], b"X", b"R", b"R123", b"Cmore"] {
        assert_eq!(parse(&parts(body(tail), 0)), None, "{tail:?}");
    }
    let other = vec![b"hashblock".to_vec(), body(b"C"), vec![0; 4]];
    assert_eq!(parse(&other), None);
    assert_eq!(parse(&[TOPIC.to_vec(), body(b"C")]), None);
}

/// A publisher that greets, expects the subscription, and then says what it is told to.
fn publisher(says: Vec<Vec<u8>>) -> (String, thread::JoinHandle<()>) {
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
        // Until the subscriber has gone.
        let _ = socket.read(&mut [0]);
    });
    (address, publishing)
}

#[test]
fn changes_come_in_after_one_look_at_everything() {
    let added = parts(body(&[b"A", &[1; 8][..]].concat()), 1);
    let (address, publishing) = publisher(vec![framed(&added), framed(&parts(body(b"C"), 2))]);
    let zmq = ZmqSequence::subscribe(&format!("tcp://{address}"));
    // A new connection may have missed something.
    assert_eq!(zmq.wait(Duration::from_secs(20)), News::Unknown);
    assert!(zmq.is_connected());
    drop(zmq);
    publishing.join().unwrap();
}

#[test]
fn a_gap_in_the_counter_asks_for_a_look() {
    let state = State::default();
    let (sender, queue) = sync_channel(10);
    let says = vec![framed(&parts(body(b"C"), 1)), framed(&parts(body(b"C"), 2)), framed(&parts(body(b"C"), 4))];
    let (address, publishing) = publisher(says);
    thread::scope(|scope| {
        let reading = scope.spawn(|| read(&address, &sender, &state));
        queue.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(state.missed.swap(false, Ordering::AcqRel), "the connection is new");
        queue.recv_timeout(Duration::from_secs(20)).unwrap();
        // The third is dropped for the look that it asks for.
        while !state.missed.load(Ordering::Acquire) {
            thread::sleep(Duration::from_millis(1));
        }
        state.stop.store(true, Ordering::Release);
        reading.join().unwrap().unwrap();
    });
    publishing.join().unwrap();
}

#[test]
fn who_is_no_publisher_is_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let speaking = thread::spawn(move || listener.accept().unwrap().0.write_all(&[b'H'; 64]).unwrap());
    let (sender, _queue) = sync_channel(1);
    let error = read(&address.to_string(), &sender, &State::default()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    speaking.join().unwrap();
}
