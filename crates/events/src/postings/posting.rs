//! Postings: entries of an event in the posting lists of an index.
//!
//! A posting carries time, kind and author, so most conditions are decided without reading the event:
//!
//! ```text
//! posting  created_at u32 LE | author u32 LE | kind u16 LE | seq u48 LE          16 bytes
//! list     keyed hash of its name, 48 bits | kind u16                            one u64
//! ```
//!
//! `author` is a keyed hash of the public key. Hashes may collide, though nobody can construct a collision: where it
//! matters, the reader checks the event.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher13;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::event::{Event, Kind, KindClass, Letter, Letters, Pubkey, Seq};

/// Entry of one event in one list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Posting {
    created_at: U32,
    author: U32,
    kind: U16,
    seq: [u8; 6],
}

/// Bytes of a posting.
pub(super) const POSTING_BYTES: usize = size_of::<Posting>();
const _: () = assert!(POSTING_BYTES == 16);

/// Key of a list of one kind of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListKey(pub(crate) u64);

/// Name of the lists of all kinds with one subject.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct ListName(u64);

/// Keyed hash of an author.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AuthorHash(u64);

/// Subject that the events of a list have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ListSubject<'a> {
    /// No subject: all events.
    All,
    Author(&'a Pubkey),
    Tag(Letter, &'a str),
    /// Author and `d` tag of addressable events.
    Address(&'a Pubkey, &'a str),
}

/// Names posting lists by keyed hashes, and lists the tags that are indexed.
#[derive(Debug, Clone)]
pub(crate) struct PostingIndex {
    hasher: SipHasher13,
    /// Tags that have lists.
    pub(crate) letters: Letters,
}

// === impl Posting ===

impl Posting {
    pub(super) fn new(event: &Event, seq: Seq, index: &PostingIndex) -> Self {
        Self {
            created_at: event.created_at.to_u32().into(),
            author: index.author(&event.pubkey).in_posting().into(),
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

/// Casts bytes of the array to postings.
pub(crate) fn postings(bytes: &[u8]) -> &[Posting] {
    <[Posting]>::ref_from_bytes(bytes).expect("arrays return whole records")
}

// === impl Lists ===

impl PostingIndex {
    /// Returns an index whose names are hashed under a secret, with lists for these tags.
    pub(crate) fn new(secret: &[u8; 16], letters: Letters) -> Self {
        Self { hasher: SipHasher13::new_with_key(secret), letters }
    }

    pub(crate) fn author(&self, pubkey: &Pubkey) -> AuthorHash {
        AuthorHash(self.hash(&[b"author", &pubkey.0]))
    }

    pub(crate) fn name(&self, subject: ListSubject<'_>) -> ListName {
        let hash = match subject {
            ListSubject::All => self.hash(&[b"all"]),
            ListSubject::Author(pubkey) => return self.author(pubkey).name(),
            ListSubject::Tag(letter, value) => self.hash(&[b"tag", &[letter.byte()], value.as_bytes()]),
            ListSubject::Address(pubkey, d) => self.hash(&[b"address", &pubkey.0, d.as_bytes()]),
        };
        ListName::of_hash(hash)
    }

    fn hash(&self, parts: &[&[u8]]) -> u64 {
        let mut hasher = self.hasher;
        for part in parts {
            hasher.write(part);
            // A byte that UTF-8 never contains separates the parts.
            hasher.write_u8(0xff);
        }
        hasher.finish()
    }

    /// Returns the lists that contain an event, each once.
    pub(super) fn lists_of(&self, event: &Event) -> Vec<ListKey> {
        let mut keys = self.tag_lists_of(event, self.letters);
        let mut add = |subject| keys.push(self.name(subject).of_kind(event.kind));
        add(ListSubject::All);
        add(ListSubject::Author(&event.pubkey));
        if event.kind.class() == KindClass::Addressable {
            add(ListSubject::Address(&event.pubkey, event.d()));
        }
        keys
    }

    /// Returns the lists of an event's tags with these letters, each once.
    pub(super) fn tag_lists_of(&self, event: &Event, letters: Letters) -> Vec<ListKey> {
        let tags = event.indexed_tags().filter(|(letter, _)| letters.contains(*letter));
        let mut keys: Vec<ListKey> =
            tags.map(|(letter, value)| self.name(ListSubject::Tag(letter, value)).of_kind(event.kind)).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

impl AuthorHash {
    /// Returns the author field of a posting.
    #[expect(clippy::cast_possible_truncation, reason = "the low half of a hash")]
    pub(crate) fn in_posting(self) -> u32 {
        self.0 as u32
    }

    /// Returns the name of the author's lists.
    pub(crate) fn name(self) -> ListName {
        ListName::of_hash(self.0)
    }
}

/// Lists from a first key to a last one, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListRange {
    pub(crate) first: ListKey,
    pub(super) last: ListKey,
}

impl ListKey {
    /// Returns the name that this list shares with those of other kinds.
    pub(super) fn name(self) -> ListName {
        ListName::of_hash(self.0)
    }
}

impl From<ListKey> for ListRange {
    fn from(key: ListKey) -> Self {
        Self { first: key, last: key }
    }
}

impl ListName {
    /// Clears the bits that a key uses for the kind.
    fn of_hash(hash: u64) -> Self {
        Self(hash & !0xffff)
    }

    pub(crate) fn of_kind(self, kind: Kind) -> ListKey {
        ListKey(self.0 | u64::from(kind.0))
    }

    /// Returns the first and the last key that can have this name.
    pub(crate) fn of_all_kinds(self) -> ListRange {
        ListRange { first: ListKey(self.0), last: ListKey(self.0 | 0xffff) }
    }
}
