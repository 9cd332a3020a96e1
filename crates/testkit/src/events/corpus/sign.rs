//! Ids ([NIP-01](https://github.com/nostr-protocol/nips/blob/master/01.md)) and signatures
//! ([BIP340](https://github.com/bitcoin/bips/blob/master/bip-0340.mediawiki)) of events.

use std::thread;

use birdhouse_regtest::rng::Rng;
use bitcoin::hashes::{Hash as _, sha256};
use bitcoin::hex::DisplayHex as _;
use secp256k1::{Keypair, Message, SECP256K1};
use serde_json::json;

/// The id of an event.
pub(crate) type Id = [u8; 32];

/// The authors of a corpus.
pub(crate) struct People {
    keys: Vec<Keypair>,
    /// Public keys in hexadecimal.
    names: Vec<String>,
}

/// An event that is not signed yet.
pub(crate) struct Draft {
    pub(crate) id: Id,
    author: usize,
    created_at: u64,
    kind: u16,
    tags: Vec<Vec<String>>,
    content: String,
}

impl People {
    pub(crate) fn new(seed: u64, count: usize) -> Self {
        let mut rng = Rng::new(seed ^ 0x6e6f_7374_7200);
        let key = |_| loop {
            if let Ok(key) = Keypair::from_seckey_slice(SECP256K1, &rng.bytes::<32>()) {
                return key;
            }
        };
        let keys: Vec<Keypair> = (0..count).map(key).collect();
        let names = keys.iter().map(|key| key.x_only_public_key().0.to_string()).collect();
        Self { keys, names }
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns an author's public key in hexadecimal.
    pub(crate) fn name(&self, author: usize) -> &str {
        &self.names[author]
    }
}

impl Draft {
    pub(crate) fn new(
        people: &People,
        author: usize,
        created_at: u64,
        kind: u16,
        tags: Vec<Vec<String>>,
        content: String,
    ) -> Self {
        // The text has no control character but \n, so the form that is hashed is plain JSON.
        let statement = json!([0, people.name(author), created_at, kind, tags, content]).to_string();
        let id = sha256::Hash::hash(statement.as_bytes()).to_byte_array();
        Self { id, author, created_at, kind, tags, content }
    }

    pub(crate) fn indexed_tags(&self) -> u64 {
        self.tags.iter().filter(|tag| tag[0].len() == 1).count() as u64
    }

    fn sign(&self, people: &People) -> String {
        let sig = SECP256K1.sign_schnorr_no_aux_rand(&Message::from_digest(self.id), &people.keys[self.author]);
        let event = json!({
            "id": self.id.to_lower_hex_string(),
            "pubkey": people.name(self.author),
            "created_at": self.created_at,
            "kind": self.kind,
            "tags": self.tags,
            "content": self.content,
            "sig": sig.serialize().to_lower_hex_string(),
        });
        event.to_string() + "\n"
    }
}

/// Signs events on all processors in parallel; returns them as lines of JSON.
pub(crate) fn sign(drafts: &[Draft], people: &People) -> Vec<String> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let parts = drafts.chunks(drafts.len().div_ceil(processors).max(1));
        let threads: Vec<_> = parts
            .map(|part| scope.spawn(|| part.iter().map(|draft| draft.sign(people)).collect::<Vec<String>>()))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("signing never panics")).collect()
    })
}
