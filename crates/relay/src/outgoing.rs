//! Messages of the relay as the bytes of a WebSocket, which wait to be written together. Pure: no socket, no clock.
//!
//! Source: RFC 6455, section 5 (frames); RFC 7692, section 7 (compressed messages).

use std::iter;

use tokio_tungstenite::tungstenite::protocol::frame::FrameHeader;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{CloseCode, Control, Data, OpCode};

use crate::deflate::Deflate;
use crate::frames::Compression;
use crate::spare;
use crate::told::Told;

/// What is kept of the room for bytes when these are written.
const KEPT_BYTES: usize = 4 * 1024;

/// Frames: whole, and without a mask.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    compression: Compression,
    bytes: Vec<u8>,
}

impl Outgoing {
    pub(crate) fn new(compression: Compression) -> Self {
        Self { compression, bytes: Vec::new() }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All were written.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        if self.bytes.capacity() > KEPT_BYTES {
            spare::give(std::mem::take(&mut self.bytes));
        }
    }

    /// Makes room for a page.
    pub(crate) fn prepare(&mut self) {
        if self.bytes.capacity() <= KEPT_BYTES {
            let mut spare = spare::take();
            spare.extend_from_slice(&self.bytes);
            self.bytes = spare;
        }
    }

    /// A text, in parts.
    pub(crate) fn text(&mut self, parts: &[&[u8]]) {
        let bytes = parts.iter().map(|part| part.len()).sum();
        self.text_of(bytes, |out| {
            for part in parts {
                out.extend_from_slice(part);
            }
            Some(())
        });
    }

    /// A text of about so many bytes that is written where it stays; how many it has, `None` if there is none. It is compressed
    /// where that was agreed on and makes it smaller.
    pub(crate) fn text_of(&mut self, about: usize, write: impl FnOnce(&mut Vec<u8>) -> Option<()>) -> Option<usize> {
        let start = self.bytes.len();
        let text = start + header(IsCompressed(false)).len(about as u64);
        self.bytes.resize(text, 0);
        if write(&mut self.bytes).is_none() {
            self.bytes.truncate(start);
            return None;
        }
        let written = self.bytes.len() - text;
        let deflated = match self.compression {
            Compression::Off => None,
            Compression::Deflate => Deflate::deflate(&self.bytes[text..]),
        };
        let bytes = deflated.as_ref().map_or(written, Vec::len) as u64;
        let header = header(IsCompressed(deflated.is_some()));
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

    /// A text that others are told too, but for its beginning.
    pub(crate) fn told(&mut self, beginning: &[u8], told: &Told) {
        let small = match self.compression {
            Compression::Off => None,
            Compression::Deflate => told.small().zip(Deflate::stored(beginning.len())),
        };
        match small {
            Some((small, stored)) => self.put(&header(IsCompressed(true)), &[&stored, beginning, small]),
            None => self.put(&header(IsCompressed(false)), &[beginning, told.rest()]),
        }
    }

    /// Asks whether the client is there.
    pub(crate) fn ping(&mut self) {
        self.put(&control(Control::Ping), &[]);
    }

    /// Answers a ping.
    pub(crate) fn pong(&mut self, payload: &[u8]) {
        self.put(&control(Control::Pong), &[payload]);
    }

    /// Ends the conversation, with a code and few words.
    pub(crate) fn close(&mut self, code: CloseCode, reason: &str) {
        let code = u16::from(code).to_be_bytes();
        self.put(&control(Control::Close), &[&code, reason.as_bytes()]);
    }

    /// A frame of a payload in parts.
    fn put(&mut self, header: &FrameHeader, payload: &[&[u8]]) {
        let length: usize = payload.iter().map(|part| part.len()).sum();
        header.format(length as u64, &mut self.bytes).expect("a vector takes every byte");
        for part in payload {
            self.bytes.extend_from_slice(part);
        }
    }
}

fn control(control: Control) -> FrameHeader {
    FrameHeader { opcode: OpCode::Control(control), ..FrameHeader::default() }
}

struct IsCompressed(bool);

/// Of a text.
fn header(IsCompressed(rsv1): IsCompressed) -> FrameHeader {
    FrameHeader { opcode: OpCode::Data(Data::Text), rsv1, ..FrameHeader::default() }
}

#[cfg(test)]
mod tests {
    use birdhouse_events::{Event, EventId, Kind, Pubkey, Signature, Tag, Timestamp};
    use proptest::prelude::*;

