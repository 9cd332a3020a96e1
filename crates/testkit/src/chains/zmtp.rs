//! A PUB socket of ZeroMQ over TCP: ZMTP 3.0 with the NULL mechanism.
//!
//! It never waits for a subscriber: one that reads too slowly loses messages, as with `ZMQ_SNDHWM`. A subscriber's
//! topics are prefixes, named by message (3.0) or by command (3.1). Source: [RFC 23](https://rfc.zeromq.org/spec/23/)
//! "ZMTP 3.0" and [RFC 37](https://rfc.zeromq.org/spec/37/) "ZMTP 3.1" of the ZeroMQ project.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::error::{Error, Result};

/// Most messages that wait for one subscriber: Core's default of `-zmqpubsequencehwm`.
const WAITING_MAX: usize = 1000;
/// Longest frame of a subscriber, whose messages are short.
const FRAME_BYTES_MAX: usize = 1 << 16;

const GREETING_BYTES: usize = 64;
const SIGNATURE: [u8; 10] = [0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f];
const VERSION: [u8; 2] = [3, 0];
const MECHANISM: &[u8; 4] = b"NULL";
/// The command READY with one property: `Socket-Type` = `PUB`.
const READY: &[u8] = b"\x05READY\x0bSocket-Type\0\0\0\x03PUB";

// Bits of the byte before a frame.
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;

/// A bound socket. Dropping it closes the socket and every connection.
#[derive(Debug)]
pub(crate) struct PubSocket {
    addr: SocketAddr,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    closed: AtomicBool,
    subscribers: Mutex<Vec<Arc<Subscriber>>>,
}

#[derive(Debug)]
struct Subscriber {
    stream: TcpStream,
    topics: Mutex<Vec<Vec<u8>>>,
    waiting: SyncSender<Arc<[u8]>>,
    gone: AtomicBool,
}

impl PubSocket {
    /// Listens on a loopback port that the system picks.
    pub(crate) fn bind() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0))?;
        let addr = listener.local_addr()?;
        let shared = Arc::new(Shared::default());
        let acceptor = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || accept(&listener, &shared))
        };
        Ok(Self { addr, shared, acceptor: Some(acceptor) })
    }

    pub(crate) fn port(&self) -> u16 {
        self.addr.port()
    }

    /// Sends a message of these parts to every subscriber of its topic, which is the first part.
    pub(crate) fn send(&self, parts: &[&[u8]]) {
        let message: Arc<[u8]> = message(parts).into();
        let mut subscribers = lock(&self.shared.subscribers);
        subscribers.retain(|subscriber| !subscriber.gone.load(Ordering::Relaxed));
        for subscriber in subscribers.iter().filter(|subscriber| subscriber.wants(parts[0])) {
            // When its queue is full this subscriber loses the message.
            let _ = subscriber.waiting.try_send(Arc::clone(&message));
        }
    }

    /// Returns the number of connections that subscribe to this topic.
    pub(crate) fn subscribers(&self, topic: &[u8]) -> usize {
        let wants = |subscriber: &&Arc<Subscriber>| !subscriber.gone.load(Ordering::Relaxed) && subscriber.wants(topic);
        lock(&self.shared.subscribers).iter().filter(wants).count()
    }

    /// Closes every connection; subscribers may come back.
    pub(crate) fn disconnect_all(&self) {
        for subscriber in lock(&self.shared.subscribers).drain(..) {
            subscriber.hang_up();
        }
    }
}

impl Drop for PubSocket {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Relaxed);
        // Wakes the acceptor, which then ends.
        drop(TcpStream::connect(self.addr));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        self.disconnect_all();
    }
}

impl Subscriber {
    fn wants(&self, topic: &[u8]) -> bool {
        lock(&self.topics).iter().any(|prefix| topic.starts_with(prefix))
    }

    fn subscribe(&self, topic: &[u8]) {
        lock(&self.topics).push(topic.to_vec());
    }

    /// Removes one of equal subscriptions.
    fn cancel(&self, topic: &[u8]) {
        let mut topics = lock(&self.topics);
        if let Some(index) = topics.iter().position(|known| known == topic) {
            topics.remove(index);
        }
    }

