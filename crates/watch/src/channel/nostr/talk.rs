//! A short conversation with another relay: one event out, or the newest event of an author in.
//!
//! A relay that wants a client to authenticate (NIP-42) gets a key of one use: the server's own would tell it who
//! writes to the recipient.

use std::time::Duration;

use birdhouse_dial::relay::{self, Accepted, Answer, Link};
use birdhouse_dial::{Guard, Target};
use secp256k1::{Keypair, SECP256K1};
use serde_json::{Value, json};

use super::event::{AUTHENTICATION, Draft, Event};
use super::identity::random_secret;

/// Longest conversation.
const TALK_TIMEOUT: Duration = Duration::from_secs(10);
/// Name of the subscription.
const SUBSCRIPTION: &str = "birdhouse";

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
    link: Link,
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
        Ok(Self { link: Link::open_short(guard, relay).await?, relay, challenge: None })
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
        let tags = relay::authentication(self.relay, challenge);
        let event = Draft { created_at: now, kind: AUTHENTICATION, tags, content: String::new() }.sign(&keys);
        self.send(&json!(["AUTH", event])).await?;
        Ok(matches!(self.verdict(&event.id).await?, Verdict::Taken))
    }

    async fn newest(&mut self, kind: u16, author: &str) -> Result<Option<Event>, String> {
        self.send(&json!(["REQ", SUBSCRIPTION, { "kinds": [kind], "authors": [author], "limit": 1 }])).await?;
        let mut newest: Option<Event> = None;
        loop {
            let text = self.link.reader.message().await?;
            match self.heard(&text) {
                Some(Answer::Event { subscription, event }) if subscription == SUBSCRIPTION => {
                    let event = Event::verified(event.get());
                    let event = event.filter(|event| event.kind == kind && event.pubkey == author);
                    newest = newest.into_iter().chain(event).max_by_key(|event| event.created_at);
                }
                Some(Answer::Eose(subscription)) if subscription == SUBSCRIPTION => return Ok(newest),
                Some(Answer::Closed { subscription, reason }) if subscription == SUBSCRIPTION => {
                    return Err(format!("{} refused the question: {reason}", self.relay));
                }
                _ => {}
            }
        }
    }

    /// Waits for the verdict on an event.
    async fn verdict(&mut self, event: &str) -> Result<Verdict, String> {
        loop {
            let text = self.link.reader.message().await?;
            if let Some(Answer::Ok { id, accepted, reason }) = self.heard(&text)
                && id == event
            {
                return Ok(if accepted == Accepted::Yes { Verdict::Taken } else { Verdict::Refused(reason) });
            }
        }
    }

    /// Reads a message; keeps a challenge.
    fn heard<'t>(&mut self, text: &'t str) -> Option<Answer<'t>> {
        let answer = Answer::parse(text);
        if let Some(Answer::Auth(challenge)) = &answer {
            self.challenge = Some(challenge.clone());
        }
        answer
    }

    async fn send(&mut self, message: &Value) -> Result<(), String> {
        self.link.writer.send(message.to_string()).await
    }
}
