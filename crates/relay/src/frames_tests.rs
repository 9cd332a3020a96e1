#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;
use crate::fuzzing;

const MAX: usize = fuzzing::MESSAGE_BYTES_MAX;
const TEXT: u8 = 1;
const CONTINUATION: u8 = 0;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const FINAL: u8 = 0x80;
const COMPRESSED: u8 = 0x40;

/// A frame of a client.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let mask = [7, 77, 177, 27];
    let mut bytes = vec![first];
    match payload.len() {
        length @ 0..126 => bytes.push(0x80 | u8::try_from(length).unwrap()),
        length => {
            bytes.push(0xfe);
            bytes.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
    }
    bytes.extend(mask);
    bytes.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    bytes
}

/// All messages of these bytes, which come in parts of so many.
fn cut(bytes: &[u8], part: usize, compression: Compression) -> Result<Vec<Message>, Broken> {
    let (messages, broken) = fuzzing::cut(bytes, part, compression);
    broken.map_or(Ok(messages), Err)
}

fn text(text: &str) -> Message {
    Message::Text(text.to_owned())
}

proptest! {
    #[test]
    fn messages_are_the_same_however_they_are_fragmented_and_arrive(
        said in proptest::collection::vec("[a-zé]{0,200}", 1..8),
        fragments in 1_usize..5, part in 1_usize..300, pings in any::<bool>(),
    ) {
        let (mut bytes, mut expected) = (Vec::new(), Vec::new());
        for message in &said {
            let pieces: Vec<&[u8]> = message.as_bytes().chunks(message.len().div_ceil(fragments).max(1)).collect();
            let pieces = if pieces.is_empty() { vec![&[][..]] } else { pieces };
            for (place, piece) in pieces.iter().enumerate() {
                let opcode = if place == 0 { TEXT } else { CONTINUATION };
                let last = if place + 1 == pieces.len() { FINAL } else { 0 };
                bytes.extend(frame(opcode | last, piece));
                if pings {
                    bytes.extend(frame(PING | FINAL, b"?"));
                }
                if pings && last == 0 {
                    expected.push(Message::Ping(b"?".to_vec()));
                }
            }
            expected.push(text(message));
            if pings {
                expected.push(Message::Ping(b"?".to_vec()));
            }
        }
        prop_assert_eq!(cut(&bytes, part, Compression::Off), Ok(expected));
    }

    #[test]
    fn any_bytes_are_cut_or_refused_alike_however_they_arrive(
        sent in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..200)), 0..6),
        other in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut bytes: Vec<u8> = sent.iter().flat_map(|(first, payload)| frame(*first, payload)).collect();
        bytes.extend(other);
        fuzzing::frames(&bytes);
    }

    #[test]
    fn compressed_messages_are_read_in_fragments_too(word in "[a-z ]{4,40}", split in 1_usize..20) {
        let plain = word.repeat(800 / word.len());
        let small = Deflate::deflate(plain.as_bytes()).unwrap();
        let (first, second) = small.split_at(split.min(small.len()));
        let bytes = [frame(TEXT | COMPRESSED, first), frame(CONTINUATION | FINAL, second)].concat();
        prop_assert_eq!(cut(&bytes, 7, Compression::Deflate), Ok(vec![text(&plain)]));
    }
}

#[test]
fn what_breaks_the_rules_is_refused() {
    let off = |bytes: Vec<u8>| cut(&bytes, 1000, Compression::Off);
    let on = |bytes: Vec<u8>| cut(&bytes, 1000, Compression::Deflate);
    assert_eq!(off(vec![0x81, 1, b'a']), Err(Broken::Malformed), "without a mask");
    assert_eq!(off(frame(TEXT | FINAL | 0x20, b"a")), Err(Broken::Malformed), "an unknown extension");
    assert_eq!(off(frame(TEXT | FINAL | COMPRESSED, b"a")), Err(Broken::Malformed), "not agreed on");
    assert_eq!(off(frame(PING, b"a")), Err(Broken::Malformed), "a control frame in fragments");
    assert_eq!(off(frame(PING | FINAL, &[0; 126])), Err(Broken::Malformed), "a large control frame");
    assert_eq!(off(frame(CONTINUATION | FINAL, b"a")), Err(Broken::Malformed), "of nothing");
    assert_eq!(off([frame(TEXT, b"a"), frame(TEXT | FINAL, b"a")].concat()), Err(Broken::Malformed));
    assert_eq!(off(frame(TEXT | FINAL, &[0xff])), Err(Broken::NotText));
    assert_eq!(on(frame(PING | FINAL | COMPRESSED, b"a")), Err(Broken::Malformed));
    assert_eq!(
        on([frame(TEXT, b"a"), frame(CONTINUATION | FINAL | COMPRESSED, b"a")].concat()),
        Err(Broken::Malformed)
    );
    for (payload, code) in [
        (&[3, 232][..], CloseCode::Normal),
        (b"", CloseCode::Normal),
        (b"\x0f\xa1enough", CloseCode::Library(4001)),
        (&[3, 238], CloseCode::Protocol),
    ] {
        assert_eq!(off(frame(CLOSE | FINAL, payload)), Ok(vec![Message::Close(code)]), "{payload:?}");
    }
}

#[test]
fn a_message_is_too_large_by_its_header_alone_and_when_fragments_add_up() {
    let large = frame(TEXT | FINAL, &[b'a'; MAX + 1]);
    assert_eq!(cut(&large[..8], 8, Compression::Off), Err(Broken::TooLarge), "nothing of it has come");
    assert_eq!(cut(&frame(TEXT | FINAL, &[b'a'; MAX]), 999, Compression::Off).unwrap().len(), 1);
    let halves = [frame(TEXT, &[b'a'; MAX / 2]), frame(CONTINUATION | FINAL, &[b'a'; MAX / 2 + 1])].concat();
    assert_eq!(cut(&halves, 100, Compression::Off), Err(Broken::TooLarge));
    let bomb = Deflate::deflate(&vec![b'a'; 100 * MAX]).unwrap();
    assert!(bomb.len() < MAX);
    assert_eq!(cut(&frame(TEXT | FINAL | COMPRESSED, &bomb), 100, Compression::Deflate), Err(Broken::TooLarge));
}
