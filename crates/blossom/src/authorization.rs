//! Authorization by a signed event (BUD-11): for one verb, some time, and the blobs and servers that it names.
//!
//! Source: [BUD-11](https://github.com/hzrd149/blossom/blob/master/buds/11.md).

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use birdhouse_events::{Event, Kind, Pubkey};

use crate::address::Address;
use crate::hash::BlobHash;
use crate::limits::CLOCK_AHEAD_SECONDS;

/// Kind of the event.
const AUTHORIZATION: Kind = Kind(24_242);
/// Name of the scheme in the header.
const SCHEME: &str = "nostr";

/// The action that an event authorizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Upload,
    List,
    Delete,
}

/// The request that an event must authorize.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) verb: Verb,
    /// The blob, if it is known before the request's body has come.
    pub(crate) hash: Option<BlobHash>,
    pub(crate) address: &'a Address,
    /// Seconds since 1970.
    pub(crate) now: u64,
}

/// An event that authorizes a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Authorization {
    pub(crate) pubkey: Pubkey,
    hashes: Vec<BlobHash>,
}

impl Verb {
    fn name(self) -> &'static str {
        match self {
            Self::Upload => "upload",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }
}

impl Authorization {
    /// Checks the value of a header `Authorization`.
    ///
    /// # Errors
    /// The reason why it does not authorize the request.
    pub(crate) fn of(header: Option<&str>, asked: Asked<'_>) -> Result<Self, String> {
        let header = header.ok_or("this needs an authorization: a signed event of kind 24242")?;
        let event = event(header).ok_or("the authorization is no event in base64 after `Nostr `")?;
        if event.kind != AUTHORIZATION {
            return Err(format!("the authorization is not of kind {}", AUTHORIZATION.0));
        }
        if event.created_at.0 > asked.now.saturating_add(CLOCK_AHEAD_SECONDS) {
            return Err("created_at of the authorization is in the future".to_owned());
        }
        if event.expiration().is_none_or(|expiration| expiration.0 <= asked.now) {
            return Err("the authorization has expired, or has no expiration".to_owned());
        }
        if !event.values("t").any(|verb| verb == asked.verb.name()) {
            return Err(format!("the authorization is not for `{}`", asked.verb.name()));
        }
        if is_for_others(&event, asked.address) {
            return Err("the authorization is for another server".to_owned());
        }
        let hashes: Vec<_> = event.values("x").filter_map(BlobHash::parse).collect();
        if asked.verb != Verb::List && !asked.hash.map_or(!hashes.is_empty(), |hash| hashes.contains(&hash)) {
            return Err("the authorization has no x tag with the hash of the blob".to_owned());
        }
        // Last: a signature costs more to verify than all of that.
        let verified = event.verify().map_err(|rejection| format!("the authorization is not valid: {rejection}"))?;
        Ok(Self { pubkey: verified.event().pubkey, hashes })
    }

    /// Returns true if it names a blob.
    pub(crate) fn covers(&self, hash: BlobHash) -> bool {
        self.hashes.contains(&hash)
    }
}

/// True for an event whose tags name servers, and not this one. A tag without a value names none.
fn is_for_others(event: &Event, address: &Address) -> bool {
    let named = event.tags.iter().filter(|tag| tag.0.first().is_some_and(|first| first == "server"));
    let mut named = named.map(|tag| tag.0.get(1).map_or("", String::as_str)).peekable();
    named.peek().is_some() && !named.any(|server| address.is_named(server))
}

