//! A front of a primary that says another version of the protocol between replica and primary, and passes the rest on.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The header as a primary of this version and as one of another version sends it.
const OURS: &str = "birdhouse-replica: 1\r\n";
const OTHER: &str = "birdhouse-replica: 2\r\n";

/// The front. It lasts as long as the process.
pub(crate) struct OtherVersion {
    pub(crate) port: u16,
    is_other: Arc<AtomicBool>,
}

// === impl OtherVersion ===

impl OtherVersion {
    /// Listens before the primary at a port, and passes everything on as it is.
    pub(crate) fn before(primary: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_other = Arc::new(AtomicBool::new(false));
        let of_front = Arc::clone(&is_other);
        std::thread::spawn(move || {
            for replica in listener.incoming() {
                let (replica, is_other) = (replica.unwrap(), Arc::clone(&of_front));
                let Ok(primary) = TcpStream::connect(("127.0.0.1", primary)) else { continue };
                let (mut from, mut to) = (replica.try_clone().unwrap(), primary.try_clone().unwrap());
                // Both ends close together with the process at the latest.
                std::thread::spawn(move || std::io::copy(&mut from, &mut to));
                std::thread::spawn(move || answers(primary, replica, &is_other));
            }
        });
        Self { port, is_other }
    }

    /// Puts another version into answers from now on.
    pub(crate) fn change(&self) {
        self.is_other.store(true, Ordering::Relaxed);
    }

    /// Leaves the primary's version in answers from now on.
    pub(crate) fn restore(&self) {
        self.is_other.store(false, Ordering::Relaxed);
    }
}

fn answers(primary: TcpStream, mut replica: TcpStream, is_other: &AtomicBool) -> std::io::Result<()> {
    let mut primary = BufReader::new(primary);
    loop {
        let (mut head, mut body_bytes) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let before = head.len();
            if primary.read_line(&mut head)? == 0 {
                return Ok(());
            }
            body_bytes =
                head[before..].strip_prefix("content-length: ").map_or(body_bytes, |n| n.trim().parse().unwrap());
        }
        assert!(head.contains(OURS), "the primary says its version: {head}");
        if is_other.load(Ordering::Relaxed) {
            head = head.replace(OURS, OTHER);
        }
        replica.write_all(head.as_bytes())?;
        std::io::copy(&mut primary.by_ref().take(body_bytes), &mut replica)?;
    }
}
