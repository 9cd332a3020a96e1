//! The URL by which clients know the media store, and the names of it that an authorization may carry.

use std::net::SocketAddr;

/// The public address of the media store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Scheme and authority, without a path: every endpoint is at the root.
    url: String,
    /// Host names in lower case.
    hosts: Vec<String>,
}

/// Encryption of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Address {
    /// Parses a URL like `https://media.example.org`; `None` for one with a path, a query or a user.
    pub fn parse(url: &str) -> Option<Self> {
        let url = url.trim().trim_end_matches('/').to_ascii_lowercase();
        let authority = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"))?;
        let host = host_of(authority)?;
        Some(Self { hosts: vec![host.to_owned()], url })
    }

    /// Returns the address of a connection to a server without a public one.
    pub(crate) fn local(scheme: Scheme, local: SocketAddr) -> Self {
        let name = match scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        let mut hosts = vec![local.ip().to_canonical().to_string()];
        if local.ip().to_canonical().is_loopback() {
            hosts.push("localhost".to_owned());
        }
        Self { url: format!("{name}://{local}"), hosts }
    }

    /// Returns its host name, or its IP address.
    pub fn host(&self) -> &str {
        self.hosts.first().map_or("", String::as_str)
    }

    /// Returns the URL of a file.
    pub(crate) fn url_of(&self, file: &str) -> String {
        format!("{}/{file}", self.url)
    }

    /// Returns true if a tag `server` names this server: by its domain, or as older clients do by its URL.
    pub(crate) fn is_named(&self, server: &str) -> bool {
        let server = server.trim().trim_end_matches('/').to_ascii_lowercase();
        let authority = server.strip_prefix("https://").or_else(|| server.strip_prefix("http://")).unwrap_or(&server);
        host_of(authority).is_some_and(|host| self.hosts.iter().any(|own| own == host))
    }
}

/// Returns the host of an authority, without its port; `None` for text that is none.
fn host_of(authority: &str) -> Option<&str> {
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) && !port.is_empty() => host,
        _ => authority,
    };
    let inside = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    match inside {
        Some(ip) => {
            (!ip.is_empty() && ip.bytes().all(|byte| byte.is_ascii_hexdigit() || b":.".contains(&byte))).then_some(ip)
        }
        None => (!host.is_empty() && host.bytes().all(is_name)).then_some(host),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_public_address_is_a_root() {
        let address = Address::parse("https://Media.Example.org/").unwrap();
        assert_eq!(address.url_of("ab.png"), "https://media.example.org/ab.png");
        for wrong in
            ["media.example.org", "ftp://media.example.org", "https://", "https://a/b", "https://u@a", "https://a?b"]
        {
            assert_eq!(Address::parse(wrong), None, "{wrong}");
        }
        assert_eq!(Address::parse("http://127.0.0.1:3070").unwrap().url_of("x"), "http://127.0.0.1:3070/x");
    }

    #[test]
    fn a_server_tag_names_the_host_alone() {
        let address = Address::parse("https://media.example.org").unwrap();
        for own in ["media.example.org", "MEDIA.example.org", "https://media.example.org/", "media.example.org:443"] {
            assert!(address.is_named(own), "{own}");
        }
        for other in
            ["", "example.org", "media.example.org.evil.example", "https://evil.example/media.example.org", "org"]
        {
            assert!(!address.is_named(other), "{other}");
        }
        let local = Address::local(Scheme::Http, "127.0.0.1:3070".parse().unwrap());
        assert!(
            local.is_named("localhost") && local.is_named("127.0.0.1:3070") && !local.is_named("media.example.org")
        );
        let local = Address::local(Scheme::Https, "[::1]:3070".parse().unwrap());
        assert!(local.is_named("[::1]") && local.is_named("localhost"));
        assert_eq!(local.url_of("x"), "https://[::1]:3070/x");
    }
}
