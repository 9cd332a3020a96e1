//! Postings: what an index says of an event, and the lists it stands in.
//!
//! A posting carries time, kind and author, so that most conditions are decided without looking at the event:
//!
//! ```text
//! posting  created_at u32 LE | author u32 LE | kind u16 LE | seq u48 LE          16 bytes
//! list     keyed hash of its name, 48 bits | kind u16                            one u64
//! ```
//!
//! `author` is a keyed hash of the public key. Hashes may meet, though nobody can make them meet: whoever needs to be
//! right looks at the event.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::event::{Event, Pubkey, Timestamp};
use crate::kind::{Kind, KindClass};
use crate::log::Seq;
use crate::tag::{Letter, Letters};

/// One event in one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Posting {
    created_at: U32,
    author: U32,
    kind: U16,
    seq: [u8; 6],
}

/// Bytes of a posting.
pub(crate) const POSTING_BYTES: usize = size_of::<Posting>();
const _: () = assert!(POSTING_BYTES == 16);

/// A list of one kind of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListKey(pub(crate) u64);

/// A list of all kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListName(u64);

/// An author's keyed hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuthorHash(u64);

/// What events have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Common<'a> {
    /// Nothing: all events.
    All,
    Author(&'a Pubkey),
    Tag(Letter, &'a str),
    /// Author and `d` tag, of addressable events.
    Address(&'a Pubkey, &'a str),
}

/// Names lists by keyed hashes.
#[derive(Debug, Clone)]
pub(crate) struct Lists {
    hasher: SipHasher13,
    /// Tags that have lists.
    pub(crate) letters: Letters,
}

// === impl Posting ===

impl Posting {
    pub(crate) fn new(event: &Event, seq: Seq, lists: &Lists) -> Self {
        Self {
            created_at: seconds(event.created_at).into(),
            author: lists.author(&event.pubkey).in_posting().into(),
            kind: event.kind.0.into(),
            seq: seq.to_bytes(),
        }
    }

    pub(crate) fn created_at(&self) -> u32 {
        self.created_at.get()
    }

    pub(crate) fn author(&self) -> u32 {
        self.author.get()
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind(self.kind.get())
    }

    pub(crate) fn seq(&self) -> Seq {
        Seq::from_bytes(self.seq)
    }
}

/// Events have times below 2^32.
pub(crate) fn seconds(created_at: Timestamp) -> u32 {
    u32::try_from(created_at.0).unwrap_or(u32::MAX)
}

/// The postings that these bytes are.
pub(crate) fn postings(bytes: &[u8]) -> &[Posting] {
    <[Posting]>::ref_from_bytes(bytes).expect("arrays show whole records")
}

// === impl Lists ===

impl Lists {
    /// The names under a secret of the index, with lists for these tags.
    pub(crate) fn new(secret: &[u8; 16], letters: Letters) -> Self {
        Self { hasher: SipHasher13::new_with_key(secret), letters }
    }

    pub(crate) fn author(&self, pubkey: &Pubkey) -> AuthorHash {
        AuthorHash(self.hash(&[b"author", &pubkey.0]))
    }

    pub(crate) fn name(&self, common: Common<'_>) -> ListName {
        let hash = match common {
            Common::All => self.hash(&[b"all"]),
            Common::Author(pubkey) => return self.author(pubkey).name(),
            Common::Tag(letter, value) => self.hash(&[b"tag", &[letter.byte()], value.as_bytes()]),
            Common::Address(pubkey, d) => self.hash(&[b"address", &pubkey.0, d.as_bytes()]),
        };
        ListName::of_hash(hash)
    }

    fn hash(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = self.hasher;
        for part in parts {
            hasher.write(part);
            // What cannot stand in a name keeps the parts apart.
            hasher.write_u8(0xff);
        }
        hasher.finish()
    }

    /// The lists an event stands in, each once.
    pub(crate) fn of(&self, event: &Event) -> Vec<ListKey> {
        let mut keys = self.of_tags(event, self.letters);
        let mut add = |common| keys.push(self.name(common).of_kind(event.kind));
        add(Common::All);
        add(Common::Author(&event.pubkey));
        if event.kind.class() == KindClass::Addressable {
            add(Common::Address(&event.pubkey, event.d()));
        }
        keys
    }

    /// Those of its tags with these letters, each once.
    pub(crate) fn of_tags(&self, event: &Event, letters: Letters) -> Vec<ListKey> {
        let tags = event.indexed_tags().filter(|(letter, _)| letters.contains(*letter));
        let mut keys: Vec<ListKey> =
            tags.map(|(letter, value)| self.name(Common::Tag(letter, value)).of_kind(event.kind)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl AuthorHash {
    /// What a posting says of its author.
    #[expect(clippy::cast_possible_truncation, reason = "the low half of a hash")]
    pub(crate) fn in_posting(self) -> u32 {
        self.0 as u32
    }

    /// The author's list.
    pub(crate) fn name(self) -> ListName {
        ListName::of_hash(self.0)
    }
}

impl ListKey {
    /// The name of the lists of all kinds that this is one of.
    pub(crate) fn name(self) -> ListName {
        ListName::of_hash(self.0)
    }
}

impl ListName {
    /// What a hash leaves of itself beside a kind.
    fn of_hash(hash: u64) -> Self {
        Self(hash & !0xffff)
    }

    pub(crate) fn of_kind(self, kind: Kind) -> ListKey {
        ListKey(self.0 | u64::from(kind.0))
    }

    /// The first and the last list that can have this name.
    pub(crate) fn of_all_kinds(self) -> (ListKey, ListKey) {
        (ListKey(self.0), ListKey(self.0 | 0xffff))
    }
}
