//! Webhooks by the scheme of Standard Webhooks: an id that stays the same over all attempts, a time, and a signature of
//! each secret. While a secret is rotated, both the old one and the new one sign, and a receiver may know either.
//!
//! Source: <https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md>.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use birdhouse_dial::{Guard, Scheme, Target};
use futures_util::future::BoxFuture;
use hmac::{Hmac, KeyInit as _, Mac as _};
use hyper::header::{HeaderName, HeaderValue};
use sha2::Sha256;
use zeroize::Zeroizing;

use super::clock::Clock;
use super::http::{Post, post};
use super::message::{Channel, Message, Outcome, Wording};
use super::secret::Secret;
use crate::limits::SECRETS_MAX;

const ID: HeaderName = HeaderName::from_static("webhook-id");
const TIMESTAMP: HeaderName = HeaderName::from_static("webhook-timestamp");
const SIGNATURE: HeaderName = HeaderName::from_static("webhook-signature");

/// Length of a secret in bytes.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// An address that takes notices.
pub(super) struct Webhook {
    guard: Arc<Guard>,
    clock: Clock,
    target: Target,
    secrets: Vec<Zeroizing<Vec<u8>>>,
    wording: Wording,
}

impl Webhook {
    /// An address, and the secrets that sign.
    ///
    /// # Errors
    /// The reason, without secrets.
    pub(super) fn new(
        guard: Arc<Guard>,
        clock: Clock,
        url: &str,
        secrets: &[Secret],
        wording: Wording,
    ) -> Result<Self, String> {
        let target = Target::parse(url, &[Scheme::Https, Scheme::Http])?;
        if secrets.is_empty() || secrets.len() > SECRETS_MAX {
            return Err(format!("a webhook needs 1 to {SECRETS_MAX} secrets, whsec_.., the newest first"));
        }
        let secrets = secrets.iter().map(decode).collect::<Result<_, _>>()?;
        Ok(Self { guard, clock, target, secrets, wording })
    }

    fn headers(&self, id: &str, body: &[u8]) -> Result<Vec<(HeaderName, HeaderValue)>, String> {
        let timestamp = self.clock.seconds().to_string();
        let sign = |secret: &Zeroizing<Vec<u8>>| signature(secret, id, &timestamp, body);
        let signatures = self.secrets.iter().map(sign).collect::<Vec<_>>().join(" ");
        let value = |text: &str| HeaderValue::from_str(text).map_err(|_| "the id is no text of a header".to_owned());
        Ok(vec![(ID, value(id)?), (TIMESTAMP, value(&timestamp)?), (SIGNATURE, value(&signatures)?)])
    }
}

impl Channel for Webhook {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let body = message.json(self.wording).to_string().into_bytes();
            let headers = match self.headers(&message.id, &body) {
                Ok(headers) => headers,
                Err(why) => return Outcome::Refused { why },
            };
            let request = Post { target: &self.target, content_type: "application/json", headers, body };
            match post(&self.guard, request).await {
                Ok(answer) => answer.outcome(&self.target),
                Err(why) => Outcome::retry(why),
            }
        })
    }
}

fn decode(secret: &Secret) -> Result<Zeroizing<Vec<u8>>, String> {
    const FORM: &str =
        "a secret of a webhook is whsec_ and 24 to 64 bytes as base64; `openssl rand -base64 32` makes one";
    let text = secret.expose().strip_prefix("whsec_").ok_or(FORM)?;
    let bytes = Zeroizing::new(BASE64_STANDARD.decode(text).map_err(|_| FORM)?);
    if SECRET_BYTES.contains(&bytes.len()) { Ok(bytes) } else { Err(FORM.into()) }
}

/// Signs one attempt, scheme v1.
fn signature(secret: &[u8], id: &str, timestamp: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes keys of any length");
    for part in [id.as_bytes(), b".", timestamp.as_bytes(), b".", body] {
        mac.update(part);
    }
    format!("v1,{}", BASE64_STANDARD.encode(mac.finalize().into_bytes()))
}

#[cfg(test)]
#[path = "webhook_tests.rs"]
mod tests;
