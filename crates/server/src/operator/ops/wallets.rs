//! The page of watched wallets: who may see it, and its commands. It shows balances, so it is not for everyone who
//! reaches the dashboard: from beyond this machine, and through a proxy, it needs the key of the watch API.

use std::net::IpAddr;

use birdhouse_net::{host_of, offload};
use birdhouse_watch::NewWatch;
use hyper::HeaderMap;
use hyper::header::{AUTHORIZATION, FORWARDED, HOST};

use super::form::{field, fields};
use crate::config::{Options, Switch, secrets::TokenFile};
use crate::operator::control::Control;
use crate::operator::ctl::{self, Answer};
use crate::operator::watch;

/// Headers by which proxies name the client.
const FORWARDED_FOR: [&str; 2] = ["x-forwarded-for", "x-real-ip"];

/// The rules of who may see and change the watched wallets.
#[derive(Debug, Clone)]
pub(crate) struct Wallets {
    reach: Reach,
    key: TokenFile,
    pub(super) commands: Switch,
}

/// The machines that reach the dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// This one.
    Loopback,
    Network,
}

/// A command of the page.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Order {
    Add(NewWatch),
    Remove { name: String },
    Test { channel: String },
}

impl Wallets {
    /// Returns the rules of a dashboard at an address.
    ///
    /// # Errors
    /// The data folder is unknown.
    pub(super) fn of(options: &Options, addr: IpAddr) -> anyhow::Result<Self> {
        let reach = if addr.is_loopback() { Reach::Loopback } else { Reach::Network };
        let commands = options.ops_control.unwrap_or(Switch::On);
        Ok(Self { reach, key: TokenFile::of(options)?, commands })
    }

    /// Returns true for a request of a browser on this machine, and for one with the key.
    pub(super) fn are_open_to(&self, headers: &HeaderMap) -> bool {
        self.reach == Reach::Loopback && is_local(headers) || self.is_key_in(headers)
    }

    fn is_key_in(&self, headers: &HeaderMap) -> bool {
        let Some(given) = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()) else { return false };
        match offload(|| self.key.token()) {
            Ok(token) => token.is_in(given),
            Err(error) => {
                tracing::warn!(error = %format!("{error:#}"), "failed to read the key of the watched wallets");
                false
            }
        }
    }
}

/// True unless a proxy has sent the request, as far as it says so.
fn is_local(headers: &HeaderMap) -> bool {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).map_or("", host_of);
    let address = host.parse::<IpAddr>();
    let is_own = host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback());
    is_own && !headers.contains_key(FORWARDED) && !FORWARDED_FOR.iter().any(|name| headers.contains_key(*name))
}

impl Order {
    /// Returns the command of a form; `None` if the form is of another page.
    pub(super) fn of(name: &str, body: &str) -> Option<Result<Self, String>> {
        Some(match name.strip_prefix("watch-")? {
            "add" => new_watch(body).map(Self::Add),
            "remove" => needed(body, "name").map(|name| Self::Remove { name }),
            "test" => needed(body, "name").map(|channel| Self::Test { channel }),
            _ => Err("There is no such command.".into()),
        })
    }

    /// Returns the command to type for the same.
    pub(super) fn typed(&self) -> &'static str {
        match self {
            Self::Add(_) => "birdhouse watch add",
            Self::Remove { .. } => "birdhouse watch remove",
            Self::Test { .. } => "birdhouse watch test",
        }
    }

    /// Executes it. A test waits for the other side.
    pub(super) async fn execute(self, control: &Control) -> Answer {
        let watches = control.watches.clone();
        ctl::at_length(move || match &self {
            Self::Add(new) => watch::add(watches.as_ref(), new),
            Self::Remove { name } => watch::remove(watches.as_ref(), name),
            Self::Test { channel } => watch::test(watches.as_ref(), channel),
        })
        .await
    }
}

fn needed(body: &str, name: &str) -> Result<String, String> {
    field(body, name).ok_or(format!("The field {name} is missing."))
}

fn new_watch(body: &str) -> Result<NewWatch, String> {
    let confirmations = needed(body, "confirmations")?;
    let numbers = confirmations.split([',', ' ']).filter(|text| !text.is_empty()).map(str::parse);
    let confirmations = numbers.collect::<Result<_, _>>();
    Ok(NewWatch {
        name: needed(body, "name")?.trim().to_owned(),
        source: needed(body, "source")?,
        channels: fields(body, "channel"),
        confirmations: confirmations.map_err(|_| "The confirmations are numbers, like 0, 1, 6.".to_owned())?,
        is_cold: field(body, "cold").is_some(),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use hyper::Version;

    use super::super::guard::tests::headers;
    use super::super::seen;
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn the_wallets_are_for_this_machine_and_for_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { data_dir: Some(folder.path().into()), ..Options::default() };
        let at = |addr: &str| Wallets::of(&options, addr.parse().unwrap()).unwrap();
        for own in ["127.0.0.1:9400", "[::1]:9400", "localhost", "LOCALHOST:9400", "127.5.5.5"] {
            assert!(at("127.0.0.1").are_open_to(&headers(&[("host", own)])), "{own}");
            assert!(!at("0.0.0.0").are_open_to(&headers(&[("host", own)])), "{own}");
        }
        for other in ["birdhouse.lan", "192.0.2.7:9400", "", "localhost.example"] {
            assert!(!at("127.0.0.1").are_open_to(&headers(&[("host", other)])), "{other}");
        }
        for proxy in ["forwarded", "x-forwarded-for", "x-real-ip"] {
            assert!(!at("::1").are_open_to(&headers(&[("host", "localhost"), (proxy, "192.0.2.9")])), "{proxy}");
        }
        let plain = headers(&[("host", "127.0.0.1:9400")]);
        assert!(at("127.0.0.1").are_open_to(&seen(Version::HTTP_11, &plain)));
        assert!(!at("127.0.0.1").are_open_to(&seen(Version::HTTP_10, &plain)), "as nginx asks");
        assert!(!folder.path().join("watch-api-token").exists(), "nobody has shown a key");
        let wrong = headers(&[("host", "birdhouse.lan"), ("authorization", "Bearer 0123456789abcdef")]);
        assert!(!at("192.0.2.1").are_open_to(&wrong));
        let key = std::fs::read_to_string(folder.path().join("watch-api-token")).unwrap();
        let right = headers(&[("host", "birdhouse.lan"), ("authorization", &format!("Bearer {}", key.trim()))]);
        assert!(at("192.0.2.1").are_open_to(&right));
    }

    #[test]
    fn a_form_makes_a_watch() {
        let body = "name=+Till+&source=51&confirmations=0%2C+6&channel=a&channel=b+c&cold=yes";
        let Some(Ok(Order::Add(new))) = Order::of("watch-add", body) else { panic!("it is one") };
        assert_eq!((new.name.as_str(), new.source.as_str(), &new.confirmations[..]), ("Till", "51", &[0, 6][..]));
        assert!(new.is_cold && new.channels == ["a", "b c"]);
        assert!(Order::of("watch-add", "name=a&source=51&confirmations=x").unwrap().is_err());
        assert!(Order::of("watch-remove", "").unwrap().is_err());
        assert!(Order::of("watch-fly", body).unwrap().is_err());
        assert_eq!(Order::of("stop", body), None);
    }
}
