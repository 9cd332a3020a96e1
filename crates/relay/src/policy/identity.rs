//! Authentication of a client (NIP-42).
//!
//! A client is asked once, by a challenge of its own connection, and may answer for several authors. Invariant: an
//! author is here only if it signed this connection's challenge for this relay, lately.
//!
//! The proof is neither stored nor sent on.

use std::net::SocketAddr;

use birdhouse_events::{Event, Kind, Pubkey, Rejection, RelayUrl, Timestamp, Vanish};

use crate::limits::{AUTH_SECONDS, AUTHENTICATED_MAX};

/// The challenge of one connection, and the authors that its client has proved to be.
#[derive(Debug)]
pub(crate) struct Identity {
    challenge: String,
    local: Local,
    authenticated: Vec<Pubkey>,
}

/// The relay's names, against which `relay` tags are checked.
#[derive(Debug)]
pub(crate) enum Local {
    /// The operator's URLs.
    Named(Vec<RelayUrl>),
    /// Our end of the connection. What the client's `Host` says is not believed: a relay in between would be told
    /// apart from us by nothing else.
    At(SocketAddr),
}

/// End of a refusal that another setting would avoid. It does not say which address the connection has here: behind a
/// proxy, that is nobody's business.
const NEEDS_URL: &str = "; its operator has not set relay-url, so it knows only the IP address that it is reached at";

impl Identity {
    /// Nobody yet. Without URLs of its own, the relay is only at the address of its end of the connection.
    pub(crate) fn new(random: u128, own: &[RelayUrl], local: SocketAddr) -> Self {
        let challenge = format!("{random:032x}");
        Self { challenge, local: Local::of(own, local), authenticated: Vec::new() }
    }

    /// The text that the client must sign.
    pub(crate) fn challenge(&self) -> &str {
        &self.challenge
    }

    /// Whose client it is.
    pub(crate) fn pubkeys(&self) -> &[Pubkey] {
        &self.authenticated
    }

    /// Takes the answer to the challenge: from now on the client is this author too.
    pub(crate) fn prove(&mut self, event: Event, now: Timestamp) -> Result<(), Rejection> {
        self.check(&event, now).map_err(|why| Rejection::Invalid(why.into()))?;
        let author = event.verify()?.pubkey;
        if self.authenticated.contains(&author) {
            return Ok(());
        }
        if self.authenticated.len() >= AUTHENTICATED_MAX {
            return Err(Rejection::Restricted("too many authors on one connection".into()));
        }
        self.authenticated.push(author);
        Ok(())
    }

    /// Checks that a request to vanish is for this relay (NIP-62). Other events pass.
    pub(crate) fn check_vanish(&self, event: &Event) -> Result<(), Rejection> {
        if event.kind != Kind::VANISH || Vanish::names(event, |url| self.local.is_at(url)).is_some() {
            return Ok(());
        }
        Err(Rejection::Invalid(
            self.local.explained("the relay tags of this request to vanish name other relays").into(),
        ))
    }

    fn check(&self, event: &Event, now: Timestamp) -> Result<(), String> {
        let is_ours = |url: &str| RelayUrl::parse(url).is_some_and(|url| self.local.is_at(&url));
        if event.kind != Kind::CLIENT_AUTH {
            return Err("AUTH carries an event of kind 22242".to_owned());
        }
        if event.values("challenge").next() != Some(&*self.challenge) {
            return Err("the challenge tag has not the challenge of this connection".to_owned());
        }
        if !event.values("relay").next().is_some_and(is_ours) {
            return Err(self.local.explained("the relay tag does not name this relay"));
        }
        if event.created_at.0.abs_diff(now.0) > AUTH_SECONDS {
            return Err(format!("created_at is more than {AUTH_SECONDS} s from the relay's clock"));
        }
        Ok(())
    }
}

// === impl Local ===

impl Local {
    /// Returns the operator's URLs, or our end of the connection if there is none.
    pub(crate) fn of(own: &[RelayUrl], local: SocketAddr) -> Self {
        match own {
            [] => Self::At(SocketAddr::new(local.ip().to_canonical(), local.port())),
            _ => Self::Named(own.to_vec()),
        }
    }

