//! The connection that a request came on.

use std::sync::Arc;
use std::time::Instant;

use birdhouse_clients::Payer as _;
use birdhouse_net::{Compression, Meter, Unsent, WebPages};
use hyper::header::{FORWARDED, HeaderMap};
use hyper::upgrade::OnUpgrade;
use parking_lot::Mutex;
use tokio::sync::watch;

/// The way of a request to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// By TLS, or from this machine.
    Closed,
    /// Others may read it.
    Open,
}

impl Way {
    /// Returns the way of a request with these headers. A proxy on this machine must say that its client used TLS.
    pub(crate) fn with(self, headers: &HeaderMap) -> Self {
        let is_forwarded = headers.contains_key(FORWARDED) || headers.contains_key("x-forwarded-for");
        let is_by_tls = headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
        if is_forwarded && !is_by_tls { Self::Open } else { self }
    }
}

/// The connection that a request came on.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) meter: Arc<Meter>,
    pub(crate) unsent: Unsent,
    /// As far as the connection shows it.
    pub(crate) way: Way,
    /// Changes, as its sender is dropped, when the server ends.
    pub(crate) stopped: watch::Receiver<()>,
    /// Web pages that may open a WebSocket; `None` allows all, where requests do not come over loopback.
    pub(crate) pages: Option<WebPages>,
    /// Set by the answer after which the connection carries a WebSocket.
    pub(crate) switching: Arc<Mutex<Option<Switching>>>,
}

impl Caller {
    /// Finds out if a change concerns the client, and charges it for that.
    pub(crate) fn concerned(&self, concerns: impl FnOnce() -> bool) -> bool {
        let began = Instant::now();
        let is_concerned = concerns();
        let now = Instant::now();
        self.meter.worked(now.saturating_duration_since(began), now);
        is_concerned
    }
}

/// A connection that becomes a WebSocket.
#[derive(Debug)]
pub(crate) struct Switching {
    /// Gives the stream once the answer is written.
    pub(crate) stream: OnUpgrade,
    pub(crate) compression: Compression,
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn a_proxy_must_say_that_its_client_used_tls() {
        let way = |headers: &[(&'static str, &'static str)]| {
            let headers = headers
                .iter()
                .map(|(name, value)| (hyper::header::HeaderName::from_static(name), HeaderValue::from_static(value)));
            Way::Closed.with(&headers.collect())
        };
        let (client, tls, clear) =
            (("x-forwarded-for", "203.0.113.7"), ("x-forwarded-proto", "https"), ("x-forwarded-proto", "http"));
        assert_eq!(way(&[]), Way::Closed);
        assert_eq!(way(&[client]), Way::Open);
        assert_eq!(way(&[client, clear]), Way::Open);
        assert_eq!(way(&[("forwarded", "for=203.0.113.7")]), Way::Open);
        assert_eq!(way(&[client, tls]), Way::Closed);
        assert_eq!(Way::Open.with(&HeaderMap::new()), Way::Open);
    }
}
