//! Attacks on a relay: what each connection sends, again and again.

use std::io::Write as _;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use birdhouse_events::{Keys, Kind, Tag, Timestamp, UnsignedEvent, VerifiedEvent};
use birdhouse_regtest::rng::Rng;
use birdhouse_regtest::rpc::base64;
use bitcoin::hashes::{Hash as _, sha256};
use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::json;

use super::super::socket::frame;

/// A kind of attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RelayAttack {
    /// Events with the most tags that are allowed.
    Tags,
    /// Deletion requests that each name thousands of other authors' events.
    Deletions,
    /// Subscriptions with as many values as a message holds.
    Subscriptions,
    /// Large stored events, of which nothing is read.
    UnreadOutput,
    /// Sockets that never finish their request, thousands of them.
    Places,
    /// Queries for two tags that never meet, in 15 000 events each.
    IntersectingTags,
    /// Compressed messages that inflate to a thousand times their size.
    CompressionBombs,
    /// Pings without end.
    Pings,
    /// Proofs of identity that are wrong.
    Auth,
    /// Large events, and searches among them that find nothing (NIP-50).
    Search,
    /// One request of an admin, overheard and sent again (NIP-86 with the event of NIP-98).
    Replays,
}

/// The client that all attackers are, as a reverse proxy tells the relay.
pub(super) const ADDRESS: &str = "203.0.113.66";
/// The relay's URL, and the author that may manage it.
pub(super) const URL: &str = "wss://relay.example.org";
pub(super) const ADMIN: u8 = 99;
/// Notes with each of the two tags that never meet.
pub(super) const APART: u64 = 15_000;
/// Large notes, of 100 kB.
pub(super) const LARGE: u64 = 300;
/// Tags of an event, just below the limit.
const TAGS: usize = 5900;
/// Events that a deletion request names.
const NAMED: usize = 5000;
/// Values of a filter, and filters of a subscription: a mebibyte, the most that a message may have.
const VALUES: usize = 1900;
const FILTERS: usize = 8;
/// Words of a large event, of nine bytes each.
const LARGE_WORDS: usize = 12_000;
/// Bytes of zeros in a compression bomb.
const BOMB_BYTES: usize = 64 << 20;
/// Messages that one connection repeats.
const MESSAGES: usize = 16;
/// Time of the attackers' events.
const BEGIN: u64 = 1_700_000_000;

impl RelayAttack {
    /// All kinds.
    pub(crate) const ALL: [Self; 11] = [
        Self::Tags,
        Self::Deletions,
        Self::Subscriptions,
        Self::UnreadOutput,
        Self::Places,
        Self::IntersectingTags,
        Self::CompressionBombs,
        Self::Pings,
        Self::Auth,
        Self::Search,
        Self::Replays,
    ];

    pub(super) fn connections(self) -> usize {
        match self {
            Self::Places => 3000,
            Self::Tags | Self::Deletions => 10,
            _ => 50,
        }
    }

    /// Returns true if connections read what the relay sends.
    pub(super) fn reads(self) -> bool {
        !matches!(self, Self::UnreadOutput | Self::Places)
    }

    /// Returns true if connections ask for a WebSocket.
    pub(super) fn upgrades(self) -> bool {
        !matches!(self, Self::Places | Self::Replays)
    }

    pub(super) fn compresses(self) -> bool {
        self == Self::CompressionBombs
    }

