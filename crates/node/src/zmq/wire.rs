//! The subscriber's side of ZMTP 3.0: greeting, `READY`, a subscription, then frames.
//!
//! Source: ZeroMQ RFC 23 (ZMTP 3.0), mechanism NULL.
//!
//! ```text
//! greeting  ff 8 x 00 7f | version 3 0 | "NULL" padded to 20 | as-server 0 | 31 x 00
//! frame     flags (1 more follow, 2 long, 4 command) | length u8, or u64 BE if long | body
//! READY     5 "READY" | per property: name length u8, name, value length u32 BE, value
//! ```

use std::io::{self, Read, Write};

const GREETING_BYTES: usize = 64;
const MORE: u8 = 1;
const LONG: u8 = 2;
const COMMAND: u8 = 4;
/// Largest number of parts of a message.
const PARTS_MAX: usize = 8;
/// Largest command, in bytes; the properties of a peer take some dozens.
const COMMAND_BYTES_MAX: usize = 4096;

/// Greets the publisher at the other end and subscribes to `topic`.
pub(super) fn subscribe(stream: &mut (impl Read + Write), topic: &[u8]) -> io::Result<()> {
    stream.write_all(&greeting())?;
    let mut theirs = [0; GREETING_BYTES];
    stream.read_exact(&mut theirs)?;
    if theirs[0] != 0xff || theirs[9] != 0x7f || theirs[10] < 3 {
        return Err(invalid("the peer is no ZeroMQ publisher (ZMTP 3)"));
    }
    if !theirs[12..].starts_with(b"NULL\0") {
        return Err(invalid("the ZeroMQ publisher requires authentication"));
    }
    stream.write_all(&frame(COMMAND, b"\x05READY\x0bSocket-Type\x00\x00\x00\x03SUB"))?;
    let (flags, ready) = read_frame(stream, COMMAND_BYTES_MAX)?;
    if flags & COMMAND == 0 || !ready.starts_with(b"\x05READY") {
        return Err(invalid("the ZeroMQ publisher refused the connection"));
    }
    stream.write_all(&frame(0, &[b"\x01", topic].concat()))
}

/// Reads the parts of the next message of at most `bytes_max` bytes.
pub(super) fn message(stream: &mut impl Read, bytes_max: usize) -> io::Result<Vec<Vec<u8>>> {
    let mut parts = Vec::new();
    let mut left = bytes_max;
    loop {
        let (flags, body) = read_frame(stream, left.max(COMMAND_BYTES_MAX))?;
        if flags & COMMAND != 0 {
            continue;
        }
        left = left.checked_sub(body.len()).ok_or_else(|| invalid("the message is too long"))?;
        parts.push(body);
        if flags & MORE == 0 {
            return Ok(parts);
        }
        if parts.len() == PARTS_MAX {
            return Err(invalid("the message has too many parts"));
        }
    }
}

fn read_frame(stream: &mut impl Read, bytes_max: usize) -> io::Result<(u8, Vec<u8>)> {
    let mut flags = [0];
    stream.read_exact(&mut flags)?;
    let length = if flags[0] & LONG == 0 {
        let mut length = [0];
        stream.read_exact(&mut length)?;
        u64::from(length[0])
    } else {
        let mut length = [0; 8];
        stream.read_exact(&mut length)?;
        u64::from_be_bytes(length)
    };
    let length = usize::try_from(length).ok().filter(|length| *length <= bytes_max);
    let mut body = vec![0; length.ok_or_else(|| invalid("the frame is too long"))?];
    stream.read_exact(&mut body)?;
    Ok((flags[0], body))
}

fn greeting() -> [u8; GREETING_BYTES] {
    let mut greeting = [0; GREETING_BYTES];
    greeting[0] = 0xff;
    greeting[9] = 0x7f;
    greeting[10] = 3;
    greeting[12..16].copy_from_slice(b"NULL");
    greeting
}

fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let length = u8::try_from(body.len()).expect("a subscriber sends short frames");
    [&[flags, length], body].concat()
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
