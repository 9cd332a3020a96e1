//! Addresses as operators write them: `http://`, `https://`, `ws://`, `wss://`, `smtp://` and `smtps://`.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use zeroize::Zeroize as _;

/// Longest address in bytes.
pub const URL_BYTES_MAX: usize = 2048;

/// A protocol of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// HTTP.
    Http,
    /// HTTP over TLS.
    Https,
    /// WebSocket.
    Ws,
    /// WebSocket over TLS.
    Wss,
    /// SMTP, which may turn to TLS.
    Smtp,
    /// SMTP over TLS.
    Smtps,
}

/// Encryption of a connection from its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encryption {
    /// None.
    None,
    /// TLS.
    Tls,
}

/// The author of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedBy {
    /// The operator, in the watch file.
    Operator,
    /// Somebody else, who may not lead the server into its own network.
    Recipient,
}

/// An address that was parsed. Path and query may hold a secret: neither `Debug` nor `Display` prints them.
#[derive(Clone, PartialEq, Eq)]
pub struct Target {
    /// The protocol.
    pub scheme: Scheme,
    /// The host.
    pub host: Host,
    /// The port, 1 to 65535.
    pub port: u16,
    pub(crate) named_by: NamedBy,
    /// The SOCKS5 proxy on the way to it.
    pub(crate) proxy: Option<SocketAddr>,
    /// Path and query, beginning with `/`.
    path: String,
}

/// A host, by name or address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name for DNS.
    Name(String),
    /// An IP address.
    Address(IpAddr),
}

impl Scheme {
    const ALL: [(&str, Self); 6] = [
        ("http", Self::Http),
        ("https", Self::Https),
        ("ws", Self::Ws),
        ("wss", Self::Wss),
        ("smtp", Self::Smtp),
        ("smtps", Self::Smtps),
    ];

    fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| name.eq_ignore_ascii_case(known)).map(|(_, scheme)| *scheme)
    }

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, scheme)| *scheme == self).expect("all are listed").0
    }

    fn port(self) -> u16 {
        match self {
            Self::Http | Self::Ws => 80,
            Self::Https | Self::Wss => 443,
            Self::Smtp => 587,
            Self::Smtps => 465,
        }
    }

    /// Returns the encryption of a connection of this protocol.
    pub fn encryption(self) -> Encryption {
        match self {
            Self::Http | Self::Ws | Self::Smtp => Encryption::None,
            Self::Https | Self::Wss | Self::Smtps => Encryption::Tls,
        }
    }
}

impl Target {
    /// Parses an address of one of these schemes.
    ///
    /// # Errors
    /// The reason, without the address: it may hold a secret.
    pub fn parse(url: &str, schemes: &[Scheme]) -> Result<Self, String> {
        let wrong = || {
            let names: Vec<_> = schemes.iter().map(|scheme| format!("{}://", scheme.name())).collect();
            format!("the address must begin with {}", names.join(" or "))
        };
        if url.len() > URL_BYTES_MAX {
            return Err(format!("the address is longer than {URL_BYTES_MAX} bytes"));
        }
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let scheme = Scheme::parse(scheme).filter(|scheme| schemes.contains(scheme)).ok_or_else(wrong)?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err("the address holds a user or a password; set them by their own keys".into());
        }
        let path = path.split('#').next().unwrap_or_default();
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("the path of the address has characters that must be percent-encoded".into());
        }
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, port) = split_port(authority).ok_or("the port of the address must be 1 to 65535")?;
        let host = Host::parse(host).ok_or("the address has no valid host")?;
        Ok(Self { scheme, host, port: port.unwrap_or(scheme.port()), named_by: NamedBy::Operator, proxy: None, path })
    }

    /// Returns it as an address that somebody else has named, who may not lead the server into its own network.
    #[must_use]
    pub fn named_by_recipient(mut self) -> Self {
        self.named_by = NamedBy::Recipient;
        self
    }

    /// Returns it as an address behind a SOCKS5 proxy such as Tor's, which also looks its name up.
    #[must_use]
    pub fn through(mut self, proxy: Option<SocketAddr>) -> Self {
        self.proxy = proxy;
        self
    }

    /// True behind a proxy.
    pub fn has_proxy(&self) -> bool {
        self.proxy.is_some()
    }

    /// Returns path and query.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Replaces path and query.
    #[must_use]
    pub fn with_path(mut self, path: &str) -> Self {
        self.path.zeroize();
        path.clone_into(&mut self.path);
        self
    }

    /// Returns the value of the header `Host`: the port only where it is not the usual one.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.port() { self.host.to_string() } else { format!("{}:{}", self.host, self.port) }
    }
}

