//! Messages written as frames into one buffer, to be sent together. Pure: no socket, no clock.
//!
//! A message is written where it stays, behind room for its header: a page of the relay's events is copied nowhere
//! between the disk and the socket.
//!
//! Source: [RFC 6455](https://www.rfc-editor.org/rfc/rfc6455), section 5 (frames);
//! [RFC 7692](https://www.rfc-editor.org/rfc/rfc7692), section 7 (compressed messages).

use std::iter;

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};

use super::deflate::{Compression, stored};
use super::frames::{header, put_frame};
use super::shared_payload::SharedPayload;
use crate::framing::CloseCode;
use crate::spare;

const TEXT: OpCode = OpCode::Data(Data::Text);
/// Capacity that an empty writer keeps.
const KEPT_BYTES: usize = 4 * 1024;

/// Frames that wait to be sent: whole messages, without a mask.
#[derive(Debug)]
pub struct FrameWriter {
    compression: Compression,
    bytes: Vec<u8>,
}

impl FrameWriter {
    /// An empty writer that compresses as it was agreed on in the upgrade.
    pub fn new(compression: Compression) -> Self {
        Self { compression, bytes: Vec::new() }
    }

    /// All frames.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Drops all frames, which were sent.
    pub fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            spare::give(std::mem::take(&mut self.bytes));
        }
    }

    /// Makes room for many messages.
    pub fn prepare(&mut self) {
        if self.bytes.capacity() <= KEPT_BYTES {
            let mut spare = spare::take();
            spare.extend_from_slice(&self.bytes);
            self.bytes = spare;
        }
    }

    /// Adds a text, given in parts.
    pub fn text(&mut self, parts: &[&[u8]]) {
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.text_with(bytes, |out| {
            for part in parts {
                out.extend_from_slice(part);
            }
            Some(())
        });
    }

    /// Adds a text of about `bytes_expected` bytes that `write` appends where it stays, and returns its length; `None`
    /// and no text if `write` gives none. It is compressed where that was agreed on and makes it smaller.
    pub fn text_with(
        &mut self,
        bytes_expected: usize,
        write: impl FnOnce(&mut Vec<u8>) -> Option<()>,
    ) -> Option<usize> {
        let start = self.bytes.len();
        let mut header = header(TEXT);
        let text = start + header.len(bytes_expected as u64);
        self.bytes.resize(text, 0);
        if write(&mut self.bytes).is_none() {
            self.bytes.truncate(start);
            return None;
        }
        let written = self.bytes.len() - text;
        let deflated = self.compression.deflate(&self.bytes[text..]);
        let bytes = deflated.as_ref().map_or(written, Vec::len) as u64;
        header.rsv1 = deflated.is_some();
        let room = iter::repeat_n(0, header.len(bytes));
        match deflated {
            // Both in place of the text as it was written.
            Some(deflated) => drop(self.bytes.splice(start.., room.chain(deflated))),
            None if text == start + header.len(bytes) => {}
            None => drop(self.bytes.splice(start..text, room)),
        }
        header.format(bytes, &mut &mut self.bytes[start..]).expect("there is room for it");
        Some(written)
    }

    /// Adds a text that other connections are sent too, but for its beginning.
    pub fn shared(&mut self, beginning: &[u8], payload: &SharedPayload) {
        let compressed = match self.compression {
            Compression::Off => None,
            Compression::Deflate => payload.compressed().zip(stored(beginning.len())),
        };
        let header = FrameHeader { rsv1: compressed.is_some(), ..header(TEXT) };
        match &compressed {
            Some((rest, stored)) => put_frame(&header, &[stored, beginning, rest], &mut self.bytes),
            None => put_frame(&header, &[beginning, payload.plain()], &mut self.bytes),
        }
    }

    /// Adds a question whether the client is there.
    pub fn ping(&mut self) {
        put_frame(&header(OpCode::Control(Control::Ping)), &[], &mut self.bytes);
    }

    /// Adds frames as [`Cut::Reply`](crate::Cut::Reply) has them.
    pub fn framed(&mut self, frames: &[u8]) {
        self.bytes.extend_from_slice(frames);
    }

    /// Adds the end of the conversation.
    pub fn close(&mut self, code: CloseCode, reason: &str) {
        let code = u16::from(code).to_be_bytes();
        put_frame(&header(OpCode::Control(Control::Close)), &[&code, reason.as_bytes()], &mut self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::websocket::deflate::inflate;

    #[test]
    fn frames_follow_each_other_and_their_lengths_have_three_forms() {
        let mut writer = FrameWriter::new(Compression::Off);
        writer.text(&[b"hel", b"lo"]);
        writer.ping();
        writer.framed(b"\x8a\x03you");
        writer.close(CloseCode::Size, "why");
        assert_eq!(writer.bytes(), b"\x81\x05hello\x89\0\x8a\x03you\x88\x05\x03\xf1why");
        for (length, head) in [(126, &b"\x81\x7e\0\x7e"[..]), (1 << 16, b"\x81\x7f\0\0\0\0\0\x01\0\0")] {
            writer.clear();
            writer.text(&[&vec![b'a'; length]]);
            assert!(writer.bytes().starts_with(head));
            assert_eq!(writer.bytes().len(), head.len() + length);
        }
    }

    #[test]
    fn a_text_is_the_same_however_long_it_was_thought() {
        for length in [0, 125, 126, (1 << 16) - 1, 1 << 16] {
            let text = vec![b'a'; length];
            let mut whole = FrameWriter::new(Compression::Off);
            whole.text(&[b"before"]);
            whole.text(&[&text]);
            for about in [0, 126, 1 << 16] {
                let mut writer = FrameWriter::new(Compression::Off);
                writer.text(&[b"before"]);
                assert_eq!(writer.text_with(about, |_| None), None);
                let written = writer.text_with(about, |out| {
                    out.extend_from_slice(&text);
                    Some(())
                });
                assert_eq!(written, Some(length));
                assert!(writer.bytes() == whole.bytes(), "{length} thought {about}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_many_are_told_is_the_text_that_each_would_be_sent_alone(
            beginning in "[a-zé]{0,300}", content in ".{0,400}", times in 0_usize..100,
        ) {
            let (id, author, signature) = ("07".repeat(32), "08".repeat(32), "09".repeat(64));
            let rest = format!(r#"["{id}","{author}","{signature}","{content}","{}"]"#, content.repeat(times));
            let (payload, text) = (SharedPayload::new(rest.clone().into_bytes()), [&*beginning, &rest].concat());
            for compression in [Compression::Off, Compression::Deflate] {
                let mut writer = FrameWriter::new(compression);
                writer.shared(beginning.as_bytes(), &payload);
                let bytes = writer.bytes();
                let sent = match bytes[1] { 126 => &bytes[4..], 127 => &bytes[10..], _ => &bytes[2..] };
                if compression == Compression::Deflate {
                    prop_assert_eq!(bytes[0], 0xc1);
                    prop_assert_eq!(inflate(sent, 1 << 20), Ok(text.clone().into_bytes()));
                } else {
                    prop_assert_eq!((bytes[0], sent), (0x81, text.as_bytes()));
                }
            }
        }
    }

    #[test]
    fn texts_are_compressed_as_one() {
        let (plain, mut writer) = ("a word ".repeat(100), FrameWriter::new(Compression::Deflate));
        writer.text(&[&plain.as_bytes()[..5], &plain.as_bytes()[5..]]);
        let bytes = writer.bytes();
        assert_eq!(bytes[0], 0xc1, "one compressed frame");
        assert_eq!(inflate(&bytes[2..], 1000), Ok(plain.into_bytes()));
    }
}
