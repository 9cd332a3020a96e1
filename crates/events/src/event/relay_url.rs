//! URLs of relays in a canonical form: events name relays as their authors typed them, and equal relays must compare
//! equal.

use std::fmt;
use std::net::SocketAddr;

/// Authority and path of a `ws` or `wss` URL: in lower case up to the path, without the scheme's default port and
/// without trailing slashes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RelayUrl {
    scheme: Scheme,
    authority: String,
    path: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Scheme {
    Ws,
    Wss,
}

// === impl RelayUrl ===

impl RelayUrl {
    /// Parses a URL. Query and fragment do not name a relay of their own, so they stay part of the path.
    pub fn parse(url: &str) -> Option<Self> {
        let (scheme, rest) = url.trim().split_once("://")?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "ws" => Scheme::Ws,
            "wss" => Scheme::Wss,
            _ => return None,
        };
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let authority = authority.to_ascii_lowercase();
        let authority = authority.strip_suffix(scheme.port()).unwrap_or(&authority);
        if authority.is_empty() {
            return None;
        }
        Some(Self { scheme, authority: authority.to_owned(), path: path.trim_end_matches('/').to_owned() })
    }

    /// Returns the host, and the port unless it is the scheme's default.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// Returns true if one of these URLs has the same host and port.
    pub fn is_at_one_of(&self, others: &[Self]) -> bool {
        others.iter().any(|other| other.authority == self.authority)
    }

    /// Returns the path without slashes at its end, so an empty one for the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the address and port of a URL that names no host but an IP address, or `localhost`: these are the same
    /// for everybody, or for everybody on one machine, so nobody else can claim them.
    pub fn literal(&self) -> Option<SocketAddr> {
        let port = self.scheme.port();
        let with_port = |text: &str| text.parse::<SocketAddr>().ok();
        let authority = match self.authority.strip_prefix("localhost") {
            Some(rest) if rest.is_empty() || rest.starts_with(':') => format!("127.0.0.1{rest}"),
            _ => self.authority.clone(),
        };
        with_port(&authority).or_else(|| with_port(&format!("{authority}{port}")))
    }
}

/// Formats the canonical form.
impl fmt::Display for RelayUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Ws => "ws",
            Scheme::Wss => "wss",
        };
        write!(out, "{scheme}://{}{}", self.authority, self.path)
    }
}

// === impl Scheme ===

impl Scheme {
    /// Returns the default port, with its colon.
    fn port(self) -> &'static str {
        match self {
            Self::Ws => ":80",
            Self::Wss => ":443",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_of_addresses_are_literal_and_those_of_names_are_not() {
        let literal = |url: &str| RelayUrl::parse(url)?.literal().map(|address| address.to_string());
        for (url, expected) in [
            ("ws://127.0.0.1:7777", "127.0.0.1:7777"),
            ("ws://localhost:7777/", "127.0.0.1:7777"),
            ("wss://LOCALHOST", "127.0.0.1:443"),
            ("ws://192.0.2.1", "192.0.2.1:80"),
            ("wss://[2001:db8::1]/path", "[2001:db8::1]:443"),
            ("ws://[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(literal(url).as_deref(), Some(expected), "{url}");
        }
        for url in ["wss://birds.example", "ws://localhost.example:7", "ws://127.0.0.1.example", "ws://localhosts"] {
            assert_eq!(literal(url), None, "{url}");
        }
    }

    #[test]
    fn urls_of_one_relay_are_equal() {
        let plain = RelayUrl::parse("wss://relay.example.com").expect("a URL");
        for same in ["wss://relay.example.com/", "WSS://Relay.Example.COM", " wss://relay.example.com:443/ "] {
            assert_eq!(RelayUrl::parse(same).as_ref(), Some(&plain), "{same}");
        }
        for other in [
            "ws://relay.example.com",
            "wss://relay.example.com:80",
            "wss://relay.example.com/path",
            "wss://example.com",
            "wss://relay.example.com.evil.org",
        ] {
            assert_ne!(RelayUrl::parse(other).expect(other), plain, "{other}");
        }
        assert_eq!(RelayUrl::parse("wss://h/Path/"), RelayUrl::parse("wss://H/Path"));
        assert_ne!(RelayUrl::parse("wss://h/path"), RelayUrl::parse("wss://h/Path"));
        assert_eq!(plain.authority(), "relay.example.com");
        for canonical in ["wss://relay.example.com", "ws://[::1]:7777/path"] {
            assert_eq!(RelayUrl::parse(&format!("{canonical}/")).expect("a URL").to_string(), canonical);
        }
        assert_eq!(RelayUrl::parse("ws://[::1]:7777").expect("a URL").authority(), "[::1]:7777");
    }

    #[test]
    fn what_is_no_url_of_a_relay_is_refused() {
        for bad in ["", "relay.example.com", "https://relay.example.com", "wss://", "wss:///path", "wss://:443"] {
            assert_eq!(RelayUrl::parse(bad), None, "{bad:?}");
        }
    }
}
