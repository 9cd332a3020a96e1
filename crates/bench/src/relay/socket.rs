//! The load generators' end of a WebSocket: messages are made before the clock runs, and only looked at, never parsed, while
//! it does.

use std::fmt;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::os::linux::net::TcpStreamExt as _;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::RelayAt;

/// Others wait while one is asked; relays ping every minute or so, and end connections that do not answer.
const PATIENCE: Duration = Duration::from_secs(30);
const BUFFER_BYTES: usize = 256 << 10;
const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
/// Bits and lengths of a frame's header (RFC 6455, 5.2).
const FINAL: u8 = 0x80;
const MASKED: u8 = 0x80;
const MIDDLE: u8 = 126;
const LONG: u8 = 127;

/// See the module.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// What of the buffer is read and not yet looked at.
    filled: Range<usize>,
}

/// The relay said nothing for as long as we wait.
#[derive(Debug)]
pub(crate) struct Silent;

/// A text message as a frame. Its mask is zero: the text travels as it is.
pub(crate) fn frame(text: &str) -> Vec<u8> {
    let mut frame = vec![FINAL | TEXT];
    match text.len() {
        short @ 0..126 => frame.push(MASKED | u8::try_from(short).expect("below 126")),
        middle @ 126..0x1_0000 => {
            frame.push(MASKED | MIDDLE);
            frame.extend(u16::try_from(middle).expect("below 2^16").to_be_bytes());
        }
        long => {
            frame.push(MASKED | LONG);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    frame
}

impl Socket {
    pub(crate) fn connect(relay: &RelayAt) -> Result<Self> {
        let addr = &relay.addr;
        let stream = TcpStream::connect(addr).with_context(|| format!("{} at {addr}", relay.name))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut socket = Self { stream, buffer: vec![0; BUFFER_BYTES], filled: 0..0 };
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {addr}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        );
        socket.send(request.as_bytes())?;
        loop {
            let head = &socket.buffer[socket.filled.clone()];
            if let Some(end) = memchr::memmem::find(head, b"\r\n\r\n") {
                ensure!(head.starts_with(b"HTTP/1.1 101"), "{} does not speak WebSocket", relay.name);
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

    /// The next text message.
    pub(crate) fn hear(&mut self) -> Result<&[u8]> {
        loop {
            let (opcode, payload) = self.next_frame()?;
            match opcode {
                TEXT => return Ok(&self.buffer[payload]),
                PING => {
                    let mut pong = vec![FINAL | PONG, MASKED | u8::try_from(payload.len())?, 0, 0, 0, 0];
                    pong.extend_from_slice(&self.buffer[payload]);
                    self.send(&pong)?;
                }
                PONG => {}
                CLOSE => bail!("the relay ends the connection: {}", String::from_utf8_lossy(&self.buffer[payload])),
                _ => bail!("an opcode {opcode}"),
            }
        }
    }

    /// A whole frame, and where its payload is.
    fn next_frame(&mut self) -> Result<(u8, Range<usize>)> {
        loop {
            let seen = &self.buffer[self.filled.clone()];
            if let Some((header, length)) = header(seen) {
                ensure!(seen[0] & FINAL != 0, "the relay fragments messages: this load generator cannot join them");
                if seen.len() >= header + length {
                    let (opcode, start) = (seen[0] & 0x0f, self.filled.start + header);
                    self.filled.start = start + length;
                    return Ok((opcode, start..start + length));
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
            read => read.context("no answer")?,
        };
        ensure!(read > 0, "the relay closed the connection");
        // The kernel goes back to delayed acknowledgements by itself.
        self.stream.set_quickack(true)?;
        self.filled.end += read;
        Ok(())
    }
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no answer in {} s", PATIENCE.as_secs())
    }
}

impl std::error::Error for Silent {}

/// Bytes of a frame's header and of its payload.
fn header(seen: &[u8]) -> Option<(usize, usize)> {
    let length = *seen.get(1)? & 0x7f;
    Some(match length {
        MIDDLE => (4, usize::from(u16::from_be_bytes(seen.get(2..4)?.try_into().ok()?))),
        LONG => (10, usize::try_from(u64::from_be_bytes(seen.get(2..10)?.try_into().ok()?)).ok()?),
        short => (2, usize::from(short)),
    })
}
