//! Properties of everything that a client sends before its messages are read, for fuzz targets and for tests like them.

use crate::framing::{CloseCode, Cut, Framing as _, Kind, Payload};
use crate::websocket::deflate::Compression;
use crate::websocket::frames::Frames;

/// Bytes of a message at most, where bytes are cut here.
const MESSAGE_BYTES_MAX: usize = 1000;

/// Cuts bytes into messages: the same ones, up to the same fault, however the bytes arrive; and none is longer than its
/// bound.
///
/// # Panics
/// When one of these does not hold.
pub fn frames(bytes: &[u8]) {
    for compression in [Compression::Off, Compression::Deflate] {
        let at_once = cut(bytes, bytes.len().max(1), compression);
        for part in [1, 7] {
            assert_eq!(cut(bytes, part, compression), at_once, "in parts of {part}");
        }
        assert!(at_once.0.iter().all(|(_, message)| message.len() <= MESSAGE_BYTES_MAX));
    }
}

/// Decodes a PROXY header of either version.
pub fn proxy(bytes: &[u8]) {
    let _ = crate::proxy::parse(bytes);
}

/// The messages and replies of bytes that come in parts of this length, and the fault behind them.
fn cut(bytes: &[u8], part: usize, compression: Compression) -> (Vec<(Kind, Vec<u8>)>, Option<CloseCode>) {
    let (mut frames, mut buffer, mut messages) = (Frames::new(compression), Vec::new(), Vec::new());
    for part in bytes.chunks(part) {
        buffer.extend_from_slice(part);
        loop {
            match frames.cut(&mut buffer, MESSAGE_BYTES_MAX) {
                Cut::Message { payload, kind, end } => {
                    messages.push(match payload {
                        Payload::InPlace(bytes) => (kind, buffer[bytes].to_vec()),
                        Payload::Inflated(bytes) => (kind, bytes),
                    });
                    buffer.drain(..end);
                }
                Cut::Reply(owed) => pongs_of(&owed.bytes, &mut messages),
                Cut::More { unused } => {
                    buffer.drain(unused);
                    break;
                }
                Cut::Ended(_) => return (messages, None),
                Cut::Refused(code) => return (messages, Some(code)),
            }
        }
    }
    (messages, None)
}

/// Appends the pongs of a reply: how many there are in one depends on how the bytes arrive.
fn pongs_of(mut frames: &[u8], messages: &mut Vec<(Kind, Vec<u8>)>) {
    while let [_, length, ..] = frames {
        let (pong, rest) = frames.split_at(2 + usize::from(*length));
        messages.push((Kind::Binary, pong.to_vec()));
        frames = rest;
    }
}
