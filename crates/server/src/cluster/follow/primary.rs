//! A client of the listener for replicas.

use std::time::Duration;

use birdhouse_relay::FeedOffset;
use birdhouse_store::RunFile;
use ureq::Agent;
use ureq::http::StatusCode;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::failure::Failure;
use crate::cluster::replicas::wire::{FORMAT, ListedFile, Listing, PIECE_BYTES_MAX, VERSION};

/// Time limits of a replica. The primary waits ten seconds for a change.
const OF_REPLICA: Timeouts = Timeouts { connect: Duration::from_secs(10), answer: Duration::from_mins(2) };
/// Bytes of a listing, and of a change: the primary keeps no larger one.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Bytes of the reason in an error.
const REASON_BYTES: usize = 200;

/// The process that is followed.
#[derive(Debug)]
pub(crate) struct Primary {
    agent: Agent,
    url: String,
    authorization: Option<String>,
}

/// Time limits of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeouts {
    pub(crate) connect: Duration,
    /// From the request to the end of the answer.
    pub(crate) answer: Duration,
}

/// The number of a change in one run of the primary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) run: u64,
    pub(super) number: u64,
}

/// The answer to a request for a change.
pub(super) enum Next {
    Change(Vec<u8>),
    NotYet,
    Gone,
}

struct Reply {
    status: StatusCode,
    body: Vec<u8>,
}

// === impl Primary ===

impl Primary {
    /// Returns a client of `url`. It sends nothing yet.
    ///
    /// # Errors
    /// The URL is none of HTTP.
    pub(super) fn new(url: &str, secret: Option<&str>) -> Result<Self, Failure> {
        Self::with_timeouts("follow", url, secret, OF_REPLICA)
    }

