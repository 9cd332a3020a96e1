//! A link on loopback that delays what passes it, as a distant peer does, or swallows it, as a peer that hangs does.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Result;

/// Pieces of data that are under way in one direction.
const UNDER_WAY_MAX: usize = 4096;
const PIECE_BYTES: usize = 64 << 10;

/// A loopback port whose connections lead to another one, with a delay in each direction.
#[derive(Debug)]
pub struct SlowLink {
    port: u16,
    swallows: Arc<AtomicBool>,
}

impl SlowLink {
    /// Opens a link to a port; an answer comes `round_trip` later than it would. It lasts as long as the process.
    pub fn open(to: u16, round_trip: Duration) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let swallows = Arc::<AtomicBool>::default();
        let link = Self { port, swallows: Arc::clone(&swallows) };
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)) else { continue };
                for (from, to) in [(near.try_clone(), far.try_clone()), (far.try_clone(), near.try_clone())] {
                    if let (Ok(from), Ok(to)) = (from, to) {
                        carry(from, to, round_trip / 2, Arc::clone(&swallows));
                    }
                }
            }
        });
        Ok(link)
    }

    /// Discards what comes from now on. The connections stay open.
    pub fn swallow(&self) {
        self.swallows.store(true, Ordering::Relaxed);
    }

    /// Returns the port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Carries data in one direction until an end closes.
fn carry(mut from: TcpStream, to: TcpStream, delay: Duration, swallows: Arc<AtomicBool>) {
    let (sender, pieces) = sync_channel(UNDER_WAY_MAX);
    thread::spawn(move || deliver(to, &pieces));
    thread::spawn(move || {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(n @ 1..) = from.read(&mut piece) {
            if swallows.load(Ordering::Relaxed) {
                continue;
            }
            if sender.send((Instant::now() + delay, piece[..n].to_vec())).is_err() {
                break;
            }
        }
    });
}

fn deliver(mut to: TcpStream, pieces: &Receiver<(Instant, Vec<u8>)>) {
    let _ = to.set_nodelay(true);
    for (due, piece) in pieces {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
}
