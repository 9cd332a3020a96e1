//! Frames as `tungstenite` writes and reads them.

use std::io::Cursor;
use std::ops::Range;

use birdhouse_net::{CloseCode, Compression, Cut, FrameWriter, Frames, Framing as _, Kind, Next, Owed, Payload};
use proptest::prelude::*;
use tokio_tungstenite::tungstenite::protocol::frame::coding::{Control, Data, OpCode};
use tokio_tungstenite::tungstenite::protocol::frame::{Frame as Written, FrameHeader};

use crate::all;

const MASK: [u8; 4] = [1, 2, 3, 250];
const END: Next = Next::End(CloseCode::Abnormal);

/// Frames without compression.
fn off() -> Frames {
    Frames::new(Compression::Off)
}

fn text_at(bytes: Range<usize>, end: usize) -> Cut {
    Cut::Message { payload: Payload::InPlace(bytes), kind: Kind::Text, end }
}

/// A frame as a client sends it, the last one of its message.
fn frame(opcode: OpCode, payload: &[u8]) -> Vec<u8> {
    masked(FrameHeader { opcode, is_final: true, ..FrameHeader::default() }, payload)
}

/// A frame that more of its message follow.
fn unfinished(opcode: OpCode, payload: &[u8]) -> Vec<u8> {
    masked(FrameHeader { opcode, is_final: false, ..FrameHeader::default() }, payload)
}

fn masked(mut header: FrameHeader, payload: &[u8]) -> Vec<u8> {
    header.mask = Some(MASK);
    let mut bytes = Vec::new();
    Written::from_payload(header, payload.to_vec().into()).format(&mut bytes).unwrap();
    bytes
}

fn text(payload: &[u8]) -> Vec<u8> {
    frame(OpCode::Data(Data::Text), payload)
}

fn ping(payload: &[u8]) -> Vec<u8> {
    frame(OpCode::Control(Control::Ping), payload)
}

/// A message in fragments, with pings between them.
fn fragments(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let data = if index == 0 { Data::Binary } else { Data::Continue };
        let is_last = index + 1 == parts.len();
        let fragment = if is_last { frame } else { unfinished };
        bytes.extend(fragment(OpCode::Data(data), part));
        bytes.extend(ping(b"between"));
    }
    bytes
}

async fn refused(bytes: &[u8]) -> Next {
    all(off(), &[bytes], 10).await.1
}

#[tokio::test]
async fn messages_come_whole_from_one_frame_or_many() {
    let parts = [b"one ".to_vec(), Vec::new(), b"message".to_vec()];
    let stream = [text(b"first"), fragments(&parts), text(b"")].concat();
    let (messages, end) = all(off(), &[&stream], 100).await;
    assert_eq!(messages, [&b"first"[..], b"one message", b""]);
    assert_eq!(end, END);
}

#[tokio::test]
async fn a_close_frame_ends_the_stream_whatever_follows() {
    let close = frame(OpCode::Control(Control::Close), &1000u16.to_be_bytes());
    let stream = [text(b"first"), close, text(b"second")].concat();
    assert_eq!(all(off(), &[&stream], 100).await, (vec![b"first".to_vec()], Next::End(CloseCode::Normal)));
}

#[tokio::test]
async fn a_message_at_the_bound_passes_and_one_byte_more_does_not() {
    let parts = |bytes: usize| fragments(&[vec![b'x'; 6], vec![b'x'; bytes - 6]]);
    assert_eq!(refused(&text(&[b'x'; 10])).await, END);
    assert_eq!(refused(&text(&[b'x'; 11])).await, Next::Refused(CloseCode::Size));
    assert_eq!(refused(&parts(10)).await, END);
    assert_eq!(refused(&parts(11)).await, Next::Refused(CloseCode::Size));
    let claims_much = [0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];
    assert_eq!(refused(&claims_much).await, Next::Refused(CloseCode::Size));
}

