//! Authorization of a request by a signed event (NIP-98): for this relay, this body and this minute, by an admin.
//!
//! Source: [NIP-98](https://github.com/nostr-protocol/nips/blob/master/98.md).

use std::collections::HashSet;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use birdhouse_events::{Event, Kind, Pubkey, RelayUrl, hex};
use hyper::header::HeaderValue;
use sha2::{Digest as _, Sha256};

use crate::limits::MANAGEMENT_SECONDS;
use crate::policy::Local;
use crate::policy::UsedEvents;

/// Kind of the event that authorizes a request of HTTP.
const HTTP_AUTH: Kind = Kind(27_235);
/// Name of the scheme in the header.
const SCHEME: &str = "nostr";

/// A request: the relay's names, the time, and the body.
pub(super) struct Asked<'a> {
    /// The relay's names.
    pub(super) local: &'a Local,
    /// The query of the request's URL, without `?`; empty if there is none.
    pub(super) query: &'a str,
    /// Seconds since 1970.
    pub(super) now: u64,
    pub(super) body: &'a [u8],
}

impl Asked<'_> {
    /// Returns the admin who signed the request, and uses the event. `is_endpoint` says whether the relay is at a path.
    ///
    /// # Errors
    /// The reason why the request is not authorized.
    pub(super) fn admin(
        &self,
        admins: &HashSet<Pubkey>,
        is_endpoint: impl Fn(&str) -> bool,
        authorization: Option<&HeaderValue>,
        used: &UsedEvents,
    ) -> Result<Pubkey, String> {
        let event = authorization.and_then(event).ok_or("the Authorization header has no event in base64 (NIP-98)")?;
        // A signature is verified for those alone who may sign.
        if !admins.contains(&event.pubkey) {
            return Err("only an admin may do this".to_owned());
        }
        if event.kind != HTTP_AUTH {
            return Err(format!("the event is not of kind {}", HTTP_AUTH.0));
        }
        if event.created_at.0.abs_diff(self.now) > MANAGEMENT_SECONDS {
            return Err(format!("created_at is not within {MANAGEMENT_SECONDS} s of now"));
        }
        let is_ours = |url: &RelayUrl| {
            let (path, query) = url.path().split_once('?').unwrap_or((url.path(), ""));
            self.local.is_at(url)
                && is_endpoint(path.trim_end_matches('/'))
                && query == self.query.trim_end_matches('/')
        };
        if !event.values("u").next().and_then(relay_url).is_some_and(|url| is_ours(&url)) {
            return Err(self.local.explained("the u tag is not the URL of this request to this relay"));
        }
        if !event.values("method").next().is_some_and(|method| method.eq_ignore_ascii_case("POST")) {
            return Err("the method tag is not POST".to_owned());
        }
        if event.values("payload").next() != Some(&hex::string(&Sha256::digest(self.body))) {
            return Err("the payload tag is not the SHA-256 of the request".to_owned());
        }
        let verified = event.verify().map_err(|rejection| rejection.to_string())?;
        // Events of admins alone take room.
        used.take(verified.id, verified.created_at.0, self.now)?;
        Ok(verified.pubkey)
    }
}

/// Parses the header's value: the scheme, and an event in base64.
fn event(header: &HeaderValue) -> Option<Event> {
    let (scheme, token) = header.to_str().ok()?.trim().split_once(' ')?;
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return None;
    }
    let json = BASE64_STANDARD.decode(token.trim()).ok()?;
    Event::from_json(str::from_utf8(&json).ok()?).ok()
}