    /// Returns a client of the URL in a setting, with these time limits.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub(crate) fn with_timeouts(
        setting: &str,
        url: &str,
        secret: Option<&str>,
        timeouts: Timeouts,
    ) -> Result<Self, Failure> {
        let url = url.trim_end_matches('/').to_owned();
        if !url.starts_with("https://") && !url.starts_with("http://") {
            return Err(Failure::Permanent(format!(
                "invalid {setting} {url:?}: use the address of the other's replicas-tls-addr, like https://primary:3002"
            )));
        }
        let config = Agent::config_builder()
            .proxy(None)
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(timeouts.connect))
            .timeout_global(Some(timeouts.answer))
            .tls_config(trusted())
            .build();
        let authorization = secret.map(|secret| format!("Bearer {secret}"));
        Ok(Self { agent: Agent::new_with_config(config), url, authorization })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Returns the place of the first change after a manifest; `None` if the index has to be copied anew.
    pub(super) fn place(&self, manifest: &[u8]) -> Result<Option<Place>, Failure> {
        let Reply { status, body } = self.post("/v1/place", manifest)?;
        match status {
            StatusCode::OK => parse_place(&body).map(Some).ok_or_else(|| self.unexpected(status, &body)),
            StatusCode::NOT_FOUND => Ok(None),
            _ => Err(self.unexpected(status, &body)),
        }
    }

    /// Returns the change of a place; waits some seconds for it.
    pub(super) fn change(&self, place: Place) -> Result<Next, Failure> {
        let Reply { status, body } = self.get(&format!("/v1/changes/{}/{}", place.run, place.number))?;
        match status {
            StatusCode::OK => Ok(Next::Change(body)),
            StatusCode::NO_CONTENT => Ok(Next::NotYet),
            StatusCode::GONE => Ok(Next::Gone),
            _ => Err(self.unexpected(status, &body)),
        }
    }

    /// Returns bytes of a file of a change, at most [`PIECE_BYTES_MAX`].
    pub(super) fn piece_of_run(&self, run: u64, file: RunFile, from: u64) -> Result<Vec<u8>, Failure> {
        let bytes = (file.bytes - from).min(PIECE_BYTES_MAX);
        self.piece(&format!("/v1/runs/{run}/{}/{from}/{bytes}", file.number), bytes)
    }

    /// Returns the files of a copy; `None` while it is being made.
    pub(super) fn copy(&self) -> Result<Option<Listing>, Failure> {
        let Reply { status, body } = self.post("/v1/copy", &[])?;
        match status {
            StatusCode::OK => {
                let listing: Listing = serde_json::from_slice(&body).map_err(|_| self.unexpected(status, &body))?;
                match listing.files.iter().find(|file| !file.is_inside()) {
                    None => Ok(Some(listing)),
                    Some(file) => Err(Failure::Permanent(format!(
                        "refused the copy of {}: it has the path {:?}, outside of the index",
                        self.url, file.path
                    ))),
                }
            }
            StatusCode::ACCEPTED => Ok(None),
            _ => Err(self.unexpected(status, &body)),
        }
    }

    /// Returns bytes of a file of a copy, at most [`PIECE_BYTES_MAX`].
    pub(super) fn piece_of_copy(&self, id: u64, file: &ListedFile, from: u64) -> Result<Vec<u8>, Failure> {
        let bytes = (file.bytes - from).min(PIECE_BYTES_MAX);
        self.piece(&format!("/v1/copy/{id}/{from}/{bytes}/{}", file.path), bytes)
    }

    /// Passes events of a relay on, and returns their outcomes.
    pub(crate) fn store_events(&self, events: &[u8]) -> Result<Vec<u8>, Failure> {
        let Reply { status, body } = self.post("/v1/events", events)?;
        if status == StatusCode::OK { Ok(body) } else { Err(self.unexpected(status, &body)) }
    }

    /// Returns what a relay's front ends must learn after an offset; `None` if there is nothing so far.
    pub(crate) fn feed(&self, FeedOffset { run, end, ephemeral }: FeedOffset) -> Result<Option<Vec<u8>>, Failure> {
        let Reply { status, body } = self.get(&format!("/v1/feed/{run}/{end}/{ephemeral}"))?;
        match status {
            StatusCode::OK => Ok(Some(body)),
            StatusCode::NO_CONTENT => Ok(None),
            _ => Err(self.unexpected(status, &body)),
        }
    }

    fn piece(&self, path: &str, bytes: u64) -> Result<Vec<u8>, Failure> {
        let Reply { status, body } = self.get(path)?;
        if status == StatusCode::OK && body.len() as u64 == bytes {
            Ok(body)
        } else {
            Err(self.unexpected(status, &body))
        }
    }

    fn get(&self, path: &str) -> Result<Reply, Failure> {
        let mut request = self.agent.get(format!("{}{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        self.read(request.call())
    }

    fn post(&self, path: &str, body: &[u8]) -> Result<Reply, Failure> {
        let mut request = self.agent.post(format!("{}{path}", self.url));
        if let Some(authorization) = &self.authorization {
            request = request.header("Authorization", authorization);
        }
        self.read(request.send(body))
    }

    fn read(&self, answer: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Result<Reply, Failure> {
        let failed = |error: ureq::Error| {
            Failure::Transient(format!(
                "failed to ask {}: {error}; check that the other process runs with replicas-addr or replicas-tls-addr",
                self.url
            ))
        };
        let mut answer = answer.map_err(failed)?;
        let format = answer.headers().get(FORMAT).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let status = answer.status();
        match format.as_deref() {
            Some(VERSION) if status == StatusCode::UNAUTHORIZED => {
                return Err(Failure::Permanent(format!(
                    "{} refuses this process; give both the same replica-secret-file",
                    self.url
                )));
            }
            Some(VERSION) => {}
            Some(other) => {
                return Err(Failure::Permanent(format!(
                    "{} speaks version {other} to replicas, and this one {VERSION}; run the same birdhouse on both",
                    self.url
                )));
            }
            None => {
                return Err(Failure::Permanent(format!(
                    "{} is no listener for replicas; use the address of replicas-addr or replicas-tls-addr",
                    self.url
                )));
            }
        }
        let body = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec().map_err(failed)?;
        Ok(Reply { status, body })
    }

    fn unexpected(&self, status: StatusCode, body: &[u8]) -> Failure {
        let reason = String::from_utf8_lossy(&body[..body.len().min(REASON_BYTES)]);
        Failure::Transient(format!("{} answered {}: {}", self.url, status.as_u16(), reason.trim()))
    }
}

/// The certificates that this system trusts.
fn trusted() -> TlsConfig {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::debug!(%error, "failed to read a certificate of the system");
    }
    let certificates: Vec<_> = found.certs.iter().map(|found| Certificate::from_der(found).to_owned()).collect();
    TlsConfig::builder().root_certs(RootCerts::new_with_certs(&certificates)).build()
}

fn parse_place(body: &[u8]) -> Option<Place> {
    let (run, number) = str::from_utf8(body).ok()?.split_once('/')?;
    Some(Place { run: run.parse().ok()?, number: number.parse().ok()? })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_two_numbers() {
        assert_eq!(parse_place(b"18446744073709551615/7"), Some(Place { run: u64::MAX, number: 7 }));
        assert!([&b""[..], b"7", b"7/", b"/7", b"-1/7", b"\xff/1"].iter().all(|body| parse_place(body).is_none()));
    }

    #[test]
    fn another_scheme_is_refused_with_advice() {
        let Err(Failure::Permanent(reason)) = Primary::new("cql://host", None) else { panic!("it is no HTTP") };
        assert!(reason.contains("https://"), "{reason}");
        Primary::new("http://127.0.0.1:1/", None).unwrap();
    }
}
