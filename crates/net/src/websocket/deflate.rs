//! permessage-deflate without context takeover: every message is compressed by itself, so that a connection keeps no
//! state between two messages.
//!
//! Compressors belong to threads, not to connections: each thread keeps one spare. Inflation stops at the largest
//! message allowed.
//!
//! Invariant: a thread keeps a compressor only after it has finished a whole message. zlib-rs 0.6.8 does not survive
//! `reset()` after a message that ran out of output space: it panics at a later message, or writes a damaged stream.
//! So a compressor gets room for any message, and one that failed, or panicked, is dropped.
//!
//! Source: [RFC 7692](https://www.rfc-editor.org/rfc/rfc7692); [RFC 1951](https://www.rfc-editor.org/rfc/rfc1951).

use std::cell::Cell;

use flate2::{Compress, Compression as Level, Decompress, FlushCompress, FlushDecompress, Status};
use hyper::header::HeaderValue;

use crate::framing::CloseCode;

/// Smaller messages are sent as they are: they would hardly become smaller, and each costs some microseconds.
const DEFLATE_BYTES_MIN: usize = 256;
/// The end of every compressed message, which is left out on the wire (RFC 7692, 7.2.1).
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];
/// Bytes of output reserved at a time.
const CHUNK_BYTES: usize = 8 * 1024;

/// Compression of messages, where client and server agree on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Compression {
    /// None, and no offer is accepted.
    Off,
    /// permessage-deflate (RFC 7692) for clients that offer it.
    #[default]
    Deflate,
}

thread_local! {
    /// `None` while it is in use, and after a message that failed.
    static COMPRESS: Cell<Option<Compress>> = const { Cell::new(None) };
    static DECOMPRESS: Cell<Option<Decompress>> = const { Cell::new(None) };
}

/// Returns the answer to the offers of a client (`Sec-WebSocket-Extensions`), if one can be accepted.
pub(crate) fn agree(offers: &str) -> Option<HeaderValue> {
    offers
        .split(',')
        .any(is_acceptable)
        .then(|| HeaderValue::from_static("permessage-deflate; server_no_context_takeover; client_no_context_takeover"))
}

/// True if every parameter of an offer is supported. `server_max_window_bits` is not, not even with the usual 15, which
/// the answer would have to repeat (RFC 7692, 7.1.2.1).
fn is_acceptable(offer: &str) -> bool {
    let mut parts = offer.split(';').map(str::trim);
    let mut seen = Vec::new();
    parts.next() == Some("permessage-deflate")
        && parts.all(|part| {
            let (name, value) = part.split_once('=').map_or((part, None), |(name, value)| (name.trim(), Some(value)));
            let value = value.map(|value| value.trim().trim_matches('"'));
            let is_new = !seen.contains(&name);
            seen.push(name);
            is_new
                && match (name, value) {
                    ("server_no_context_takeover" | "client_no_context_takeover" | "client_max_window_bits", None) => {
                        true
                    }
                    ("client_max_window_bits", Some(bits)) => {
                        bits.parse().is_ok_and(|bits: u8| (8..=15).contains(&bits)) && !bits.starts_with('0')
                    }
                    _ => false,
                }
        })
}

/// Returns the header that makes the `bytes` bytes after it a stored block of a compressed message (RFC 1951, 3.2.4).
/// The block before it must end with a whole byte. `None` if there are more bytes than a block takes.
pub(crate) fn stored(bytes: usize) -> Option<[u8; 5]> {
    let [low, high] = u16::try_from(bytes).ok()?.to_le_bytes();
    Some([0, low, high, !low, !high])
}

impl Compression {
    /// Compresses a message, if compression is agreed on. Returns `None` for one that would not become smaller.
    pub(crate) fn deflate(self, plain: &[u8]) -> Option<Vec<u8>> {
        if self == Self::Off || plain.len() < DEFLATE_BYTES_MIN {
            return None;
        }
        let mut compress = COMPRESS.take().unwrap_or_else(|| Compress::new(Level::fast(), false));
        let mut small = Vec::with_capacity(deflated_bytes_max(plain.len()));
        let status = compress.compress_vec(plain, &mut small, FlushCompress::Sync).ok()?;
        if status != Status::Ok || compress.total_in() != plain.len() as u64 || !small.ends_with(&TAIL) {
            return None;
        }
        compress.reset();
        COMPRESS.set(Some(compress));
        small.truncate(small.len() - TAIL.len());
        (small.len() < plain.len()).then_some(small)
    }
}

/// Inflates a client's message to at most `bytes_max` bytes.
///
/// # Errors
/// [`CloseCode::Size`] for a message with more, [`CloseCode::Protocol`] for a damaged one.
pub(crate) fn inflate(small: &[u8], bytes_max: usize) -> Result<Vec<u8>, CloseCode> {
    let mut decompress = DECOMPRESS.take().unwrap_or_else(|| Decompress::new(false));
    let plain = inflate_with(&mut decompress, small, bytes_max)?;
    decompress.reset(false);
    DECOMPRESS.set(Some(decompress));
    Ok(plain)
}

