//! Messages in WebSocket frames: the framing of connections after the upgrade. Pure: no socket, no clock.
//!
//! Fragments are moved together inside the buffer they came in, control frames may stand between them, and pings are
//! answered. Invariant: no message, inflated or not, is longer than its bound; what is not whole is never a message.
//!
//! Source: [RFC 6455](https://www.rfc-editor.org/rfc/rfc6455), sections 5 (frames) and 7.4 (status codes);
//! [RFC 7692](https://www.rfc-editor.org/rfc/rfc7692), section 6 (the bit of compressed messages).

use std::io::Cursor;
use std::ops::Range;

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use super::deflate::{Compression, inflate};
use crate::framing::{CloseCode, Cut, Framing, Kind, Owed, Payload};

/// Payload of a control frame (RFC 6455, 5.5).
const CONTROL_BYTES_MAX: u64 = 125;
/// Pongs of one reply, the last one aside.
const PONGS_BYTES_MAX: usize = 4096;

/// The reading half of the framing, with its position.
#[derive(Debug)]
pub struct Frames {
    compression: Compression,
    /// The first frame of the message that has begun.
    begun: Option<Form>,
    /// Its bytes so far, at the front of the buffer.
    assembled: usize,
    /// Start of the next frame. The bytes between the two are used up.
    next: usize,
}

/// Properties of a message, given by its first frame.
#[derive(Debug, Clone, Copy)]
struct Form {
    kind: Kind,
    is_compressed: bool,
}

/// A whole frame, unmasked, and where its payload is.
struct Frame {
    opcode: OpCode,
    is_final: bool,
    is_compressed: bool,
    payload: Range<usize>,
}

impl Framing for Frames {
    fn cut(&mut self, bytes: &mut [u8], message_bytes_max: usize) -> Cut {
        self.try_cut(bytes, message_bytes_max).unwrap_or_else(Cut::Refused)
    }

    /// Drops a message that is not whole: it never was one. The code is the one for ends without a close frame.
    fn last(&mut self, _: &[u8]) -> Cut {
        Cut::Ended(CloseCode::Abnormal)
    }

    fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    fn put_before(message_bytes: usize, outgoing: &mut Vec<u8>) {
        put_header(&header(OpCode::Data(Data::Text)), message_bytes, outgoing);
    }

    fn put_after(_: &mut Vec<u8>) {}

    fn put_end(code: CloseCode, outgoing: &mut Vec<u8>) {
        put_frame(&header(OpCode::Control(Control::Close)), &[&u16::from(code).to_be_bytes()], outgoing);
    }
}

impl Frames {
    /// Reads frames as they were agreed on in the upgrade.
    pub fn new(compression: Compression) -> Self {
        Self { compression, begun: None, assembled: 0, next: 0 }
    }

    fn try_cut(&mut self, bytes: &mut [u8], message_bytes_max: usize) -> Result<Cut, CloseCode> {
        let mut owed = Owed::default();
        while let Some(frame) = self.frame(bytes, message_bytes_max)? {
            match frame.opcode {
                OpCode::Control(Control::Ping) => {
                    put_frame(&header(OpCode::Control(Control::Pong)), &[&bytes[frame.payload]], &mut owed.bytes);
                    owed.pings += 1;
                    // Pings that came together are answered together: a write of its own costs a thousand times more.
                    if owed.bytes.len() >= PONGS_BYTES_MAX || !self.is_at_ping(bytes) {
                        return Ok(Cut::Reply(owed));
                    }
                }
                OpCode::Control(Control::Close) => return Ok(Cut::Ended(status(&bytes[frame.payload]))),
                OpCode::Control(_) => {}
                OpCode::Data(data) => {
                    if let Some(message) = self.add(data, &frame, bytes, message_bytes_max)? {
                        return Ok(message);
                    }
                }
            }
        }
        let unused = self.assembled..self.next;
        self.next = self.assembled;
        Ok(Cut::More { unused })
    }

    /// Returns true if the next frame is a whole ping that [`Self::frame`] accepts.
    fn is_at_ping(&self, bytes: &[u8]) -> bool {
        match bytes[self.next..] {
            [0x89, length @ 0x80..=0xfd, ref rest @ ..] => {
                rest.len() >= size_of::<[u8; 4]>() + usize::from(length & 0x7f)
            }
            _ => false,
        }
    }

