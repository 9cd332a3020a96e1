//! Web pages that may open a WebSocket over loopback.
//!
//! A browser lets a page of any site open a WebSocket to any address that it reaches, those of its own machine
//! included. It names the page's site in `Origin`, and in `Host` the name by which the page reached the server. So a
//! page of another site is known by its origin, and one whose own name was made to resolve to this machine (DNS
//! rebinding) by that name. Programs send no origin. A page cannot add headers, so a request with those of a reverse
//! proxy came by one, which is on loopback for pages of the Internet.
//!
//! Pure. Source: [RFC 6455](https://www.rfc-editor.org/rfc/rfc6455), section 10.2.

use std::net::IpAddr;

use hyper::StatusCode;
use hyper::header::{FORWARDED, HOST, HeaderMap, ORIGIN};

use super::upgrade::{Response, plain_response};

/// Header in which a reverse proxy names its client, beside the standard one.
const FORWARDED_FOR: &str = "x-forwarded-for";
/// End of the names of onion services, which no DNS resolves (RFC 7686).
const ONION: &str = ".onion";

/// The pages that may, beside those of this machine.
#[derive(Debug, Clone, Default)]
pub struct WebPages {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl WebPages {
    /// Returns the pages of these origins, like `https://client.example`, and all that reach the server by one of its
    /// public names `hosts`, which lead to it by a proxy.
    /// An IP address among them is none: every page can name it.
    pub fn new(mut hosts: Vec<String>, origins: Vec<String>) -> Self {
        hosts.retain(|host| !is_address(host));
        Self { hosts, origins }
    }

    /// Checks a request for a WebSocket that came over loopback.
    ///
    /// # Errors
    /// The answer to a page of another site.
    pub fn check(&self, headers: &HeaderMap) -> Result<(), Box<Response>> {
        if headers.contains_key(FORWARDED) || headers.contains_key(FORWARDED_FOR) {
            return Ok(());
        }
        let host = text(headers, HOST.as_str()).map(host_of).unwrap_or_default();
        if has(&self.hosts, host) || host.to_ascii_lowercase().ends_with(ONION) {
            return Ok(());
        }
        let is_welcome = match headers.get(ORIGIN).map(|origin| origin.to_str().unwrap_or("null")) {
            _ if !is_address(host) => false,
            None => true,
            Some(origin) => has(&self.origins, origin) || is_local(origin, host),
        };
        let refusal = "pages of other sites may not use this address; see web-origin in docs/listeners.md\n";
        if is_welcome { Ok(()) } else { Err(plain_response(StatusCode::FORBIDDEN, refusal)) }
    }
}

/// Returns true for the origin of a page of this machine, of the same host, or of a program: an extension of the
/// browser for example, whose scheme no site can have.
fn is_local(origin: &str, host: &str) -> bool {
    match origin.split_once("://") {
        Some(("http" | "https", authority)) => {
            let page = host_of(authority);
            page.eq_ignore_ascii_case(host) || is_loopback(page)
        }
        Some(_) => true,
        // `null`: a page that hides its site.
        None => false,
    }
}

fn is_loopback(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback()) || is_localhost(host)
}

/// Returns true for a host that no DNS resolves: an IP address, or localhost.
pub fn is_address(host: &str) -> bool {
    host.parse::<IpAddr>().is_ok() || is_localhost(host)
}

fn is_localhost(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
}

fn has(list: &[String], name: &str) -> bool {
    list.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the host of an authority, without port and brackets.
pub fn host_of(authority: &str) -> &str {
    if let Some((host, _)) = authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return host;
    }
    authority.rsplit_once(':').map_or(authority, |(host, _)| host)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    fn is_welcome(pairs: &[(&str, &str)]) -> bool {
        let pair = |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        let hosts = ["relay.example", "127.0.0.1", "localhost"].map(str::to_owned);
        let pages = WebPages::new(hosts.into(), vec!["https://client.example".into()]);
        pages.check(&pairs.iter().map(pair).collect()).is_ok()
    }

    #[test]
    fn programs_and_pages_of_this_machine_are_welcome() {
        for host in ["127.0.0.1:7777", "[::1]:7777", "localhost", "LOCALHOST:7777", "192.168.1.5:7777"] {
            assert!(is_welcome(&[("host", host)]), "{host}");
            for origin in [
                "http://localhost:8080",
                "http://127.0.0.1",
                "http://[::1]:3000",
                "https://client.example",
                "chrome-extension://abcdefgh",
                "file://",
            ] {
                assert!(is_welcome(&[("host", host), ("origin", origin)]), "{host}, {origin}");
            }
        }
        assert!(is_welcome(&[("host", "192.168.1.5:7777"), ("origin", "http://192.168.1.5:8080")]));
    }

    #[test]
    fn pages_of_other_sites_are_not() {
        for origin in [
            "https://evil.example",
            "http://evil.example:7777",
            "http://localhost.evil.example",
            "http://127.0.0.1.evil.example",
            "https://client.example.evil.example",
            "http://client.example",
            "null",
            "",
        ] {
            assert!(!is_welcome(&[("host", "127.0.0.1:7777"), ("origin", origin)]), "{origin}");
        }
        // A name that was made to resolve to this machine is the page's own, so its origin says no more.
        let rebound = [("host", "evil.example:7777"), ("origin", "http://evil.example:7777")];
        assert!(!is_welcome(&rebound) && !is_welcome(&rebound[..1]) && !is_welcome(&[]));
    }

    #[test]
    fn a_proxy_and_the_public_names_lead_pages_of_any_site_here() {
        let origin = ("origin", "https://any.example");
        assert!(is_welcome(&[("host", "relay.example"), origin]));
        assert!(is_welcome(&[("host", "abc.onion"), origin]));
        assert!(is_welcome(&[("host", "other.example"), origin, ("x-forwarded-for", "203.0.113.7")]));
        assert!(is_welcome(&[("host", "other.example"), origin, ("forwarded", "for=203.0.113.7")]));
    }
}