/// Parses the URL of a request to the relay, or of the relay itself: clients name either.
fn relay_url(url: &str) -> Option<RelayUrl> {
    let is_http = url.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
    if is_http { RelayUrl::parse(&format!("ws{}", &url[4..])) } else { RelayUrl::parse(url) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_events::{Keys, Tag, Timestamp, UnsignedEvent};

    use super::*;

    const NOW: u64 = 1_700_000_000;
    const BODY: &[u8] = br#"{"method":"supportedmethods","params":[]}"#;

    /// Signs a request by an author, and returns its header.
    fn header(author: u8, kind: u16, created_at: u64, tags: &[[&str; 2]]) -> HeaderValue {
        let tags = tags.iter().map(|tag| Tag(tag.map(str::to_owned).to_vec())).collect();
        let event = UnsignedEvent { created_at: Timestamp(created_at), kind: Kind(kind), tags, content: String::new() };
        let event = event.sign(&Keys::from_secret([author; 32]).unwrap());
        format!("Nostr {}", BASE64_STANDARD.encode(event.to_json())).parse().unwrap()
    }

    fn asked(own: &[&str], authorization: Option<&HeaderValue>) -> Result<Pubkey, String> {
        asked_with(own, "", authorization)
    }

    /// Asks at a URL with this query.
    fn asked_with(own: &[&str], query: &str, authorization: Option<&HeaderValue>) -> Result<Pubkey, String> {
        let own: Vec<_> = own.iter().map(|url| RelayUrl::parse(url).unwrap()).collect();
        let local = Local::of(&own, "127.0.0.1:7777".parse().unwrap());
        let admins = [Keys::from_secret([1; 32]).unwrap().pubkey()].into();
        let is_endpoint = |path: &str| path.is_empty() || path == "/inbox";
        let asked = Asked { local: &local, query, now: NOW, body: BODY };
        asked.admin(&admins, is_endpoint, authorization, &UsedEvents::default())
    }

    #[test]
    fn only_a_fresh_signature_of_an_admin_for_this_relay_and_body_authorizes() {
        let digest = hex::string(&Sha256::digest(BODY));
        let (url, post, payload) = (["u", "http://127.0.0.1:7777/"], ["method", "POST"], ["payload", digest.as_str()]);
        let tags = [url, post, payload];
        for created_at in [NOW - MANAGEMENT_SECONDS, NOW + MANAGEMENT_SECONDS] {
            let header = header(1, 27_235, created_at, &tags);
            assert_eq!(asked(&[], Some(&header)), Ok(Keys::from_secret([1; 32]).unwrap().pubkey()));
        }
        let other = ["payload", &hex::string(&Sha256::digest(b"{}"))];
        for (wrong, why) in [
            (header(2, 27_235, NOW, &tags), "admin"),
            (header(1, 22_242, NOW, &tags), "kind"),
            (header(1, 27_235, NOW - MANAGEMENT_SECONDS - 1, &tags), "created_at"),
            (header(1, 27_235, NOW + MANAGEMENT_SECONDS + 1, &tags), "created_at"),
            (header(1, 27_235, NOW, &[["u", "http://127.0.0.1:7778/"], post, payload]), "u tag"),
            (header(1, 27_235, NOW, &[["u", "http://127.0.0.1:7777/else"], post, payload]), "u tag"),
            (header(1, 27_235, NOW, &[post, payload]), "u tag"),
            (header(1, 27_235, NOW, &[url, ["method", "GET"], payload]), "method tag"),
            (header(1, 27_235, NOW, &[url, post, other]), "payload tag"),
            (header(1, 27_235, NOW, &[url, post]), "payload tag"),
            ("Nostr e30=".parse().unwrap(), "Authorization"),
            ("Basic dTpw".parse().unwrap(), "Authorization"),
            ("Nostr".parse().unwrap(), "Authorization"),
        ] {
            let answer = asked(&[], Some(&wrong)).expect_err(why);
            assert!(answer.contains(why), "{answer}");
        }
        assert!(asked(&[], None).is_err());
        let signed = header(1, 27_235, NOW, &tags);
        let json = BASE64_STANDARD.decode(&signed.to_str().unwrap()[6..]).unwrap();
        let mut forged = Event::from_json(str::from_utf8(&json).unwrap()).unwrap();
        forged.sig.0[7] ^= 1;
        let forged = format!("Nostr {}", BASE64_STANDARD.encode(forged.to_json())).parse().unwrap();
        assert!(asked(&[], Some(&forged)).is_err(), "its signature is not the admin's");
    }

    #[test]
    fn the_url_of_the_request_or_of_the_relay_is_named() {
        let digest = hex::string(&Sha256::digest(BODY));
        let is_ours = |own: &[&str], url: &str| {
            let header = header(1, 27_235, NOW, &[["u", url], ["method", "post"], ["payload", &digest]]);
            asked(own, Some(&header)).is_ok()
        };
        let own = ["wss://birds.example/inbox"];
        for url in ["https://birds.example", "wss://birds.example/", "HTTPS://Birds.Example:443/inbox"] {
            assert!(is_ours(&own, url), "{url}");
        }
        for url in ["https://birds.example/else", "https://elsewhere", "http://127.0.0.1:7777", "httpbirds.example"] {
            assert!(!is_ours(&own, url), "{url}");
        }
        let elsewhere = header(1, 27_235, NOW, &[["u", "https://elsewhere"], ["method", "POST"], ["payload", &digest]]);
        let refused = "the u tag is not the URL of this request to this relay";
        let named = format!("{refused}; its relay-url is wss://birds.example/inbox");
        assert_eq!(asked(&own, Some(&elsewhere)), Err(named));
        assert!(asked(&[], Some(&elsewhere)).unwrap_err().contains("its operator has not set relay-url"));
        assert!(is_ours(&[], "ws://localhost:7777") && !is_ours(&[], "https://birds.example"));
        // NIP-98: exactly the URL of the request, with its query.
        let with_query = |url: &str, query: &str| {
            let header = header(1, 27_235, NOW, &[["u", url], ["method", "POST"], ["payload", &digest]]);
            asked_with(&own, query, Some(&header)).is_ok()
        };
        assert!(
            with_query("https://birds.example/?a=1&b", "a=1&b") && with_query("https://birds.example/inbox?a", "a")
        );
        for (url, query) in [
            ("https://birds.example", "a=1"),
            ("https://birds.example/?a=1", ""),
            ("https://birds.example/?a=1", "a=2"),
        ] {
            assert!(!with_query(url, query), "{url} for {query:?}");
        }
    }
}