    fn hang_up(&self) {
        self.gone.store(true, Ordering::Relaxed);
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Reads subscriptions until the connection ends.
    fn listen(&self) -> Result<()> {
        let mut stream = &self.stream;
        loop {
            let (flags, body) = read_frame(&mut stream)?;
            let (subscribe, cancel): (&[u8], &[u8]) =
                if flags & COMMAND == 0 { (&[1], &[0]) } else { (b"\x09SUBSCRIBE", b"\x06CANCEL") };
            if let Some(topic) = body.strip_prefix(subscribe) {
                self.subscribe(topic);
            } else if let Some(topic) = body.strip_prefix(cancel) {
                self.cancel(topic);
            }
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for stream in listener.incoming() {
        if shared.closed.load(Ordering::Relaxed) {
            return;
        }
        let shared = Arc::clone(shared);
        if let Ok(stream) = stream {
            // The thread ends with its connection, at the latest when the socket closes it.
            thread::spawn(move || drop(serve(stream, &shared)));
        }
    }
}

/// Performs the handshake, then reads in this thread and writes in another.
fn serve(mut stream: TcpStream, shared: &Shared) -> Result<()> {
    stream.set_nodelay(true)?;
    stream.write_all(&greeting())?;
    let mut theirs = [0; GREETING_BYTES];
    stream.read_exact(&mut theirs)?;
    if theirs[0] != SIGNATURE[0] || theirs[9] != SIGNATURE[9] || theirs[10] < 3 || !theirs[12..].starts_with(MECHANISM)
    {
        return Err(Error::Protocol("the greeting is not ZMTP 3 with the NULL mechanism".into()));
    }
    stream.write_all(&frame(COMMAND, READY))?;
    let (flags, ready) = read_frame(&mut stream)?;
    if flags & COMMAND == 0 || !ready.starts_with(b"\x05READY") {
        return Err(Error::Protocol("the subscriber sent no READY".into()));
    }
    let (waiting, messages) = sync_channel(WAITING_MAX);
    let writer = stream.try_clone()?;
    let subscriber = Arc::new(Subscriber { stream, topics: Mutex::default(), waiting, gone: AtomicBool::new(false) });
    lock(&shared.subscribers).push(Arc::clone(&subscriber));
    thread::spawn(move || write_all(writer, &messages));
    let heard = subscriber.listen();
    subscriber.hang_up();
    lock(&shared.subscribers).retain(|other| !Arc::ptr_eq(other, &subscriber));
    heard
}

/// Writes messages until the connection or the queue ends.
fn write_all(mut stream: TcpStream, messages: &Receiver<Arc<[u8]>>) {
    while let Ok(message) = messages.recv() {
        if stream.write_all(&message).is_err() {
            return;
        }
    }
}

fn greeting() -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[..10].copy_from_slice(&SIGNATURE);
    greeting[10..12].copy_from_slice(&VERSION);
    greeting[12..16].copy_from_slice(MECHANISM);
    greeting
}

fn message(parts: &[&[u8]]) -> Vec<u8> {
    let last = parts.len() - 1;
    parts.iter().enumerate().flat_map(|(index, part)| frame(if index < last { MORE } else { 0 }, part)).collect()
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut frame = match u8::try_from(body.len()) {
        Ok(len) => vec![flags, len],
        Err(_) => [&[flags | LONG][..], &(body.len() as u64).to_be_bytes()].concat(),
    };
    frame.extend_from_slice(body);
    frame
}

fn read_frame(stream: &mut impl Read) -> Result<(u8, Vec<u8>)> {
    let mut flags = [0; 1];
    stream.read_exact(&mut flags)?;
    let len = if flags[0] & LONG == 0 {
        let mut len = [0; 1];
        stream.read_exact(&mut len)?;
        len[0].into()
    } else {
        let mut len = [0; 8];
        stream.read_exact(&mut len)?;
        u64::from_be_bytes(len)
    };
    let len = usize::try_from(len).ok().filter(|len| *len <= FRAME_BYTES_MAX);
    let mut body =
        vec![0; len.ok_or_else(|| Error::Protocol("the subscriber sent a frame of more than 64 KiB".into()))?];
    stream.read_exact(&mut body)?;
    Ok((flags[0], body))
}

/// Locks a list; poisoning is ignored, because every change of a list is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Subscribes to one topic as libzmq 4.3 does, for tests.
#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(crate) fn subscribe(port: u16, topic: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut ours = greeting();
    ours[11] = 1;
    stream.write_all(&ours).unwrap();
    let mut theirs = [0; GREETING_BYTES];
    stream.read_exact(&mut theirs).unwrap();
    stream.write_all(&frame(COMMAND, b"\x05READY\x0bSocket-Type\0\0\0\x03SUB\x08Identity\0\0\0\0")).unwrap();
    assert_eq!(read_frame(&mut stream).unwrap(), (COMMAND, READY.to_vec()));
    stream.write_all(&frame(0, &[&[1], topic].concat())).unwrap();
    stream
}

/// Receives a whole message, part by part.
#[cfg(test)]
pub(crate) fn receive(stream: &mut TcpStream) -> Result<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    loop {
        let (flags, part) = read_frame(stream)?;
        parts.push(part);
        if flags & MORE == 0 {
            return Ok(parts);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn until(ready: impl Fn() -> bool) {
        while !ready() {
            thread::yield_now();
        }
    }

    #[test]
    fn a_message_reaches_those_who_want_its_topic_part_by_part() {
        let socket = PubSocket::bind().unwrap();
        let mut wanting = subscribe(socket.port(), b"seq");
        let other = subscribe(socket.port(), b"rawtx");
        until(|| socket.subscribers(b"sequence") == 1 && socket.subscribers(b"rawtx") == 1);
        let long = vec![7; 300];
        socket.send(&[b"sequence", &long, b"end"]);
        assert_eq!(receive(&mut wanting).unwrap(), [b"sequence".to_vec(), long, b"end".to_vec()]);
        other.set_nonblocking(true).unwrap();
        assert_eq!((&other).read(&mut [0]).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    }

    #[test]
    fn a_subscriber_that_does_not_read_loses_messages_and_delays_nobody() {
        let socket = PubSocket::bind().unwrap();
        let _slow = subscribe(socket.port(), b"");
        until(|| socket.subscribers(b"topic") == 1);
        let body = vec![0; 60_000];
        for _ in 0..2 * WAITING_MAX {
            socket.send(&[b"topic", &body]);
        }
    }

    #[test]
    fn dropping_the_socket_closes_its_connections() {
        let socket = PubSocket::bind().unwrap();
        let mut stream = subscribe(socket.port(), b"");
        until(|| socket.subscribers(b"x") == 1);
        drop(socket);
        assert!(read_frame(&mut stream).is_err());
    }
}