    /// Takes the next frame once it is whole.
    fn frame(&mut self, bytes: &mut [u8], message_bytes_max: usize) -> Result<Option<Frame>, CloseCode> {
        let mut cursor = Cursor::new(&bytes[self.next..]);
        let Ok(header) = FrameHeader::parse(&mut cursor) else { return Err(CloseCode::Protocol) };
        let Some((FrameHeader { is_final, rsv1, rsv2, rsv3, opcode, mask }, length)) = header else {
            return Ok(None);
        };
        // Bits of extensions that nobody agreed on; a client must mask.
        let (false, Some(mask)) = (rsv2 || rsv3, mask) else { return Err(CloseCode::Protocol) };
        match opcode {
            OpCode::Control(_) if !is_final || rsv1 || length > CONTROL_BYTES_MAX => return Err(CloseCode::Protocol),
            // The first frame tells for the whole message (RFC 7692, 6).
            OpCode::Data(data) if rsv1 && (self.compression == Compression::Off || data == Data::Continue) => {
                return Err(CloseCode::Protocol);
            }
            OpCode::Data(_) if length > (message_bytes_max - self.assembled) as u64 => return Err(CloseCode::Size),
            _ => {}
        }
        let length = usize::try_from(length).map_err(|_| CloseCode::Size)?;
        let start = self.next + usize::try_from(cursor.position()).expect("it is a position in a slice");
        let payload = start..start + length;
        let Some(masked) = bytes.get_mut(payload.clone()) else { return Ok(None) };
        unmask(masked, mask);
        self.next = payload.end;
        Ok(Some(Frame { opcode, is_final, is_compressed: rsv1, payload }))
    }

    /// Adds a fragment to its message, and cuts the message with the last one.
    fn add(&mut self, data: Data, frame: &Frame, bytes: &mut [u8], max: usize) -> Result<Option<Cut>, CloseCode> {
        let form = match (data, self.begun) {
            (Data::Text, None) => Form { kind: Kind::Text, is_compressed: frame.is_compressed },
            (Data::Binary, None) => Form { kind: Kind::Binary, is_compressed: frame.is_compressed },
            (Data::Continue, Some(form)) => form,
            _ => return Err(CloseCode::Protocol),
        };
        let message = if self.begun.is_none() && frame.is_final {
            // The usual message is one frame and stays where it is.
            frame.payload.clone()
        } else {
            bytes.copy_within(frame.payload.clone(), self.assembled);
            self.begun = Some(form);
            self.assembled += frame.payload.len();
            0..self.assembled
        };
        if !frame.is_final {
            return Ok(None);
        }
        let inflated = form.is_compressed.then(|| inflate(&bytes[message.clone()], max)).transpose()?;
        let plain = inflated.as_deref().unwrap_or(&bytes[message.clone()]);
        if form.kind == Kind::Text && str::from_utf8(plain).is_err() {
            return Err(CloseCode::Invalid);
        }
        let payload = inflated.map_or(Payload::InPlace(message), Payload::Inflated);
        let end = self.next;
        *self = Self::new(self.compression);
        Ok(Some(Cut::Message { payload, kind: form.kind, end }))
    }
}

/// The status of a close frame, which need not have one.
fn status(payload: &[u8]) -> CloseCode {
    match payload.first_chunk().map(|code| CloseCode::from(u16::from_be_bytes(*code))) {
        None => CloseCode::Normal,
        Some(code) if code.is_allowed() => code,
        Some(_) => CloseCode::Protocol,
    }
}

fn unmask(bytes: &mut [u8], mask: [u8; 4]) {
    let (words, rest) = bytes.as_chunks_mut::<4>();
    let words = words.iter_mut().map(<[u8; 4]>::as_mut_slice).chain([rest]);
    words.for_each(|word| word.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask));
}

/// The header of a frame of the server: a whole message, without a mask.
pub(super) fn header(opcode: OpCode) -> FrameHeader {
    FrameHeader { opcode, ..FrameHeader::default() }
}

/// Appends a frame whose payload is given in parts.
pub(super) fn put_frame(header: &FrameHeader, payload: &[&[u8]], outgoing: &mut Vec<u8>) {
    put_header(header, payload.iter().map(|part| part.len()).sum(), outgoing);
    for part in payload {
        outgoing.extend_from_slice(part);
    }
}

fn put_header(header: &FrameHeader, payload_bytes: usize, outgoing: &mut Vec<u8>) {
    header.format(payload_bytes as u64, outgoing).expect("a vector takes every byte");
}
