//! Authentication of a client (NIP-42).
//!
//! A client is asked once, by a challenge of its own connection, and may answer for several authors. Invariant: an
//! author is here only if it signed this connection's challenge for this relay, lately.

use birdhouse_events::{Event, Kind, Pubkey, Rejection, RelayUrl, Timestamp};

use crate::limits::{AUTH_SECONDS, AUTHENTICATED_MAX};

/// The challenge of one connection, and the authors that its client has proved to be.
#[derive(Debug)]
pub(crate) struct Identity {
    challenge: String,
    /// Names by which a client may know the relay: host, and port where it is not the usual one.
    names: Vec<String>,
    authenticated: Vec<Pubkey>,
}

impl Identity {
    /// Nobody yet. Without URLs of its own the relay is where the client's request said: then a client that was led
    /// astray by a relay in between cannot be told from others.
    pub(crate) fn new(random: u128, own: &[RelayUrl], host: &str) -> Self {
        let names = |urls: &[RelayUrl]| urls.iter().map(|url| url.authority().to_owned()).collect();
        let asked = || ["ws", "wss"].iter().filter_map(|scheme| RelayUrl::parse(&format!("{scheme}://{host}")));
        let names = if own.is_empty() { names(&asked().collect::<Vec<_>>()) } else { names(own) };
        Self { challenge: format!("{random:032x}"), names, authenticated: Vec::new() }
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

    fn check(&self, event: &Event, now: Timestamp) -> Result<(), &'static str> {
        let is_ours = |url: &str| RelayUrl::parse(url).is_some_and(|url| self.is_at(&url));
        if event.kind != Kind::CLIENT_AUTH {
            return Err("AUTH carries an event of kind 22242");
        }
        if event.values("challenge").next() != Some(&*self.challenge) {
            return Err("this is not the challenge of this connection");
        }
        if !event.values("relay").next().is_some_and(is_ours) {
            return Err("this is for another relay");
        }
        if event.created_at.0.abs_diff(now.0) > AUTH_SECONDS {
            return Err("created_at is not now");
        }
        Ok(())
    }

    fn is_at(&self, url: &RelayUrl) -> bool {
        self.names.iter().any(|name| name == url.authority())
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use birdhouse_events::{Keys, Tag, UnsignedEvent};

    const NOW: u64 = 1_700_000_000;

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
    fn the_relay_is_where_its_urls_say_or_else_where_it_was_asked_for() {
        let own = [RelayUrl::parse("wss://birds.example").unwrap(), RelayUrl::parse("ws://birds.onion:7777").unwrap()];
        let is_at = |own: &[RelayUrl], host: &str, url: &str| {
            let mut identity = Identity::new(7, own, host);
            let event = right(&identity, 1, url);
            identity.prove(event, Timestamp(NOW)).is_ok()
        };
        for url in
            ["wss://birds.example/", "ws://birds.example", "WSS://BIRDS.example:443/inbox", "ws://birds.onion:7777"]
        {
            assert!(is_at(&own, "elsewhere", url), "{url}");
        }
        for url in ["wss://elsewhere", "wss://birds.example.org", "wss://birds.example:7777", "birds.example", ""] {
            assert!(!is_at(&own, "elsewhere", url), "{url}");
        }
        for (host, url) in [("h", "wss://h"), ("H:443", "wss://h/"), ("h:80", "ws://h"), ("[::1]:7", "ws://[::1]:7")] {
            assert!(is_at(&[], host, url), "{host} {url}");
        }
        assert!(!is_at(&[], "h", "ws://other"));
        assert!(!is_at(&[], "", "ws://other"));
    }

    #[test]
    fn only_a_fresh_signature_of_this_challenge_proves_an_author() {
        let mut identity = Identity::new(7, &[], "h");
        let (ours, now) = (["relay", "ws://h"], Timestamp(NOW));
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
            answer(1, Kind::CLIENT_AUTH, NOW, &[ours, ["challenge", Identity::new(8, &[], "h").challenge()]]),
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
        let mut identity = Identity::new(7, &[], "h");
        for author in 1..=u8::try_from(AUTHENTICATED_MAX).unwrap() {
            let event = right(&identity, author, "ws://h");
            for _ in 0..2 {
                identity.prove(event.clone(), Timestamp(NOW)).unwrap();
            }
        }
        let one_more = right(&identity, 200, "ws://h");
        assert!(matches!(identity.prove(one_more, Timestamp(NOW)), Err(Rejection::Restricted(_))));
        assert_eq!(identity.pubkeys().len(), AUTHENTICATED_MAX);
    }
}
