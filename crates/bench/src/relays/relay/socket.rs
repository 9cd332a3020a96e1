//! The load generators' end of a WebSocket. Messages are made before the clock starts; while it runs, received messages
//! are searched for a few bytes and never parsed.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::os::linux::net::TcpStreamExt as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use flate2::{Decompress, FlushDecompress};

pub(crate) use birdhouse_testkit::pipe::frame;

use super::relay_at::RelayAt;

/// The time that an answer may take. Relays ping about every minute and close connections that do not answer, and the
/// other connections wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(30);
const BUFFER_BYTES: usize = 256 << 10;
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
// Bits and lengths of a frame's header (RFC 6455, section 5.2; RFC 7692, section 6).
const FINAL: u8 = 0x80;
const COMPRESSED: u8 = 0x40;
const MASKED: u8 = 0x80;
const MIDDLE: u8 = 126;
const LONG: u8 = 127;

/// A WebSocket connection to a relay.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// Range of the buffer that is read and not yet consumed.
    filled: Range<usize>,
    /// Decompression of the relay's messages, if it compresses them.
    inflating: Option<Inflating>,
}

/// Decompression of messages without context takeover ([RFC 7692](https://www.rfc-editor.org/rfc/rfc7692)).
#[derive(Debug)]
struct Inflating {
    stream: Decompress,
    plain: Vec<u8>,
}

/// Extension that a client offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    Nothing,
    Deflate,
}

/// The relay sent nothing within the time that an answer may take.
#[derive(Debug)]
pub(crate) struct Silent;

/// Note for records: a relay may use Nagle's algorithm. Its last bytes then wait for the client's acknowledgement,
/// which must not wait for more bytes.
pub(super) const NAGLE: &str = "The client sends at once (TCP_NODELAY) and acknowledges at once (TCP_QUICKACK, set \
    after each read because Linux resets it), so a relay with Nagle's algorithm waits for no more than a round trip on \
    loopback.";

impl Socket {
    pub(crate) fn connect(relay: &RelayAt) -> Result<Self> {
        Self::connect_with(relay, Offer::Nothing)
    }

    /// Connects with an offer of compression.
    ///
    /// # Errors
    /// When the relay does not accept the offer.
    pub(crate) fn connect_with(relay: &RelayAt, offer: Offer) -> Result<Self> {
        let extensions = match offer {
            Offer::Nothing => "",
            Offer::Deflate => {
                "Sec-WebSocket-Extensions: permessage-deflate; server_no_context_takeover; \
                 client_no_context_takeover\r\n"
            }
        };
        Self::upgrade(relay, offer, extensions)
    }

    /// Connects as a reverse proxy does for a client at this address.
    pub(crate) fn connect_from(relay: &RelayAt, address: &str) -> Result<Self> {
        Self::upgrade(relay, Offer::Nothing, &format!("X-Forwarded-For: {address}\r\n"))
    }