#[tokio::test]
async fn what_breaks_the_rules_is_refused() {
    let malformed = Next::Refused(CloseCode::Protocol);
    let unmasked = [0x81, 1, b'x'];
    let extension = [0xc1, 0x81, 0, 0, 0, 0, b'x'];
    let unknown_opcode = [0x83, 0x81, 0, 0, 0, 0, b'x'];
    assert_eq!(refused(&unmasked).await, malformed);
    assert_eq!(refused(&extension).await, malformed);
    assert_eq!(refused(&unknown_opcode).await, malformed);
    assert_eq!(refused(&ping(&[0; 126])).await, malformed);
    assert_eq!(refused(&unfinished(OpCode::Control(Control::Ping), b"")).await, malformed);
    assert_eq!(refused(&frame(OpCode::Data(Data::Continue), b"")).await, malformed, "nothing to continue");
    let interrupted = [unfinished(OpCode::Data(Data::Text), b"a"), text(b"b")].concat();
    assert_eq!(refused(&interrupted).await, malformed);
    assert_eq!(refused(&text(b"\xff")).await, Next::Refused(CloseCode::Invalid));
    assert_eq!(refused(&[0xa1, 0x81, 0, 0, 0, 0, b'x']).await, malformed, "an unknown extension");
    let compressed_ping = [0xc9, 0x80, 0, 0, 0, 0];
    let compressed_continuation = [0x01, 0x81, 0, 0, 0, 0, b'a', 0xc0, 0x81, 0, 0, 0, 0, b'a'];
    for bytes in [&compressed_ping[..], &compressed_continuation] {
        assert_eq!(all(Frames::new(Compression::Deflate), &[bytes], 10).await.1, malformed);
    }
}

#[tokio::test]
async fn a_close_frame_has_a_status_or_none() {
    for (payload, code) in [
        (&[3, 232][..], CloseCode::Normal),
        (b"", CloseCode::Normal),
        (b"\x0f\xa1enough", CloseCode::Library(4001)),
        (&[3, 238], CloseCode::Protocol),
    ] {
        let close = frame(OpCode::Control(Control::Close), payload);
        assert_eq!(all(off(), &[&close], 10).await, (Vec::new(), Next::End(code)), "{payload:?}");
    }
}

#[tokio::test]
async fn a_message_is_too_large_by_its_header_alone_and_when_it_inflates() {
    let large = text(&[b'a'; 1001]);
    let too_long = Next::Refused(CloseCode::Size);
    assert_eq!(all(off(), &[&large[..8]], 1000).await.1, too_long, "nothing of it has come");
    let bomb = deflated(&vec![b'a'; 100_000]);
    assert!(bomb.len() < 1000);
    assert_eq!(all(Frames::new(Compression::Deflate), &[&compressed(&bomb)], 1000).await.1, too_long);
}

/// The payload of the server's compressed frame with this text.
fn deflated(text: &[u8]) -> Vec<u8> {
    let mut writer = FrameWriter::new(Compression::Deflate);
    writer.text(&[text]);
    let (header, _) = FrameHeader::parse(&mut Cursor::new(writer.bytes())).unwrap().unwrap();
    assert!(header.rsv1, "it is compressed");
    let mut payload = writer.bytes().to_vec();
    payload.drain(..if payload[1] < 126 { 2 } else { 4 });
    payload
}

/// A compressed text in one frame.
fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut frame = text(bytes);
    frame[0] |= 0x40;
    frame
}

#[test]
fn a_ping_is_answered_with_its_own_payload() {
    let mut stream = [ping(b"are you there"), text(b"x")].concat();
    let mut frames = off();
    let owed = Owed { bytes: b"\x8a\x0dare you there".to_vec(), pings: 1 };
    assert_eq!(frames.cut(&mut stream, 10), Cut::Reply(owed));
    let end = stream.len();
    assert_eq!(frames.cut(&mut stream, 10), text_at(end - 1..end, end));
}

#[test]
fn pings_that_came_together_are_answered_together_in_their_order() {
    let begun = unfinished(OpCode::Data(Data::Text), b"begun");
    let pings = [ping(b"one"), ping(b""), ping(&[7; 125])].concat();
    let mut stream = [&begun[..], &pings, &ping(b"cut")[..7]].concat();
    let mut frames = off();
    let bytes = [&b"\x8a\x03one\x8a\x00\x8a\x7d"[..], &[7; 125]].concat();
    assert_eq!(frames.cut(&mut stream, 10), Cut::Reply(Owed { bytes, pings: 3 }));
    assert_eq!(frames.cut(&mut stream, 10), Cut::More { unused: 5..stream.len() - 7 });
}