    use super::*;
    use crate::deflate::Inflated;

    #[test]
    fn frames_follow_each_other_and_their_lengths_have_three_forms() {
        let mut outgoing = Outgoing::new(Compression::Off);
        outgoing.text(&[b"hel", b"lo"]);
        outgoing.ping();
        outgoing.pong(b"you");
        outgoing.close(CloseCode::Size, "why");
        assert_eq!(outgoing.bytes(), b"\x81\x05hello\x89\0\x8a\x03you\x88\x05\x03\xf1why");
        for (length, head) in [(126, &b"\x81\x7e\0\x7e"[..]), (1 << 16, b"\x81\x7f\0\0\0\0\0\x01\0\0")] {
            outgoing.clear();
            outgoing.text(&[&vec![b'a'; length]]);
            assert!(outgoing.bytes().starts_with(head));
            assert_eq!(outgoing.bytes().len(), head.len() + length);
        }
    }

    #[test]
    fn a_text_is_the_same_however_long_it_was_thought() {
        for length in [0, 125, 126, (1 << 16) - 1, 1 << 16] {
            let text = vec![b'a'; length];
            let mut whole = Outgoing::new(Compression::Off);
            whole.text(&[b"before"]);
            whole.text(&[&text]);
            for about in [0, 126, 1 << 16] {
                let mut outgoing = Outgoing::new(Compression::Off);
                outgoing.text(&[b"before"]);
                assert_eq!(outgoing.text_of(about, |_| None), None);
                let written = outgoing.text_of(about, |out| {
                    out.extend_from_slice(&text);
                    Some(())
                });
                assert_eq!(written, Some(length));
                assert!(outgoing.bytes() == whole.bytes(), "{length} thought {about}");
            }
        }
    }

    proptest! {
        #[test]
        fn what_many_are_told_is_the_text_that_each_would_be_sent_alone(
            beginning in "[a-zé]{0,300}", content in ".{0,400}", times in 0_usize..100,
        ) {
            let event = Event {
                id: EventId([7; 32]),
                pubkey: Pubkey([8; 32]),
                created_at: Timestamp(1),
                kind: Kind(1),
                tags: vec![Tag(vec![content.clone(); times])],
                content,
                sig: Signature([9; 64]),
            };
            let (told, text) = (Told::new(&event), [&beginning, &*event.to_json(), "]"].concat());
            for compression in [Compression::Off, Compression::Deflate] {
                let mut outgoing = Outgoing::new(compression);
                outgoing.told(beginning.as_bytes(), &told);
                let bytes = outgoing.bytes();
                let payload = match bytes[1] { 126 => &bytes[4..], 127 => &bytes[10..], _ => &bytes[2..] };
                if compression == Compression::Deflate {
                    prop_assert_eq!(bytes[0], 0xc1);
                    prop_assert_eq!(Deflate::inflate(payload, 1 << 20), Inflated::Whole(text.clone().into_bytes()));
                } else {
                    prop_assert_eq!((bytes[0], payload), (0x81, text.as_bytes()));
                }
            }
        }
    }

    #[test]
    fn texts_are_compressed_as_one() {
        let (plain, mut outgoing) = ("a word ".repeat(100), Outgoing::new(Compression::Deflate));
        outgoing.text(&[&plain.as_bytes()[..5], &plain.as_bytes()[5..]]);
        let bytes = outgoing.bytes();
        assert_eq!(bytes[0], 0xc1, "one compressed frame");
        assert_eq!(Deflate::inflate(&bytes[2..], 1000), Inflated::Whole(plain.into_bytes()));
    }
}