/// Prints scheme, host and port.
impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}", self.scheme.name(), self.authority())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.path.zeroize();
    }
}

impl Host {
    pub(super) fn parse(text: &str) -> Option<Self> {
        if let Some(inner) = text.strip_prefix('[') {
            return inner.strip_suffix(']')?.parse::<Ipv6Addr>().ok().map(|address| Self::Address(address.into()));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return address.is_ipv4().then_some(Self::Address(address));
        }
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let is_valid = !text.is_empty() && text.len() <= 253 && text.bytes().all(is_name);
        is_valid.then(|| Self::Name(text.to_ascii_lowercase()))
    }

    /// True for a name that only Tor finds. DNS must not be asked for it, since that would tell who is about to be
    /// reached ([RFC 7686](https://www.rfc-editor.org/rfc/rfc7686#section-2)).
    pub(super) fn is_of_tor(&self) -> bool {
        let Self::Name(name) = self else { return false };
        name.trim_end_matches('.').rsplit('.').next() == Some("onion")
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => formatter.write_str(name),
            Self::Address(IpAddr::V4(address)) => write!(formatter, "{address}"),
            Self::Address(IpAddr::V6(address)) => write!(formatter, "[{address}]"),
        }
    }
}

/// Splits a port off; `None` if it is none.
pub(super) fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            port.parse().ok().filter(|port| *port > 0).map(|port| (host, Some(port)))
        }
        _ => Some((authority, None)),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const WEB: &[Scheme] = &[Scheme::Http, Scheme::Https];

    #[test]
    fn addresses_have_their_parts() {
        let target = Target::parse("HTTPS://Ntfy.example.org/topic?a=b#c", WEB).unwrap();
        assert_eq!((target.port, target.path(), target.authority().as_str()), (443, "/topic?a=b", "ntfy.example.org"));
        let target = Target::parse("http://[::1]:8080", WEB).unwrap();
        assert_eq!((target.port, target.path(), target.authority().as_str()), (8080, "/", "[::1]:8080"));
        assert_eq!(Target::parse("http://127.0.0.1?x", WEB).unwrap().path(), "/?x");
    }

    #[test]
    fn other_schemes_users_and_broken_hosts_are_refused() {
        for url in [
            "file:///etc/passwd",
            "gopher://example.org/",
            "unix:/run/x",
            "example.org",
            "http://user:password@example.org/",
            "http://exa mple.org/",
            "http://example.org:0/",
            "http://example.org:65536/",
            "http://example.org:/",
            "http:///path",
            "http://[::1/",
            "http://exämple.org/",
            "http://example.org/a b",
            "http://example.org/\r\nx: y",
        ] {
            let error = Target::parse(url, WEB).unwrap_err();
            assert!(!error.contains("password") || error.contains("by their own keys"), "{error}");
        }
        assert!(Target::parse(&format!("http://a/{}", "a".repeat(URL_BYTES_MAX)), WEB).is_err());
    }

    #[test]
    fn the_path_is_not_printed() {
        let target = Target::parse("https://example.org/hooks/s3cret?token=s3cret", WEB).unwrap();
        assert!(!format!("{target} {target:?}").contains("s3cret"));
    }
}