    /// Returns the frames that each connection sends in turn. Nothing is signed while the attack runs.
    pub(super) fn frames(self) -> Result<Vec<Rc<[u8]>>> {
        let mut rng = Rng::new(self as u64);
        let many = |make: &mut dyn FnMut(usize) -> String| {
            (0..MESSAGES).map(|number| Rc::from(frame(&make(number)))).collect::<Vec<Rc<[u8]>>>()
        };
        let mut hex = || hex(&rng.bytes::<32>());
        Ok(match self {
            Self::Tags => {
                let keys = keys(66)?;
                many(&mut |number| {
                    let tags = (0..TAGS).map(|_| vec!["t".to_owned(), hex()]).map(Tag).collect();
                    format!("[\"EVENT\",{}]", note(&keys, 1, number as u64, tags, String::new()).to_json())
                })
            }
            Self::Deletions => {
                let keys = keys(66)?;
                let ids: Vec<String> = stored()?.take(NAMED).map(|event| event.id.to_string()).collect();
                many(&mut |number| {
                    let tags = ids.iter().map(|id| Tag(vec!["e".to_owned(), id.clone()])).collect();
                    format!("[\"EVENT\",{}]", note(&keys, 5, number as u64, tags, String::new()).to_json())
                })
            }
            Self::Subscriptions => many(&mut |number| {
                let filter = |_| json!({ "limit": 0, "authors": (0..VALUES).map(|_| hex()).collect::<Vec<_>>() });
                let filters: Vec<_> = (0..FILTERS).map(filter).collect();
                let mut message = vec![json!("REQ"), json!(format!("s{number}"))];
                message.extend(filters);
                serde_json::Value::from(message).to_string()
            }),
            Self::UnreadOutput => {
                many(&mut |number| json!(["REQ", format!("s{number}"), { "kinds": [2] }]).to_string())
            }
            Self::Places => Vec::new(),
            Self::IntersectingTags => many(&mut |number| {
                json!(["COUNT", format!("s{number}"), { "#t": ["apart"], "#l": ["apart"] }]).to_string()
            }),
            Self::CompressionBombs => vec![bomb()?],
            Self::Pings => vec![Rc::from([0x89, 0x80, 0, 0, 0, 0].repeat(1000))],
            Self::Auth => {
                let keys = keys(66)?;
                many(&mut |number| {
                    let tags = [["relay", "ws://127.0.0.1"], ["challenge", "guessed"]];
                    let tags = tags.map(|tag| Tag(tag.map(str::to_owned).to_vec())).to_vec();
                    format!("[\"AUTH\",{}]", note(&keys, 22_242, number as u64, tags, String::new()).to_json())
                })
            }
            Self::Search => {
                let keys = keys(66)?;
                many(&mut |number| {
                    if number % 2 == 0 {
                        let content = (0..LARGE_WORDS).map(|_| hex()[..8].to_owned() + " ").collect();
                        return format!("[\"EVENT\",{}]", note(&keys, 1, number as u64, Vec::new(), content).to_json());
                    }
                    json!(["REQ", format!("s{number}"), { "search": format!("absent{number} missing") }]).to_string()
                })
            }
            Self::Replays => vec![replayed()?.into_bytes().into()],
        })
    }
}

/// The notes that the relay has before the attacks: notes with either of two tags, and large ones of kind 2.
pub(super) fn stored() -> Result<impl Iterator<Item = VerifiedEvent>> {
    let keys = keys(1)?;
    let apart = {
        let keys = keys.clone();
        (0..2 * APART).map(move |number| {
            let name = if number % 2 == 0 { "t" } else { "l" };
            note(&keys, 1, number, vec![Tag(vec![name.to_owned(), "apart".to_owned()])], "a note".to_owned())
        })
    };
    let large = (0..LARGE).map(move |number| note(&keys, 2, number, Vec::new(), "x".repeat(100_000)));
    Ok(apart.chain(large))
}

pub(super) fn keys(author: u8) -> Result<Keys> {
    Keys::from_secret([author; 32]).context("a valid secret key")
}

pub(super) fn note(keys: &Keys, kind: u16, number: u64, tags: Vec<Tag>, content: String) -> VerifiedEvent {
    UnsignedEvent { created_at: Timestamp(BEGIN + number), kind: Kind(kind), tags, content }.sign(keys)
}

/// Returns a request of the admin, as it was sent once.
#[expect(clippy::disallowed_methods, reason = "a request of the admin holds for a minute")]
fn replayed() -> Result<String> {
    let body = r#"{"method":"supportedmethods","params":[]}"#;
    let digest = sha256::Hash::hash(body.as_bytes()).to_string();
    let tags = [["u", URL], ["method", "POST"], ["payload", &digest]];
    let tags = tags.map(|tag| Tag(tag.map(str::to_owned).to_vec())).to_vec();
    let created_at = Timestamp(SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs());
    let proof = UnsignedEvent { created_at, kind: Kind(27_235), tags, content: String::new() };
    Ok(format!(
        "POST / HTTP/1.1\r\nHost: relay.example.org\r\nX-Forwarded-For: {ADDRESS}\r\n\
         Content-Type: application/nostr+json+rpc\r\nAuthorization: Nostr {}\r\nContent-Length: {}\r\n\r\n{body}",
        base64(proof.sign(&keys(ADMIN)?).to_json().as_bytes()),
        body.len()
    ))
}

fn hex(bytes: &[u8]) -> String {
    birdhouse_events::hex::string(bytes)
}

/// Returns a compressed frame (RFC 7692) of zeros.
fn bomb() -> Result<Rc<[u8]>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&vec![0; BOMB_BYTES])?;
    let payload = encoder.finish()?;
    // Final, compressed, text; masked with zeros, a length of eight bytes.
    let mut bytes = vec![0xc1, 0xff];
    bytes.extend((payload.len() as u64).to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(payload);
    Ok(bytes.into())
}
