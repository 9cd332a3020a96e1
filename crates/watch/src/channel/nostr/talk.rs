//! A short conversation with another relay: one event out, or the newest event of an author in.
//!
//! A relay that wants a client to authenticate (NIP-42) gets a key of one use: the server's own would tell it who
//! writes to the recipient.

use std::time::Duration;

use futures_util::{SinkExt as _, StreamExt as _};
use secp256k1::{Keypair, SECP256K1};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{Error as SocketError, Message as Frame};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use super::event::{AUTHENTICATION, Draft, Event};
use super::identity::random_secret;
use crate::channel::guard::{Connection, Encryption, Guard, Target};
use crate::limits::ANSWER_BYTES_MAX;

/// Longest conversation.
const TALK_TIMEOUT: Duration = Duration::from_secs(10);
/// Name of the subscription.
const SUBSCRIPTION: &str = "birdhouse";
/// Characters of a relay's reason that are kept.
const REASON_CHARS: usize = 200;

/// Sends an event to a relay; returns once the relay has it.
///
/// # Errors
/// The reason, in one line.
pub(super) async fn publish(guard: &Guard, relay: &Target, event: &Event, now: u64) -> Result<(), String> {
    bounded(relay, async {
        let mut talk = Talk::open(guard, relay).await?;
        talk.publish(event, now).await
    })
    .await
}

/// Asks a relay for the newest event of a kind and an author.
///
/// # Errors
/// The reason, in one line.
pub(super) async fn newest(guard: &Guard, relay: &Target, kind: u16, author: &str) -> Result<Option<Event>, String> {
    bounded(relay, async {
        let mut talk = Talk::open(guard, relay).await?;
        talk.newest(kind, author).await
    })
    .await
}

async fn bounded<T>(relay: &Target, talk: impl Future<Output = Result<T, String>>) -> Result<T, String> {
    match tokio::time::timeout(TALK_TIMEOUT, talk).await {
        Ok(result) => result,
        Err(_) => Err(format!("{relay} has not answered in {} s", TALK_TIMEOUT.as_secs())),
    }
}

struct Talk<'a> {
    socket: WebSocketStream<Connection>,
    relay: &'a Target,
    challenge: Option<String>,
}

/// The answer to an event.
enum Verdict {
    Taken,
    Refused(String),
}

impl Verdict {
    fn wants_authentication(&self) -> bool {
        matches!(self, Self::Refused(reason) if reason.starts_with("auth-required:"))
    }
}

impl<'a> Talk<'a> {
    async fn open(guard: &Guard, relay: &'a Target) -> Result<Self, String> {
        let connection = guard.connect(relay).await?;
        let scheme = if relay.scheme.encryption() == Encryption::Tls { "wss" } else { "ws" };
        let url = format!("{scheme}://{}{}", relay.authority(), relay.path());
        let config = WebSocketConfig::default()
            .max_message_size(Some(ANSWER_BYTES_MAX))
            .max_frame_size(Some(ANSWER_BYTES_MAX))
            .read_buffer_size(4096);
        let opened = client_async_with_config(url, connection, Some(config)).await;
        let (socket, _) = opened.map_err(|error| failed(relay, &error))?;
        Ok(Self { socket, relay, challenge: None })
    }

    async fn publish(&mut self, event: &Event, now: u64) -> Result<(), String> {
        self.send(&json!(["EVENT", event])).await?;
        let mut verdict = self.verdict(&event.id).await?;
        if verdict.wants_authentication() && self.authenticate(now).await? {
            self.send(&json!(["EVENT", event])).await?;
            verdict = self.verdict(&event.id).await?;
        }
        match verdict {
            Verdict::Taken => Ok(()),
            Verdict::Refused(reason) => Err(format!("{} refused the message: {reason}", self.relay)),
        }
    }

    /// Answers the relay's challenge; false if there is none.
    async fn authenticate(&mut self, now: u64) -> Result<bool, String> {
        let Some(challenge) = self.challenge.take() else { return Ok(false) };
        let secret = random_secret().map_err(|error| format!("failed to get random bytes from the system: {error}"))?;
        let keys = Keypair::from_secret_key(SECP256K1, &secret);
        let tag = |name: &str, value: String| vec![name.to_owned(), value];
        let tags = vec![tag("relay", format!("{}{}", self.relay, self.relay.path())), tag("challenge", challenge)];
        let event = Draft { created_at: now, kind: AUTHENTICATION, tags, content: String::new() }.sign(&keys);
        self.send(&json!(["AUTH", event])).await?;
        Ok(matches!(self.verdict(&event.id).await?, Verdict::Taken))
    }

    async fn newest(&mut self, kind: u16, author: &str) -> Result<Option<Event>, String> {
        self.send(&json!(["REQ", SUBSCRIPTION, { "kinds": [kind], "authors": [author], "limit": 1 }])).await?;
        let mut newest: Option<Event> = None;
        loop {
            let message = self.receive().await?;
            match (message[0].as_str(), &message[1]) {
                (Some("EVENT"), name) if name == SUBSCRIPTION => {
                    let event = Event::verified(&message[2].to_string());
                    let event = event.filter(|event| event.kind == kind && event.pubkey == author);
                    newest = newest.into_iter().chain(event).max_by_key(|event| event.created_at);
                }
                (Some("EOSE"), name) if name == SUBSCRIPTION => return Ok(newest),
                (Some("CLOSED"), name) if name == SUBSCRIPTION => {
                    return Err(format!("{} refused the question: {}", self.relay, reason(&message[2])));
                }
                _ => {}
            }
        }
    }

    /// Waits for the verdict on an event.
    async fn verdict(&mut self, id: &str) -> Result<Verdict, String> {
        loop {
            let message = self.receive().await?;
            if message[0] == "OK" && message[1] == id {
                let is_taken = message[2].as_bool().unwrap_or_default();
                return Ok(if is_taken { Verdict::Taken } else { Verdict::Refused(reason(&message[3])) });
            }
        }
    }

    /// Returns the next message; keeps a challenge.
    async fn receive(&mut self) -> Result<Value, String> {
        loop {
            match self.socket.next().await {
                Some(Ok(Frame::Text(text))) => {
                    let Ok(message) = serde_json::from_str::<Value>(text.as_str()) else { continue };
                    if message[0] == "AUTH" {
                        self.challenge = message[1].as_str().map(str::to_owned);
                    }
                    return Ok(message);
                }
                Some(Ok(Frame::Close(_))) | None => return Err(format!("{} hung up", self.relay)),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(failed(self.relay, &error)),
            }
        }
    }

    async fn send(&mut self, message: &Value) -> Result<(), String> {
        let sent = self.socket.send(Frame::text(message.to_string())).await;
        sent.map_err(|error| failed(self.relay, &error))
    }
}

fn failed(relay: &Target, error: &SocketError) -> String {
    match error {
        SocketError::Http(answer) => format!("{relay} is no relay: it answered {}", answer.status()),
        error => format!("failed to talk to {relay}: {error}"),
    }
}

/// Returns a relay's reason, without line breaks and shortened.
fn reason(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(REASON_CHARS).collect()
}