/// Parses the header's value: the scheme, and an event in base64 of either alphabet, padded or not.
fn event(header: &str) -> Option<Event> {
    let (scheme, token) = header.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    let token = token.trim();
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    let alphabet = if token.contains(['-', '_']) { URL_SAFE } else { STANDARD };
    let json = GeneralPurpose::new(&alphabet, config).decode(token).ok()?;
    Event::from_json(str::from_utf8(&json).ok()?).ok()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
    use birdhouse_events::{Keys, Tag, Timestamp, UnsignedEvent};

    use super::*;

    const NOW: u64 = 1_700_000_000;
    const HASH: BlobHash = BlobHash([0xb1; 32]);

    fn keys() -> Keys {
        Keys::from_secret([1; 32]).unwrap()
    }

    fn signed(kind: u16, created_at: u64, tags: &[&[&str]]) -> String {
        let tags = tags.iter().map(|tag| Tag(tag.iter().map(|&part| part.to_owned()).collect())).collect();
        // Its base64 has characters in which the alphabets differ.
        let content = "Upload ???>>> ~~~".to_owned();
        UnsignedEvent { created_at: Timestamp(created_at), kind: Kind(kind), tags, content }.sign(&keys()).to_json()
    }

    fn of(header: Option<&str>, verb: Verb, hash: Option<BlobHash>) -> Result<Authorization, String> {
        let address = Address::parse("https://media.example.org").unwrap();
        Authorization::of(header, Asked { verb, hash, address: &address, now: NOW })
    }

    #[test]
    fn each_condition_of_the_specification_is_checked() {
        let (hash, other) = (HASH.to_string(), BlobHash([2; 32]).to_string());
        let (later, sooner) = ((NOW + 1).to_string(), NOW.to_string());
        let (t, x, expiration) = (&["t", "upload"][..], &["x", &hash][..], &["expiration", &later][..]);
        let ask = |kind, created_at, tags: &[&[&str]]| {
            let header = format!("Nostr {}", BASE64_URL_SAFE_NO_PAD.encode(signed(kind, created_at, tags)));
            of(Some(&header), Verb::Upload, Some(HASH))
        };
        let pubkey = keys().pubkey();
        let allowed = |tags: &[&[&str]]| ask(24_242, NOW, tags).map(|authorization| authorization.pubkey);
        assert_eq!(allowed(&[t, x, expiration]), Ok(pubkey));
        assert_eq!(allowed(&[&["t", "get"], t, &["x", &other], x, expiration]), Ok(pubkey));
        assert_eq!(
            allowed(&[t, x, expiration, &["server", "else.example"], &["server", "media.example.org"]]),
            Ok(pubkey)
        );
        assert!(ask(24_242, NOW + CLOCK_AHEAD_SECONDS, &[t, x, expiration]).is_ok(), "a clock that is ahead");
        for (kind, created_at, tags, why) in [
            (24_243, NOW, vec![t, x, expiration], "kind"),
            (24_242, NOW + CLOCK_AHEAD_SECONDS + 1, vec![t, x, expiration], "future"),
            (24_242, NOW, vec![t, x], "expiration"),
            (24_242, NOW, vec![t, x, &["expiration", &sooner]], "expired"),
            (24_242, NOW, vec![t, x, &["expiration", "soon"]], "expir"),
            (24_242, NOW, vec![&["t", "delete"], x, expiration], "`upload`"),
            (24_242, NOW, vec![x, expiration], "`upload`"),
            (24_242, NOW, vec![t, expiration], "x tag"),
            (24_242, NOW, vec![t, &["x", &other], expiration], "x tag"),
            (24_242, NOW, vec![t, x, expiration, &["server", "else.example"]], "server"),
            (24_242, NOW, vec![t, x, expiration, &["server"]], "server"),
        ] {
            let refused = ask(kind, created_at, &tags).unwrap_err();
            assert!(refused.contains(why), "{refused}, not {why}");
        }
    }

    #[test]
    fn a_list_needs_no_blob_and_an_upload_of_unknown_hash_any() {
        let (hash, later) = (HASH.to_string(), (NOW + 1).to_string());
        let header = |tags: &[&[&str]]| format!("Nostr {}", BASE64_STANDARD.encode(signed(24_242, NOW, tags)));
        let expiration = &["expiration", &*later][..];
        assert!(of(Some(&header(&[&["t", "list"], expiration])), Verb::List, None).is_ok());
        assert!(of(Some(&header(&[&["t", "upload"], expiration])), Verb::Upload, None).is_err());
        let authorization =
            of(Some(&header(&[&["t", "upload"], expiration, &["x", &hash]])), Verb::Upload, None).unwrap();
        assert!(authorization.covers(HASH) && !authorization.covers(BlobHash([2; 32])));
    }

    #[test]
    fn both_alphabets_are_read_with_and_without_padding() {
        let (hash, later) = (HASH.to_string(), (NOW + 1).to_string());
        for padding in 0..3 {
            let tags: [&[&str]; 4] =
                [&["t", "delete"], &["x", &hash], &["expiration", &later], &["-", &"?~>"[..padding]]];
            let json = signed(24_242, NOW, &tags);
            let (plain, url) = (BASE64_STANDARD.encode(&json), BASE64_URL_SAFE_NO_PAD.encode(&json));
            for token in
                [&plain, plain.trim_end_matches('='), &url, &format!("{url}{}", &"=="[..(4 - url.len() % 4) % 4])]
            {
                for scheme in ["Nostr", "nostr"] {
                    assert!(of(Some(&format!("{scheme} {token}")), Verb::Delete, Some(HASH)).is_ok(), "{token}");
                }
            }
        }
        for wrong in ["", "Nostr", "Nostr ???", "Bearer e30", "Nostr e30", "Basic dTpw"] {
            assert!(of(Some(wrong), Verb::Delete, Some(HASH)).is_err(), "{wrong}");
        }
        assert!(of(None, Verb::Delete, Some(HASH)).unwrap_err().contains("24242"));
    }

    #[test]
    fn a_forged_event_authorizes_nothing() {
        let (hash, later) = (HASH.to_string(), (NOW + 1).to_string());
        let json = signed(24_242, NOW, &[&["t", "delete"], &["x", &hash], &["expiration", &later]]);
        let mut forged = Event::from_json(&json).unwrap();
        forged.sig.0[7] ^= 1;
        let header = format!("Nostr {}", BASE64_STANDARD.encode(forged.to_json()));
        assert!(of(Some(&header), Verb::Delete, Some(HASH)).unwrap_err().contains("not valid"));
        let mut foreign = Event::from_json(&json).unwrap();
        foreign.pubkey = Keys::from_secret([2; 32]).unwrap().pubkey();
        let header = format!("Nostr {}", BASE64_STANDARD.encode(foreign.to_json()));
        assert!(of(Some(&header), Verb::Delete, Some(HASH)).is_err());
    }
}