    fn upgrade(relay: &RelayAt, offer: Offer, headers: &str) -> Result<Self> {
        let addr = &relay.addr;
        let stream =
            TcpStream::connect(addr).with_context(|| format!("failed to connect to {} at {addr}", relay.name))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut socket = Self { stream, buffer: vec![0; BUFFER_BYTES], filled: 0..0, inflating: None };
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {addr}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n{headers}\r\n"
        );
        socket.send(request.as_bytes())?;
        loop {
            let head = &socket.buffer[socket.filled.clone()];
            if let Some(end) = memchr::memmem::find(head, b"\r\n\r\n") {
                ensure!(head.starts_with(b"HTTP/1.1 101"), "{} refused the WebSocket upgrade", relay.name);
                if offer == Offer::Deflate {
                    let taken = memchr::memmem::find(&head[..end], b"permessage-deflate").is_some();
                    ensure!(taken, "{} does not compress messages", relay.name);
                    socket.inflating = Some(Inflating { stream: Decompress::new(false), plain: Vec::new() });
                }
                socket.filled.start += end + 4;
                return Ok(socket);
            }
            socket.fill()?;
        }
    }

    /// Sends frames.
    pub(crate) fn send(&mut self, frames: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(frames)?)
    }

    /// Returns the next text message.
    pub(crate) fn receive(&mut self) -> Result<&[u8]> {
        loop {
            let (first, payload) = self.next_frame()?;
            match first & 0x0f {
                TEXT if first & COMPRESSED != 0 => {
                    let inflating =
                        self.inflating.as_mut().context("the relay sent a compressed message without negotiation")?;
                    return inflating.inflate(&self.buffer[payload]);
                }
                TEXT => return Ok(&self.buffer[payload]),
                PING => {
                    let mut pong = vec![FINAL | PONG, MASKED | u8::try_from(payload.len())?, 0, 0, 0, 0];
                    pong.extend_from_slice(&self.buffer[payload]);
                    self.send(&pong)?;
                }
                PONG => {}
                CLOSE => bail!("the relay closed the connection: {}", String::from_utf8_lossy(&self.buffer[payload])),
                opcode => bail!("the relay sent the unknown opcode {opcode}"),
            }
        }
    }

    /// Reads a whole frame; returns its first byte and the range of its payload.
    fn next_frame(&mut self) -> Result<(u8, Range<usize>)> {
        loop {
            let seen = &self.buffer[self.filled.clone()];
            if let Some((header, length)) = header(seen) {
                ensure!(
                    seen[0] & FINAL != 0,
                    "the relay fragments messages, which this load generator does not support"
                );
                if seen.len() >= header + length {
                    let (first, start) = (seen[0], self.filled.start + header);
                    self.filled.start = start + length;
                    return Ok((first, start..start + length));
                }
                if self.buffer.len() < header + length {
                    self.buffer.resize(header + length, 0);
                }
            }
            self.fill()?;
        }
    }

    fn fill(&mut self) -> Result<()> {
        if self.filled.is_empty() {
            self.filled = 0..0;
        } else if self.filled.end == self.buffer.len() || self.filled.start > self.buffer.len() / 2 {
            self.buffer.copy_within(self.filled.clone(), 0);
            self.filled = 0..self.filled.len();
        }
        let read = match self.stream.read(&mut self.buffer[self.filled.end..]) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => bail!(Silent),
            read => read.context("failed to read an answer")?,
        };
        ensure!(read > 0, "the relay closed the connection");
        // The kernel returns to delayed acknowledgements by itself.
        self.stream.set_quickack(true)?;
        self.filled.end += read;
        Ok(())
    }
}

impl Inflating {
    fn inflate(&mut self, small: &[u8]) -> Result<&[u8]> {
        self.stream.reset(false);
        self.plain.clear();
        // The last four bytes of every compressed message are not sent (RFC 7692, section 7.2.1).
        for part in [small, &[0, 0, 0xff, 0xff]] {
            let (start, mut used) = (self.stream.total_in(), 0);
            loop {
                let before = (used, self.plain.len());
                self.plain.reserve(BUFFER_BYTES);
                self.stream.decompress_vec(&part[used..], &mut self.plain, FlushDecompress::None)?;
                used = usize::try_from(self.stream.total_in() - start)?;
                if used == part.len() && self.plain.len() < self.plain.capacity() {
                    break;
                }
                ensure!(before != (used, self.plain.len()), "failed to decompress a message: it is damaged");
            }
        }
        Ok(&self.plain)
    }
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer in {} s", PATIENCE.as_secs())
    }
}

impl std::error::Error for Silent {}

/// Returns the lengths of a frame's header and of its payload, once the header is complete.
fn header(seen: &[u8]) -> Option<(usize, usize)> {
    let length = *seen.get(1)? & 0x7f;
    Some(match length {
        MIDDLE => (4, usize::from(u16::from_be_bytes(seen.get(2..4)?.try_into().ok()?))),
        LONG => (10, usize::try_from(u64::from_be_bytes(seen.get(2..10)?.try_into().ok()?)).ok()?),
        short => (2, usize::from(short)),
    })
}
