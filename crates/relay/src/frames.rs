//! Messages cut from the bytes of a WebSocket. Pure: no socket, no clock.
//!
//! Invariant: no message, inflated or not, is larger than was said; what is not whole is never a message.
//!
//! Source: RFC 6455, section 5 (frames); RFC 7692, section 7 (compressed messages).

use std::io::Cursor;
use std::ops::Range;

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use crate::deflate::{Deflate, Inflated};

/// Payload of a control frame (RFC 6455, 5.5).
const CONTROL_BYTES_MAX: u64 = 125;

/// Whether messages may be compressed, where client and relay agree on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    /// They are not.
    Off,
    /// They are (RFC 7692).
    #[default]
    Deflate,
}

/// What a client sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    Text(String),
    Binary,
    /// To be answered with the same bytes.
    Ping(Vec<u8>),
    Pong,
    /// To be answered with the same status.
    Close(CloseCode),
}

/// How a client breaks the rules. Nothing after it is understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Broken {
    #[error("the message is too large")]
    TooLarge,
    #[error("messages are UTF-8")]
    NotText,
    #[error("no WebSocket")]
    Malformed,
}

/// Cuts messages. Between two calls it holds the fragments of one message.
#[derive(Debug)]
pub(crate) struct Frames {
    message_bytes_max: usize,
    compression: Compression,
    begun: Option<Begun>,
}

/// A message of which fragments are still to come.
#[derive(Debug)]
struct Begun {
    form: Form,
    bytes: Vec<u8>,
}

/// What the first frame of a message says of it.
#[derive(Debug, Clone, Copy)]
struct Form {
    is_text: bool,
    is_compressed: bool,
}

/// A whole frame, unmasked, and where its payload is.
struct Frame {
    opcode: OpCode,
    is_final: bool,
    is_compressed: bool,
    payload: Range<usize>,
}

// === impl Frames ===

impl Frames {
    pub(crate) fn new(message_bytes_max: usize, compression: Compression) -> Self {
        Self { message_bytes_max, compression, begun: None }
    }

    pub(crate) fn compression(&self) -> Compression {
        self.compression
    }

    /// Whether fragments of a message have come.
    pub(crate) fn has_begun(&self) -> bool {
        self.begun.is_some()
    }

    /// Bytes that are held.
    pub(crate) fn held(&self) -> usize {
        self.begun.as_ref().map_or(0, |begun| begun.bytes.capacity())
    }

    /// Cuts the next message, if it is whole; and how many bytes are done with.
    pub(crate) fn cut(&mut self, bytes: &mut [u8]) -> Result<(usize, Option<Message>), Broken> {
        let mut at = 0;
        while let Some(frame) = self.frame(bytes, at)? {
            at = frame.payload.end;
            let payload = &bytes[frame.payload.clone()];
            let message = match frame.opcode {
                OpCode::Control(Control::Ping) => Some(Message::Ping(payload.to_vec())),
                OpCode::Control(Control::Close) => Some(Message::Close(status(payload))),
                OpCode::Control(_) => Some(Message::Pong),
                OpCode::Data(data) => self.add(data, &frame, payload)?,
            };
            if message.is_some() {
                return Ok((at, message));
            }
        }
        Ok((at, None))
    }

    /// The next frame, once it is whole.
    fn frame(&self, bytes: &mut [u8], at: usize) -> Result<Option<Frame>, Broken> {
        let mut cursor = Cursor::new(&bytes[at..]);
        let Ok(header) = FrameHeader::parse(&mut cursor) else { return Err(Broken::Malformed) };
        let Some((FrameHeader { is_final, rsv1, rsv2, rsv3, opcode, mask }, length)) = header else {
            return Ok(None);
        };
        // Bits of extensions that nobody agreed on; a client must mask.
        let (false, Some(mask)) = (rsv2 || rsv3, mask) else { return Err(Broken::Malformed) };
        match opcode {
            OpCode::Control(_) if !is_final || rsv1 || length > CONTROL_BYTES_MAX => return Err(Broken::Malformed),
            OpCode::Data(data) => {
                // The first frame tells for the whole message (RFC 7692, 6).
                if rsv1 && (self.compression == Compression::Off || data == Data::Continue) {
                    return Err(Broken::Malformed);
                }
                let held = self.begun.as_ref().map_or(0, |begun| begun.bytes.len());
                if length > (self.message_bytes_max - held) as u64 {
                    return Err(Broken::TooLarge);
                }
            }
            OpCode::Control(_) => {}
        }
        let length = usize::try_from(length).map_err(|_| Broken::TooLarge)?;
        let start = at + usize::try_from(cursor.position()).expect("it is a position in a slice");
        let payload = start..start + length;
        let Some(masked) = bytes.get_mut(payload.clone()) else { return Ok(None) };
        unmask(masked, mask);
        Ok(Some(Frame { opcode, is_final, is_compressed: rsv1, payload }))
    }

    /// Adds a frame to its message; the message with the last one.
    fn add(&mut self, data: Data, frame: &Frame, payload: &[u8]) -> Result<Option<Message>, Broken> {
        let form = |is_text| Form { is_text, is_compressed: frame.is_compressed };
        let mut begun = match (data, self.begun.take()) {
            (Data::Text, None) => Begun { form: form(true), bytes: Vec::new() },
            (Data::Binary, None) => Begun { form: form(false), bytes: Vec::new() },
            (Data::Continue, Some(begun)) => begun,
            _ => return Err(Broken::Malformed),
        };
        if frame.is_final && begun.bytes.is_empty() {
            // The usual message is one frame.
            return self.message(begun.form, payload).map(Some);
        }
        begun.bytes.extend_from_slice(payload);
        if frame.is_final {
            return self.message(begun.form, &begun.bytes).map(Some);
        }
        self.begun = Some(begun);
        Ok(None)
    }

    fn message(&self, form: Form, bytes: &[u8]) -> Result<Message, Broken> {
        let inflated = match form {
            Form { is_compressed: true, .. } => Deflate::inflate(bytes, self.message_bytes_max),
            Form { is_compressed: false, .. } => Inflated::Whole(bytes.to_vec()),
        };
        let plain = match inflated {
            Inflated::Whole(plain) => plain,
            Inflated::TooLarge => return Err(Broken::TooLarge),
            Inflated::Damaged => return Err(Broken::Malformed),
        };
        if !form.is_text {
            return Ok(Message::Binary);
        }
        String::from_utf8(plain).map(Message::Text).map_err(|_| Broken::NotText)
    }
}

/// The status of a farewell, which need not have one.
fn status(payload: &[u8]) -> CloseCode {
    match payload.first_chunk().map(|code| CloseCode::from(u16::from_be_bytes(*code))) {
        None => CloseCode::Normal,
        Some(code) if code.is_allowed() => code,
        Some(_) => CloseCode::Protocol,
    }
}

fn unmask(bytes: &mut [u8], mask: [u8; 4]) {
    let mut words = bytes.chunks_exact_mut(4);
    for word in &mut words {
        for (byte, mask) in word.iter_mut().zip(mask) {
            *byte ^= mask;
        }
    }
    for (byte, mask) in words.into_remainder().iter_mut().zip(mask) {
        *byte ^= mask;
    }
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
