//! One message a line: the framing of TCP and TLS connections.

use crate::framing::{CloseCode, Cut, Framing, Kind, Payload};

/// Messages that end with `\n` or `\r\n`.
#[derive(Debug, Default)]
pub struct Lines {
    /// No line end stands before this.
    scanned: usize,
}

impl Framing for Lines {
    fn cut(&mut self, bytes: &mut [u8], message_bytes_max: usize) -> Cut {
        let found = memchr::memchr(b'\n', &bytes[self.scanned..]).map(|offset| self.scanned + offset);
        let line = &bytes[..found.unwrap_or(bytes.len())];
        self.scanned = if found.is_some() { 0 } else { line.len() };
        match found {
            _ if line.len() > message_bytes_max => Cut::Refused(CloseCode::Size),
            Some(end) => message(line, end + 1),
            None => Cut::More { unused: 0..0 },
        }
    }

    /// Takes a line without its end: nothing can follow.
    fn last(&mut self, bytes: &[u8]) -> Cut {
        self.scanned = 0;
        match bytes.len() {
            0 => Cut::Ended(CloseCode::Normal),
            end => message(bytes, end),
        }
    }

    fn put_before(_: usize, _: &mut Vec<u8>) {}

    fn put_after(outgoing: &mut Vec<u8>) {
        outgoing.push(b'\n');
    }

    fn put_end(_: CloseCode, _: &mut Vec<u8>) {}
}

/// A line without its end, of which `\r` may be part.
fn message(line: &[u8], end: usize) -> Cut {
    let bytes = line.strip_suffix(b"\r").unwrap_or(line).len();
    Cut::Message { payload: Payload::InPlace(0..bytes), kind: Kind::Text, end }
}
