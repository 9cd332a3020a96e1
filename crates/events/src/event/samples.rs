//! Random events and filters that meet: few authors, kinds, times and values, so that conditions often hold.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::event::kind::Kind;
use crate::event::sign::{Keys, UnsignedEvent};
use crate::event::tag::Tag;
use crate::event::verified::VerifiedEvent;
use crate::event::{Event, Timestamp};

/// Returns the keys of an author by number.
pub(crate) fn keys(author: u8) -> Keys {
    let mut secret = [0x11; 32];
    secret[31] = author;
    Keys::from_secret(secret).expect("below the order of the curve")
}

/// Returns a tag.
pub(super) fn tag(items: &[&str]) -> Tag {
    Tag(items.iter().map(|&item| item.to_owned()).collect())
}

/// Returns an event of author 1.
pub(crate) fn event(kind: u16, created_at: u64, tags: &[&[&str]], content: &str) -> VerifiedEvent {
    signed_by(1, kind, created_at, tags, content)
}

/// Returns an event of an author by number.
pub(crate) fn signed_by(author: u8, kind: u16, created_at: u64, tags: &[&[&str]], content: &str) -> VerifiedEvent {
    let tags = tags.iter().map(|items| tag(items)).collect();
    UnsignedEvent { created_at: Timestamp(created_at), kind: Kind(kind), tags, content: content.to_owned() }
        .sign(&keys(author))
}

/// Strategy for text that needs care: control characters, quotation marks, and characters of all lengths.
pub(super) fn text() -> impl Strategy<Value = String> {
    let awkward =
        select(vec!['\0', '\u{1}', '\u{8}', '\t', '\n', '\u{b}', '\u{c}', '\r', '\u{1f}', '\u{7f}', '"', '\\']);
    let other = select(vec!['/', 'a', 'é', '\u{2028}', '\u{fffe}', '\u{ffff}', '\u{1f600}', '\u{10ffff}']);
    vec(prop_oneof![awkward, other, any::<char>()], 0..12).prop_map(String::from_iter)
}

/// Strategy for any signed event: every kind, time and text.
pub(super) fn any_event() -> impl Strategy<Value = Event> {
    let tags = vec(vec(text(), 0..4).prop_map(Tag), 0..5);
    (0..4_u8, any::<u32>(), any::<u16>(), tags, text()).prop_map(|(author, created_at, kind, tags, content)| {
        let created_at = Timestamp(created_at.into());
        UnsignedEvent { created_at, kind: Kind(kind), tags, content }.sign(&keys(author)).into_event()
    })
}

/// Returns the bytes of a fenced example of `docs/format.md`.
pub(crate) fn of_the_manual(fence: &str) -> Vec<u8> {
    const DOCUMENT: &str = include_str!("../../../../docs/format.md");
    let (_, block) = DOCUMENT.split_once(&format!("\n```{fence}\n")).expect("the document has the example");
    let (block, _) = block.split_once("\n```").expect("the example ends");
    block.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).expect("two digits")).collect()
}
