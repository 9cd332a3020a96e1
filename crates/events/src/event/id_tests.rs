//! Ids and signatures, against a second implementation of the canonical form and against another crate.

use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::escape::Controls;
use super::sign::Keys;
use super::*;
use crate::event::samples::{any_event, event, keys};

/// NIP-01's serialisation in the simplest way: character by character.
fn naive_canonical(event: &Event) -> String {
    let quoted = |text: &str| {
        let escaped = text.chars().map(|char| match char {
            '\n' => "\\n".to_owned(),
            '"' => "\\\"".to_owned(),
            '\\' => "\\\\".to_owned(),
            '\r' => "\\r".to_owned(),
            '\t' => "\\t".to_owned(),
            '\u{8}' => "\\b".to_owned(),
            '\u{c}' => "\\f".to_owned(),
            other => other.to_string(),
        });
        format!("\"{}\"", escaped.collect::<String>())
    };
    let list = |items: Vec<String>| format!("[{}]", items.join(","));
    let tags = event.tags.iter().map(|tag| list(tag.0.iter().map(|item| quoted(item)).collect())).collect();
    list(vec![
        "0".to_owned(),
        quoted(&event.pubkey.to_string()),
        event.created_at.0.to_string(),
        event.kind.0.to_string(),
        list(tags),
        quoted(&event.content),
    ])
}

/// Returns true if the event has an id there, and one in which both forms agree: no tag without items, which the other
/// crate does not know, and no control characters that NIP-01 does not list.
fn is_known_elsewhere(event: &Event) -> bool {
    let mut tags = event.tags.iter();
    !event.has_two_ids() && tags.all(|tag| !tag.0.is_empty())
}

impl Event {
    fn has_two_ids(&self) -> bool {
        self.statement().serialised(Controls::Verbatim) != self.statement().serialised(Controls::Escaped)
    }

    /// Signs the hash of the JSON form, as most clients do.
    fn signed_as_json(mut self, author: &Keys) -> Self {
        self.id = EventId(Sha256::digest(self.statement().serialised(Controls::Escaped)).into());
        self.sig = author.sign(&self.id);
        self
    }
}

#[test]
fn both_ids_of_a_text_with_control_characters_hold_and_no_other() {
    for text in ["\0", "a\u{1}b", "\u{b}\u{1f}"] {
        for event in [event(1, 7, &[], text), event(1, 7, &[&["t", text]], "")] {
            let (verbatim, json) = (event.event().clone(), event.into_event().signed_as_json(&keys(1)));
            assert_ne!(verbatim.id, json.id);
            let theirs = nostr::event::Event::from_json(json.to_json()).expect("our wire form");
            assert!(theirs.verify().is_ok(), "the other crate hashes JSON");
            for event in [verbatim, json] {
                let sent = Event::from_json(&event.to_json()).expect("our wire form");
                assert_eq!(sent.clone().verify().expect("its id holds").into_event(), event);
                let changed = Event { created_at: Timestamp(8), ..sent };
                assert!(changed.verify().is_err());
            }
        }
    }
}

#[test]
fn the_first_vector_of_bip_340_holds() {
    let mut secret = [0; 32];
    secret[31] = 3;
    let pubkey = Keys::from_secret(secret).expect("a secret").pubkey();
    assert_eq!(pubkey.to_string(), "f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9");
    let sig = "e907831f80848d1069a5371b402410364bdf1c5f8307b0084c55f1ce2dca8215\
               25f66a4a85ea8b71e482a74f382d2ce5ebeee8fdb2172f477df4900d310536c0";
    let sig = Signature(hex::parse(sig).expect("128 digits"));
    let of_zeros = Event { id: EventId([0; 32]), pubkey, sig, ..event(1, 0, &[], "").into_event() };
    assert!(of_zeros.is_signed());
    assert!(!Event { id: EventId([1; 32]), ..of_zeros }.is_signed());
}

#[test]
fn a_secret_is_below_the_order_of_the_curve_and_not_zero() {
    assert!(Keys::from_secret([0; 32]).is_none());
    assert!(Keys::from_secret([0xff; 32]).is_none());
}

#[test]
fn an_event_that_was_changed_after_signing_is_refused() {
    let good = event(1, 7, &[&["t", "a"]], "text").into_event();
    let changes: [fn(&mut Event); 6] = [
        |event| event.created_at.0 += 1,
        |event| event.kind.0 += 1,
        |event| event.content.push(' '),
        |event| event.tags.push(Tag(vec![])),
        |event| event.pubkey = keys(2).pubkey(),
        |event| event.id.0[31] ^= 1,
    ];
    for change in changes {
        let mut changed = good.clone();
        change(&mut changed);
        assert_eq!(changed.verify().expect_err("changed").to_string(), "invalid: the id is not the hash of the event");
    }
    assert_eq!(good.clone().verify().expect("unchanged").event(), &good);
}

#[test]
fn a_signature_by_another_key_or_of_another_id_is_refused() {
    let good = event(1, 7, &[], "text").into_event();
    for other in [crate::event::samples::signed_by(2, 1, 7, &[], "text"), event(1, 8, &[], "text")] {
        let forged = Event { sig: other.sig, ..good.clone() };
        assert!(forged.verify().expect_err("forged").reason().starts_with("the signature"));
    }
    for byte in 0..64 {
        let mut damaged = good.clone();
        damaged.sig.0[byte] ^= 1;
        assert!(damaged.verify().is_err(), "byte {byte}");
    }
}

#[test]
fn an_author_that_is_no_point_of_the_curve_signs_nothing() {
    let mut event = event(1, 7, &[], "").into_event();
    event.pubkey = Pubkey([0xff; 32]);
    event.id = event.statement().id();
    assert!(event.verify().expect_err("no key").reason().starts_with("the signature"));
}

proptest! {
    #[test]
    fn the_canonical_form_is_that_of_the_naive_model(event in any_event()) {
        let canonical = String::from_utf8(event.statement().serialised(Controls::Verbatim)).expect("it is text");
        prop_assert_eq!(canonical, naive_canonical(&event));
    }

    #[test]
    fn what_is_signed_here_holds(event in any_event()) {
        prop_assert_eq!(event.clone().verify().expect("signed").into_event(), event);
    }

    #[test]
    fn another_implementation_reads_the_same_event_and_verifies_it(
        event in any_event().prop_filter("one id, there too", is_known_elsewhere),
        damaged in 0..64_usize,
    ) {
        let theirs = nostr::event::Event::from_json(event.to_json()).expect("our wire form");
        prop_assert!(theirs.verify().is_ok());
        prop_assert_eq!(theirs.id.to_hex(), event.id.to_string());
        prop_assert_eq!(Event::from_json(&theirs.as_json()), Ok(event.clone()));
        let mut forged = event;
        forged.sig.0[damaged] ^= 1;
        let theirs = nostr::event::Event::from_json(forged.to_json()).expect("our wire form");
        prop_assert!(theirs.verify().is_err() && forged.verify().is_err());
    }
}

proptest! {
    #[test]
    fn ids_have_the_order_of_their_bytes(mut one in any::<[u8; 32]>(), other in any::<[u8; 32]>(), same in 0..=32_usize) {
        one[..same].copy_from_slice(&other[..same]);
        prop_assert_eq!(EventId(one).cmp(&EventId(other)), one.cmp(&other));
        prop_assert_eq!(Pubkey(one).partial_cmp(&Pubkey(other)), one.partial_cmp(&other));
    }
}
