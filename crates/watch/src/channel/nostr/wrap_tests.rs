//! Direct messages, as the crate `nostr` reads them.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::HashSet;

use nostr::event::Event as OtherEvent;
use nostr::key::{Keys, SecretKey as OtherSecret};
use nostr::nips::nip59::UnwrappedGift;
use proptest::prelude::*;

use super::*;

const NOW: u64 = 1_790_000_000;

fn sender() -> Keypair {
    Keypair::from_seckey_slice(SECP256K1, &[7; 32]).unwrap()
}

fn recipient() -> Keys {
    Keys::new(OtherSecret::from_slice(&[9; 32]).unwrap())
}

fn message(text: &str) -> DirectMessage<'_> {
    let to = XOnlyPublicKey::from_slice(&recipient().public_key().to_bytes()).unwrap();
    DirectMessage { to, id: "1", text, created: NOW }
}

/// Reads a wrap as its recipient does: verifies wrap and seal, decrypts both.
fn read(wrap: &Event) -> (OtherEvent, UnwrappedGift) {
    let wrap = OtherEvent::from_json(wrap.to_json()).unwrap();
    wrap.verify().unwrap();
    let gift = UnwrappedGift::from_gift_wrap(&recipient(), &wrap).unwrap();
    (wrap, gift)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn another_library_reads_every_text(text in "\\PC{1,300}|[\\x00-\\x1f\"\\\\ü€]{1,40}") {
        let (_, gift) = read(&wrap(&message(&text), &sender(), NOW).unwrap());
        prop_assert_eq!(gift.rumor.content, text);
        prop_assert_eq!(gift.sender.to_bytes(), sender().x_only_public_key().0.serialize());
    }
}

#[test]
fn the_message_is_of_nip_17_and_its_wrap_hides_sender_and_time() {
    let (wrap, mut gift) = read(&wrap(&message("Savings: received"), &sender(), NOW).unwrap());
    assert_eq!((wrap.kind.as_u16(), gift.rumor.kind.as_u16()), (1059, 14));
    assert_ne!(wrap.pubkey, gift.sender);
    assert_eq!(gift.rumor.pubkey, gift.sender);
    assert_eq!(gift.rumor.created_at.as_secs(), NOW, "the recipient sees the true time");
    assert!((NOW - PRETENDED_AGE_MAX..=NOW).contains(&wrap.created_at.as_secs()));
    let recipients: Vec<_> = gift.rumor.tags.public_keys().collect();
    assert_eq!(recipients, [recipient().public_key()]);
    assert_eq!(wrap.tags.public_keys().collect::<Vec<_>>(), [recipient().public_key()]);
    let id = gift.rumor.id.take().unwrap();
    assert_eq!(gift.rumor.id(), id, "the id of the rumor is the one that the other library computes");
}

#[test]
fn an_attempt_of_the_same_day_sends_the_same_event_and_later_ones_the_same_message() {
    let first = wrap(&message("a"), &sender(), NOW).unwrap();
    assert_eq!(wrap(&message("a"), &sender(), NOW + DAY - 1).unwrap(), first);
    let later = wrap(&message("a"), &sender(), NOW + 20 * DAY + 5).unwrap();
    assert_ne!(later.id, first.id);
    assert!(later.created_at >= NOW + 18 * DAY, "relays refuse events that are weeks old");
    assert_eq!(read(&later).1.rumor.id, read(&first).1.rumor.id);
}

/// A payment that is confirmed, taken back and confirmed again within a second.
#[test]
fn notices_with_one_text_in_one_second_are_messages_of_their_own() {
    let of = |id| read(&wrap(&DirectMessage { id, ..message("a") }, &sender(), NOW).unwrap());
    let [(first, of_first), (second, of_second)] = ["1", "2"].map(of);
    assert_ne!(first.id, second.id);
    assert_ne!(of_first.rumor.id, of_second.rumor.id);
    assert_eq!(of_first.rumor.content, of_second.rumor.content);
}

#[test]
fn texts_and_recipients_share_no_randomness() {
    let mut keys = HashSet::new();
    for text in ["a", "b"] {
        for to in [1, 2] {
            let to = Keypair::from_seckey_slice(SECP256K1, &[to; 32]).unwrap().x_only_public_key().0;
            let wrap = wrap(&DirectMessage { to, id: "1", text, created: NOW }, &sender(), NOW).unwrap();
            keys.insert(wrap.pubkey);
        }
    }
    assert_eq!(keys.len(), 4);
}

#[test]
fn empty_texts_are_refused() {
    assert!(wrap(&message(""), &sender(), NOW).is_none());
}