    /// Adds the URL that is expected to a refusal, or the setting that is missing.
    pub(crate) fn explained(&self, why: &str) -> String {
        match self {
            Self::Named(own) => own.first().map_or(why.to_owned(), |own| format!("{why}; its relay-url is {own}")),
            Self::At(_) => format!("{why}{NEEDS_URL}"),
        }
    }

    /// True if a URL has a name of the relay.
    pub(crate) fn is_at(&self, url: &RelayUrl) -> bool {
        match self {
            Self::Named(own) => url.is_at_one_of(own),
            Self::At(local) => url.literal().is_some_and(|literal| {
                let is_loopback = literal.ip().is_loopback() && local.ip().is_loopback();
                literal.port() == local.port() && (is_loopback || literal.ip() == local.ip())
            }),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use birdhouse_events::{Keys, Tag, UnsignedEvent};

    const NOW: u64 = 1_700_000_000;
    const LOCAL: &str = "127.0.0.1:7777";
    const AT: &str = "ws://127.0.0.1:7777";

    fn answer(author: u8, kind: Kind, created_at: u64, tags: &[[&str; 2]]) -> Event {
        let tags = tags.iter().map(|tag| Tag(tag.iter().map(|&element| element.to_owned()).collect())).collect();
        let event = UnsignedEvent { created_at: Timestamp(created_at), kind, tags, content: String::new() };
        event.sign(&Keys::from_secret([author; 32]).unwrap()).event().clone()
    }

    fn right(identity: &Identity, author: u8, relay: &str) -> Event {
        let tags = [["relay", relay], ["challenge", identity.challenge()]];
        answer(author, Kind::CLIENT_AUTH, NOW, &tags)
    }

    #[test]
    fn the_relay_is_where_its_urls_say_or_else_at_the_address_of_the_connection() {
        let own = [RelayUrl::parse("wss://birds.example").unwrap(), RelayUrl::parse("ws://birds.onion:7777").unwrap()];
        let is_at = |own: &[RelayUrl], local: &str, url: &str| {
            let mut identity = Identity::new(7, own, local.parse().unwrap());
            let event = right(&identity, 1, url);
            identity.prove(event, Timestamp(NOW)).is_ok()
        };
        for url in
            ["wss://birds.example/", "ws://birds.example", "WSS://BIRDS.example:443/inbox", "ws://birds.onion:7777"]
        {
            assert!(is_at(&own, LOCAL, url), "{url}");
        }
        for url in ["wss://elsewhere", "wss://birds.example.org", "wss://birds.example:7777", "birds.example", ""] {
            assert!(!is_at(&own, LOCAL, url), "{url}");
        }
        for (local, url) in [
            ("127.0.0.1:7777", "ws://127.0.0.1:7777"),
            ("127.0.0.1:7777", "ws://localhost:7777/"),
            ("[::1]:7777", "ws://localhost:7777/"),
            ("[::ffff:192.0.2.1]:80", "ws://192.0.2.1"),
            ("[2001:db8::1]:443", "wss://[2001:db8::1]"),
        ] {
            assert!(is_at(&[], local, url), "{local} {url}");
        }
        for (local, url) in [
            ("127.0.0.1:7777", "wss://birds.example"),
            ("127.0.0.1:7777", "ws://127.0.0.1:7778"),
            ("127.0.0.1:7777", "ws://192.0.2.1:7777"),
            ("192.0.2.1:80", "ws://localhost"),
            ("192.0.2.1:80", "ws://192.0.2.2"),
        ] {
            assert!(!is_at(&[], local, url), "{local} {url}");
        }
    }

    #[test]
    fn a_request_to_vanish_names_this_relay_or_all_and_a_refusal_names_the_setting() {
        let own = [RelayUrl::parse("wss://birds.example").unwrap()];
        let answer = |own: &[RelayUrl], relay: &str| {
            let request = answer(1, Kind::VANISH, NOW, &[["relay", relay]]);
            let identity = Identity::new(7, own, LOCAL.parse().unwrap());
            identity.check_vanish(&request).map_err(|rejection| rejection.to_string())
        };
        for (own, relay) in [(&own[..], "wss://birds.example/"), (&own, "ALL_RELAYS"), (&[], "ALL_RELAYS"), (&[], AT)] {
            assert_eq!(answer(own, relay), Ok(()), "{relay}");
        }
        let refused = "invalid: the relay tags of this request to vanish name other relays";
        assert_eq!(answer(&own, AT), Err(format!("{refused}; its relay-url is wss://birds.example")));
        assert_eq!(answer(&[], "wss://birds.example"), Err(format!("{refused}{NEEDS_URL}")));
    }

    #[test]
    fn a_refused_proof_is_told_the_url_that_is_expected_and_the_setting() {
        let own = [RelayUrl::parse("wss://birds.example/").unwrap(), RelayUrl::parse("ws://birds.onion").unwrap()];
        let refusal = |own: &[RelayUrl], local: &str| {
            let mut identity = Identity::new(7, own, local.parse().unwrap());
            let event = right(&identity, 1, "wss://elsewhere.example");
            identity.prove(event, Timestamp(NOW)).unwrap_err().to_string()
        };
        let named = refusal(&own, LOCAL);
        assert_eq!(named, "invalid: the relay tag does not name this relay; its relay-url is wss://birds.example");
        let behind_a_proxy = refusal(&[], "10.0.0.7:7777");
        assert!(behind_a_proxy.contains("relay-url") && !behind_a_proxy.contains("10.0.0.7"), "{behind_a_proxy}");
    }

    #[test]
    fn only_a_fresh_signature_of_this_challenge_proves_an_author() {
        let mut identity = Identity::new(7, &[], LOCAL.parse().unwrap());
        let (ours, now) = (["relay", AT], Timestamp(NOW));
        let challenge = identity.challenge().to_owned();
        let signed = ["challenge", challenge.as_str()];
        let mut forged = answer(1, Kind::CLIENT_AUTH, NOW, &[ours, signed]);
        forged.pubkey = Keys::from_secret([2; 32]).unwrap().pubkey();
        for wrong in [
            answer(1, Kind(1), NOW, &[ours, signed]),
            answer(1, Kind::CLIENT_AUTH, NOW - AUTH_SECONDS - 1, &[ours, signed]),
            answer(1, Kind::CLIENT_AUTH, NOW + AUTH_SECONDS + 1, &[ours, signed]),
            answer(1, Kind::CLIENT_AUTH, NOW, &[ours]),
            answer(1, Kind::CLIENT_AUTH, NOW, &[signed]),
            answer(
                1,
                Kind::CLIENT_AUTH,
                NOW,
                &[ours, ["challenge", Identity::new(8, &[], LOCAL.parse().unwrap()).challenge()]],
            ),
            forged,
        ] {
            assert!(matches!(identity.prove(wrong, now), Err(Rejection::Invalid(_))));
        }
        assert_eq!(identity.pubkeys(), []);
        identity.prove(answer(1, Kind::CLIENT_AUTH, NOW - AUTH_SECONDS, &[ours, signed]), now).unwrap();
        assert_eq!(identity.pubkeys(), [Keys::from_secret([1; 32]).unwrap().pubkey()]);
    }

    #[test]
    fn a_connection_has_room_for_so_many_authors() {
        let mut identity = Identity::new(7, &[], LOCAL.parse().unwrap());
        for author in 1..=u8::try_from(AUTHENTICATED_MAX).unwrap() {
            let event = right(&identity, author, AT);
            for _ in 0..2 {
                identity.prove(event.clone(), Timestamp(NOW)).unwrap();
            }
        }
        let one_more = right(&identity, 200, AT);
        assert!(matches!(identity.prove(one_more, Timestamp(NOW)), Err(Rejection::Restricted(_))));
        assert_eq!(identity.pubkeys().len(), AUTHENTICATED_MAX);
    }
}
