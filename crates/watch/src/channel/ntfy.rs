//! ntfy: push messages to phones and browsers, by a server of one's own or by `ntfy.sh`. Published as JSON: headers
//! cannot carry every letter.
//!
//! Source: <https://docs.ntfy.sh/publish/#publish-as-json>.

use std::sync::Arc;

use birdhouse_dial::{Guard, Scheme, Target};
use futures_util::future::BoxFuture;
use hyper::header::{AUTHORIZATION, HeaderValue};
use serde_json::json;

use super::http::{Post, post};
use super::message::{Channel, Message, Outcome, Wording};
use super::secret::Secret;
use crate::limits::NTFY_BYTES_MAX;

/// A topic of a server.
pub(super) struct Ntfy {
    guard: Arc<Guard>,
    server: Target,
    topic: String,
    token: Option<HeaderValue>,
    wording: Wording,
}

impl Ntfy {
    /// A topic, `https://ntfy.sh/topic`.
    ///
    /// # Errors
    /// The reason, without secrets.
    pub(super) fn new(guard: Arc<Guard>, url: &str, token: Option<&Secret>, wording: Wording) -> Result<Self, String> {
        let target = Target::parse(url, &[Scheme::Https, Scheme::Http])?;
        let (parent, topic) = target.path().rsplit_once('/').expect("a path begins with a slash");
        let is_topic = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if topic.is_empty() || topic.len() > 64 || !topic.bytes().all(is_topic) {
            return Err("the address must end with a topic: 1 to 64 letters, digits, - and _".into());
        }
        let (parent, topic) = (format!("{parent}/"), topic.to_owned());
        let token = token.map(|token| {
            let value = HeaderValue::from_str(&format!("Bearer {}", token.expose()));
            value.map_err(|_| "the token has characters that no header may have".to_owned())
        });
        let mut token = token.transpose()?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        Ok(Self { guard, server: target.with_path(&parent), topic, token, wording })
    }

    fn body(&self, message: &Message) -> Vec<u8> {
        let text = shortened(message.text(self.wording), NTFY_BYTES_MAX);
        let mut body = json!({
            "topic": self.topic,
            "title": message.title,
            "message": text,
            "priority": message.priority as u8,
        });
        if let Some(click) = &message.click {
            body["click"] = json!(click);
        }
        body.to_string().into_bytes()
    }
}

impl Channel for Ntfy {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let headers = self.token.iter().map(|token| (AUTHORIZATION, token.clone())).collect();
            let content_type = "application/json";
            let request = Post { target: &self.server, content_type, headers, body: self.body(message) };
            match post(&self.guard, request).await {
                Ok(answer) => answer.outcome(&self.server),
                Err(why) => Outcome::retry(why),
            }
        })
    }
}

/// Returns the beginning of a text, of at most this number of bytes.
fn shortened(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
#[path = "ntfy_tests.rs"]
mod tests;
