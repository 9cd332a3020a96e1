//! Protection of the dashboard from other web pages in its operator's browser. Pure.
//!
//! A page of another host can send requests to this one. It cannot read the answers, unless its own name resolves to
//! this address (DNS rebinding), so names that the operator has not set are refused. A command needs the token that
//! only a page of this process carries, and the origin of such a page.

use anyhow::Result;
use birdhouse_net::{host_of, is_address};
use hyper::HeaderMap;
use hyper::header::{HOST, ORIGIN};

use crate::process::random;

/// Bytes of the token.
const TOKEN_BYTES: usize = 16;
/// Header with the relation of the page that causes a request to this server.
/// <https://www.w3.org/TR/fetch-metadata/#sec-fetch-site-header>
const FETCH_SITE: &str = "sec-fetch-site";

/// The rules of one process.
#[derive(Debug)]
pub(super) struct Guard {
    /// Names of hosts beside IP addresses and localhost.
    hosts: Vec<String>,
    token: String,
}

impl Guard {
    /// Creates a guard with a new token.
    ///
    /// # Errors
    /// The system gives no random bytes.
    pub(super) fn new(hosts: Vec<String>) -> Result<Self> {
        Ok(Self { hosts, token: format!("{:032x}", u128::from_be_bytes(random::bytes::<TOKEN_BYTES>()?)) })
    }

    /// Returns the token that forms carry.
    pub(super) fn token(&self) -> &str {
        &self.token
    }

    /// Checks the name under which a browser reaches this server.
    ///
    /// # Errors
    /// The reason, for the operator.
    pub(super) fn check_host(&self, headers: &HeaderMap) -> Result<(), String> {
        let Some(authority) = text(headers, HOST.as_str()) else { return Err("The request names no host.".into()) };
        let host = host_of(authority);
        if is_address(host) || self.hosts.iter().any(|name| name.eq_ignore_ascii_case(host)) {
            return Ok(());
        }
        Err(format!(
            "This server does not know the name {host:?}. Open it by its IP address, or add the name to the setting \
             ops-host."
        ))
    }

    /// Checks that a page of this process has sent a command.
    ///
    /// # Errors
    /// The reason, for the operator.
    pub(super) fn check_command(&self, headers: &HeaderMap, token: Option<&str>) -> Result<(), String> {
        if let Some(origin) = headers.get(ORIGIN) {
            let authority = text(headers, HOST.as_str()).unwrap_or_default();
            let origin = origin.to_str().unwrap_or_default();
            let host = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
            if !host.is_some_and(|host| host.eq_ignore_ascii_case(authority)) {
                return Err("Another web page has sent this command.".into());
            }
        }
        if text(headers, FETCH_SITE).is_some_and(|site| site != "same-origin") {
            return Err("Another web page has sent this command.".into());
        }
        if !token.is_some_and(|token| equal(token.as_bytes(), self.token.as_bytes())) {
            return Err("The page of this form is of an earlier start of the server. Open it again.".into());
        }
        Ok(())
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Compares in a time that does not depend on the place of a difference.
fn equal(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
pub(super) mod tests {
    use hyper::header::HeaderName;

    use super::*;

    pub(in crate::operator::ops) fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| (name.parse::<HeaderName>().unwrap(), value.parse().unwrap());
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_addresses_localhost_and_set_names_are_hosts() {
        let guard = Guard::new(vec!["Birdhouse.lan".into()]).unwrap();
        let check = |host: &str| guard.check_host(&headers(&[("host", host)]));
        for own in [
            "127.0.0.1",
            "192.168.1.5:9400",
            "[::1]:9400",
            "[fe80::1]",
            "localhost:9400",
            "LOCALHOST",
            "birdhouse.LAN:80",
        ] {
            assert_eq!(check(own), Ok(()), "{own}");
        }
        for other in
            ["evil.example", "evil.example:9400", "birdhouse.lan.evil.example", "127.0.0.1.evil.example", "", ":9400"]
        {
            assert!(check(other).unwrap_err().contains("ops-host"), "{other}");
        }
        assert!(guard.check_host(&HeaderMap::new()).is_err());
    }

    #[test]
    fn a_command_needs_the_token_and_its_own_origin() {
        let guard = Guard::new(Vec::new()).unwrap();
        let token = Some(guard.token());
        let host = ("host", "127.0.0.1:9400");
        let own = headers(&[host, ("origin", "http://127.0.0.1:9400"), ("sec-fetch-site", "same-origin")]);
        assert_eq!(guard.check_command(&own, token), Ok(()));
        // A program sends no origin.
        assert_eq!(guard.check_command(&headers(&[host]), token), Ok(()));
        for wrong in [None, Some(""), Some("00000000000000000000000000000000")] {
            assert!(guard.check_command(&own, wrong).unwrap_err().contains("Open it again"));
        }
        for origin in ["null", "http://evil.example", "http://127.0.0.1:9401", "http://127.0.0.1", "", "127.0.0.1:9400"]
        {
            let other = headers(&[host, ("origin", origin)]);
            assert!(guard.check_command(&other, token).unwrap_err().contains("Another web page"), "{origin}");
        }
        for site in ["cross-site", "same-site", "none"] {
            assert!(guard.check_command(&headers(&[host, ("sec-fetch-site", site)]), token).is_err(), "{site}");
        }
        assert_ne!(guard.token(), Guard::new(Vec::new()).unwrap().token());
    }
}