fn inflate_with(decompress: &mut Decompress, small: &[u8], bytes_max: usize) -> Result<Vec<u8>, CloseCode> {
    let mut plain = Vec::new();
    for part in [small, &TAIL] {
        let mut used = 0;
        loop {
            plain.reserve(CHUNK_BYTES.min(bytes_max + 1 - plain.len().min(bytes_max)));
            let (before_in, before_out) = (decompress.total_in(), plain.len());
            let status = decompress.decompress_vec(&part[used..], &mut plain, FlushDecompress::None);
            let status = status.map_err(|_| CloseCode::Protocol)?;
            if plain.len() > bytes_max {
                return Err(CloseCode::Size);
            }
            let taken = decompress.total_in() - before_in;
            used += usize::try_from(taken).expect("no more than there was");
            let has_room = plain.len() < plain.capacity();
            match status {
                // A last block in the middle of a message is not supported.
                Status::StreamEnd => return Err(CloseCode::Protocol),
                _ if used == part.len() && has_room => break,
                _ if taken == 0 && plain.len() == before_out && has_room => return Err(CloseCode::Protocol),
                _ => {}
            }
        }
    }
    Ok(plain)
}

/// Bytes that suffice for any compressed message with its [`TAIL`]: the quick level spends up to nine bits on a byte,
/// and some bytes on the headers of blocks.
const fn deflated_bytes_max(plain_bytes: usize) -> usize {
    plain_bytes + plain_bytes / 8 + 64
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAX: usize = 1 << 20;

    fn small(plain: &[u8]) -> Vec<u8> {
        Compression::Deflate.deflate(plain).unwrap()
    }

    proptest! {
        #[test]
        fn what_was_made_smaller_comes_back(word in "[a-z ]{1,40}", times in 20_usize..2000) {
            let plain = word.repeat(times).into_bytes();
            prop_assume!(plain.len() >= DEFLATE_BYTES_MIN);
            let small = small(&plain);
            prop_assert!(small.len() < plain.len());
            prop_assert_eq!(inflate(&small, plain.len()), Ok(plain.clone()));
            prop_assert_eq!(inflate(&small, plain.len() - 1), Err(CloseCode::Size));
        }

        #[test]
        fn any_bytes_are_inflated_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(inflate(&bytes, 1000).map_or(0, |plain| plain.len()) <= 1000);
        }
    }

    #[test]
    fn a_bomb_is_not_inflated() {
        let bomb = small(&vec![0; 100 << 20]);
        assert!(bomb.len() < MAX, "{} bytes would become 100 MiB", bomb.len());
        assert_eq!(inflate(&bomb, MAX), Err(CloseCode::Size));
    }

    #[test]
    fn what_does_not_become_smaller_is_left_as_it_is() {
        assert_eq!(Compression::Deflate.deflate(b"[\"EOSE\",\"a\"]"), None);
        let next = |word: &u64| Some(word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let words = std::iter::successors(Some(7_u64), next);
        let noise: Vec<u8> = words.take(1000).map(|word| word.to_be_bytes()[0]).collect();
        assert_eq!(Compression::Deflate.deflate(&noise), None);
    }

    /// Messages of all kinds one after another on one thread, as many connections send them.
    #[test]
    fn a_message_that_does_not_become_smaller_harms_none_that_follows_on_its_thread() {
        let mut state = 7_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for message in 0..4000 {
            let bytes = DEFLATE_BYTES_MIN as u64 + random() % if message % 7 == 0 { 120_000 } else { 900 };
            // Noise, text that hardly becomes smaller, hexadecimal, and text that becomes much smaller.
            let alphabet = [256, 80, 16, 3][usize::try_from(random() % 4).unwrap()];
            let plain: Vec<u8> =
                (0..bytes).map(|_| b'!'.wrapping_add((random() % alphabet).to_le_bytes()[0])).collect();
            if let Some(small) = Compression::Deflate.deflate(&plain) {
                assert!(small.len() < plain.len());
                assert!(inflate(&small, plain.len()) == Ok(plain), "message {message}");
            }
        }
    }

    #[test]
    fn a_damaged_message_harms_none_that_follows_on_its_thread() {
        let plain = b"a word ".repeat(1000);
        let small = small(&plain);
        for cut in 1..small.len() {
            let _ = inflate(&small[..cut], MAX);
            assert_eq!(inflate(&small, MAX), Ok(plain.clone()), "{cut}");
        }
    }

    #[test]
    fn offers_are_taken_that_ask_for_nothing_more() {
        for offer in [
            "permessage-deflate",
            "permessage-deflate; client_max_window_bits",
            "permessage-deflate; client_max_window_bits=10; server_no_context_takeover",
            "x-webkit-deflate-frame, permessage-deflate;client_no_context_takeover",
            "permessage-deflate; server_max_window_bits=10, permessage-deflate",
        ] {
            assert!(agree(offer).is_some(), "{offer}");
        }
        for offer in [
            "",
            "permessage-bzip2",
            "permessage-deflate; server_max_window_bits=10",
            "permessage-deflate; server_max_window_bits=15",
            "permessage-deflate; unheard_of",
            "permessage-deflate; client_max_window_bits=7",
            "permessage-deflate; client_no_context_takeover; client_no_context_takeover",
            "permessage-deflate; server_no_context_takeover=1",
        ] {
            assert!(agree(offer).is_none(), "{offer}");
        }
    }
}