#[test]
fn pings_without_end_get_pongs_of_some_kilobytes_at_a_time() {
    let mut stream = ping(b"again").repeat(3000);
    let mut frames = off();
    let (mut replies, mut pings) = (0, 0);
    while let Cut::Reply(owed) = frames.cut(&mut stream, 10) {
        assert!(owed.bytes.len() < 4096 + 127);
        (replies, pings) = (replies + 1, pings + owed.pings);
    }
    assert_eq!((replies, pings), (6, 3000));
}

#[test]
fn what_is_used_up_is_given_back_while_a_message_is_not_whole() {
    let begun = unfinished(OpCode::Data(Data::Text), b"begun");
    let mut stream = [&begun[..], &ping(b"")[..], &[0x80]].concat();
    let mut frames = off();
    assert!(matches!(frames.cut(&mut stream, 10), Cut::Reply(_)));
    assert_eq!(frames.cut(&mut stream, 10), Cut::More { unused: 5..stream.len() - 1 });
    stream.drain(5..stream.len() - 1);
    stream.extend_from_slice(&frame(OpCode::Data(Data::Continue), b"!")[1..]);
    let end = stream.len();
    assert_eq!(frames.cut(&mut stream, 10), text_at(0..6, end));
    assert_eq!(&stream[..6], b"begun!");
}

proptest! {
    #[test]
    fn any_fragments_in_any_pieces_are_the_messages(
        messages in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..4), 0..4),
        cuts in proptest::collection::vec(1usize..400, 0..6),
    ) {
        let stream: Vec<u8> = messages.iter().flat_map(|parts| fragments(parts)).collect();
        let mut pieces = Vec::new();
        let mut rest = &stream[..];
        for cut in cuts {
            let (piece, more) = rest.split_at(cut.min(rest.len()));
            pieces.push(piece);
            rest = more;
        }
        pieces.push(rest);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (cut, end) = runtime.block_on(all(off(), &pieces, 10_000));
        let whole: Vec<Vec<u8>> = messages.iter().map(|parts| parts.concat()).collect();
        prop_assert_eq!(cut, whole);
        prop_assert_eq!(end, END);
    }

    #[test]
    fn compressed_messages_are_read_in_fragments_too(word in "[a-z ]{4,40}", split in 1_usize..20, part in 1_usize..90) {
        let plain = word.repeat(800 / word.len());
        let small = deflated(plain.as_bytes());
        let (first, second) = small.split_at(split.min(small.len()));
        let mut bytes = unfinished(OpCode::Data(Data::Text), first);
        bytes[0] |= 0x40;
        bytes.extend(frame(OpCode::Data(Data::Continue), second));
        let pieces: Vec<&[u8]> = bytes.chunks(part).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (messages, end) = runtime.block_on(all(Frames::new(Compression::Deflate), &pieces, 1000));
        prop_assert_eq!((messages, end), (vec![plain.into_bytes()], END));
    }

    #[test]
    fn frames_are_cut_or_refused_alike_however_they_arrive(
        sent in proptest::collection::vec((any::<u8>(), proptest::collection::vec(any::<u8>(), 0..200)), 0..6),
        other in proptest::collection::vec(any::<u8>(), 0..100),
    ) {
        let mut bytes = Vec::new();
        for (first, payload) in &sent {
            let start = bytes.len();
            bytes.extend(text(payload));
            bytes[start] = *first;
        }
        bytes.extend(other);
        birdhouse_net::fuzzing::frames(&bytes);
    }

    #[test]
    fn any_bytes_are_cut_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (messages, _) = runtime.block_on(all(off(), &[&bytes], 100));
        prop_assert!(messages.iter().all(|message| message.len() <= 100));
    }

    #[test]
    fn a_client_reads_what_is_put(message in ".{0,70000}") {
        let mut bytes = Vec::new();
        Frames::put_before(message.len(), &mut bytes);
        bytes.extend_from_slice(message.as_bytes());
        Frames::put_after(&mut bytes);
        let (header, length) = FrameHeader::parse(&mut Cursor::new(&bytes)).unwrap().unwrap();
        prop_assert_eq!(header.opcode, OpCode::Data(Data::Text));
        prop_assert_eq!(&bytes[bytes.len() - usize::try_from(length).unwrap()..], message.as_bytes());
    }
}
