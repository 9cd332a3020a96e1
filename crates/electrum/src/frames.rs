//! One message a WebSocket message: the framing of WS and WSS connections after the upgrade.
//!
//! Text and binary messages are the same to the protocol; answers are text. Fragments are moved together inside the
//! buffer they came in, control frames may stand between them, and pings are answered.
//!
//! Source: RFC 6455, sections 5 (frames) and 7.4 (status codes).

use std::io::Cursor;
use std::ops::Range;

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use crate::framing::{Closing, Cut, Framing, Refusal};

/// Payload of a control frame.
const CONTROL_BYTES_MAX: u64 = 125;

/// Messages in WebSocket frames.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    /// What the message that has begun says it is.
    kind: Option<Kind>,
    /// Its bytes so far, at the front of the buffer.
    assembled: usize,
    /// Where the next frame begins. Between the two lies what is used up.
    next: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Binary,
}

/// A whole frame, unmasked, and where its payload is.
struct Frame {
    opcode: OpCode,
    is_final: bool,
    payload: Range<usize>,
}

impl Framing for Frames {
    fn cut(&mut self, bytes: &mut [u8], message_bytes_max: usize) -> Cut {
        self.try_cut(bytes, message_bytes_max).unwrap_or_else(Cut::Refused)
    }

    /// A message that is not whole never was one.
    fn last(&mut self, _: &[u8]) -> Cut {
        Cut::Ended
    }

    fn put_before(message_bytes: usize, outgoing: &mut Vec<u8>) {
        put_header(OpCode::Data(Data::Text), message_bytes, outgoing);
    }

    fn put_after(_: &mut Vec<u8>) {}

    fn put_end(closing: Closing, outgoing: &mut Vec<u8>) {
        let code = match closing {
            Closing::Ended => CloseCode::Normal,
            Closing::GoingAway => CloseCode::Away,
            Closing::SentAway => CloseCode::Policy,
            Closing::Refused(Refusal::TooLong) => CloseCode::Size,
            Closing::Refused(Refusal::NotText) => CloseCode::Invalid,
            Closing::Refused(Refusal::Malformed) => CloseCode::Protocol,
        };
        put_frame(OpCode::Control(Control::Close), &u16::from(code).to_be_bytes(), outgoing);
    }
}

impl Frames {
    fn try_cut(&mut self, bytes: &mut [u8], message_bytes_max: usize) -> Result<Cut, Refusal> {
        while let Some(frame) = self.frame(bytes, message_bytes_max)? {
            match frame.opcode {
                OpCode::Control(Control::Ping) => {
                    let mut pong = Vec::new();
                    put_frame(OpCode::Control(Control::Pong), &bytes[frame.payload], &mut pong);
                    return Ok(Cut::Reply(pong));
                }
                OpCode::Control(Control::Close) => return Ok(Cut::Ended),
                OpCode::Control(_) => {}
                OpCode::Data(data) => {
                    if let Some(message) = self.add(data, &frame, bytes)? {
                        return Ok(message);
                    }
                }
            }
        }
        let unused = self.assembled..self.next;
        self.next = self.assembled;
        Ok(Cut::More { unused })
    }

    /// Takes the next frame once it is whole.
    fn frame(&mut self, bytes: &mut [u8], message_bytes_max: usize) -> Result<Option<Frame>, Refusal> {
        let mut cursor = Cursor::new(&bytes[self.next..]);
        let Ok(header) = FrameHeader::parse(&mut cursor) else { return Err(Refusal::Malformed) };
        let Some((FrameHeader { is_final, rsv1, rsv2, rsv3, opcode, mask }, length)) = header else {
            return Ok(None);
        };
        // Bits of extensions, none of which is agreed on; a client must mask.
        let (false, Some(mask)) = (rsv1 || rsv2 || rsv3, mask) else { return Err(Refusal::Malformed) };
        if matches!(opcode, OpCode::Control(_)) {
            if !is_final || length > CONTROL_BYTES_MAX {
                return Err(Refusal::Malformed);
            }
        } else if length > (message_bytes_max - self.assembled) as u64 {
            return Err(Refusal::TooLong);
        }
        let length = usize::try_from(length).map_err(|_| Refusal::TooLong)?;
        let start = self.next + usize::try_from(cursor.position()).expect("it is a position in a slice");
        let payload = start..start + length;
        let Some(masked) = bytes.get_mut(payload.clone()) else { return Ok(None) };
        for (byte, mask) in masked.iter_mut().zip(mask.iter().cycle()) {
            *byte ^= mask;
        }
        self.next = payload.end;
        Ok(Some(Frame { opcode, is_final, payload }))
    }

    /// Adds a fragment to its message, and cuts the message with the last one.
    fn add(&mut self, data: Data, frame: &Frame, bytes: &mut [u8]) -> Result<Option<Cut>, Refusal> {
        let kind = match (data, self.kind) {
            (Data::Text, None) => Kind::Text,
            (Data::Binary, None) => Kind::Binary,
            (Data::Continue, Some(kind)) => kind,
            _ => return Err(Refusal::Malformed),
        };
        let message = if self.kind.is_none() && frame.is_final {
            // The usual message is one frame and stays where it is.
            frame.payload.clone()
        } else {
            bytes.copy_within(frame.payload.clone(), self.assembled);
            self.kind = Some(kind);
            self.assembled += frame.payload.len();
            0..self.assembled
        };
        if !frame.is_final {
            return Ok(None);
        }
        if kind == Kind::Text && std::str::from_utf8(&bytes[message.clone()]).is_err() {
            return Err(Refusal::NotText);
        }
        let end = self.next;
        *self = Self::default();
        Ok(Some(Cut::Message { message, end }))
    }
}

/// Appends a frame.
fn put_frame(opcode: OpCode, payload: &[u8], outgoing: &mut Vec<u8>) {
    put_header(opcode, payload.len(), outgoing);
    outgoing.extend_from_slice(payload);
}

/// Appends what stands before a payload. What the server sends is whole and has no mask.
fn put_header(opcode: OpCode, payload_bytes: usize, outgoing: &mut Vec<u8>) {
    let header = FrameHeader { opcode, ..FrameHeader::default() };
    header.format(payload_bytes as u64, outgoing).expect("a vector takes every byte");
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
