//! Direct messages over Nostr (NIP-17): first to the relay of this server, where nothing leaves the house, then to the
//! other relays that the recipient reads direct messages on (kind 10050). A recipient who names none gets none: NIP-17
//! asks for that, since a message elsewhere would be read by nobody.

mod address;
mod event;
mod identity;
mod nip44;
mod own_relay;
mod talk;
mod wrap;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use birdhouse_dial::{Guard, Scheme, Target};
use futures_util::future::{BoxFuture, join_all};
use parking_lot::Mutex;
use secp256k1::{Keypair, XOnlyPublicKey};
use serde_json::json;

use self::event::{Draft, Event, INBOX_RELAYS, PROFILE};
use self::wrap::DirectMessage;
use super::clock::Clock;
use super::message::{Channel, Message, Outcome, Wording};
use crate::limits::RELAYS_MAX;

pub(super) use identity::Identity;
pub use own_relay::OwnRelay;

/// Time in which a relay that has failed is not tried again, where another one takes the messages.
const REST: Duration = Duration::from_mins(5);

/// A recipient.
pub(super) struct Nostr {
    sender: Arc<Sender>,
    to: XOnlyPublicKey,
    /// Relays that are asked for the recipient's.
    relays: Vec<Target>,
    wording: Wording,
    /// Relays that have failed, and the time until which they rest.
    resting: Mutex<HashMap<String, Duration>>,
}

/// Everything that all recipients share.
pub(super) struct Sender {
    pub(super) guard: Arc<Guard>,
    pub(super) clock: Clock,
    pub(super) identity: Identity,
    pub(super) own: Option<Arc<dyn OwnRelay>>,
    /// True once the own relay has the server's profile.
    is_introduced: Mutex<bool>,
}

/// Where a recipient reads direct messages.
struct RecipientRelays {
    /// True if this server's own relay is among them.
    has_own: bool,
    others: Vec<Target>,
}

impl Sender {
    pub(super) fn new(guard: Arc<Guard>, clock: Clock, identity: Identity, own: Option<Arc<dyn OwnRelay>>) -> Self {
        Self { guard, clock, identity, own, is_introduced: Mutex::new(false) }
    }

    /// Publishes the server's profile, and the relays on which it reads, to its own relay, unless they are there: many
    /// clients hide messages of accounts without a profile.
    async fn introduce(&self, own: &dyn OwnRelay, keys: &Keypair) -> Result<(), String> {
        if *self.is_introduced.lock() {
            return Ok(());
        }
        let profile = json!({
            "name": "Birdhouse",
            "about": "Notices of watched wallets, sent by the server that watches them.",
            "bot": true,
        });
        self.keep(own, keys, PROFILE, Vec::new(), profile.to_string()).await?;
        let tags: Vec<_> = own.urls().into_iter().map(|url| vec!["relay".to_owned(), url]).collect();
        if !tags.is_empty() {
            self.keep(own, keys, INBOX_RELAYS, tags, String::new()).await?;
        }
        *self.is_introduced.lock() = true;
        Ok(())
    }

    /// Publishes a replaceable event unless the newest one is equal.
    async fn keep(
        &self,
        own: &dyn OwnRelay,
        keys: &Keypair,
        kind: u16,
        tags: Vec<Vec<String>>,
        content: String,
    ) -> Result<(), String> {
        let newest = own.newest(kind, keys.x_only_public_key().0.serialize()).await?;
        let newest = newest.and_then(|json| Event::verified(&json));
        if newest.as_ref().is_some_and(|event| event.tags == tags && event.content == content) {
            return Ok(());
        }
        // A clock that went back must not make the new one the older one.
        let created_at = newest.map_or(0, |event| event.created_at + 1).max(self.clock.seconds());
        own.publish(Draft { created_at, kind, tags, content }.sign(keys).to_json()).await
    }
}

impl Nostr {
    /// A recipient, and relays that are asked for the recipient's.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn new(sender: Arc<Sender>, to: &str, relays: &[String], wording: Wording) -> Result<Self, String> {
        let to = address::public(to)?;
        if relays.len() > RELAYS_MAX {
            return Err(format!("a recipient has at most {RELAYS_MAX} relays in the file"));
        }
        let relays = relays.iter().map(|url| relay(url)).collect::<Result<_, _>>()?;
        Ok(Self { sender, to, relays, wording, resting: Mutex::default() })
    }

    async fn deliver(&self, message: &Message) -> Result<(), String> {
        let keys = self.sender.identity.keys()?;
        if let Some(own) = &self.sender.own
            && let Err(why) = self.sender.introduce(&**own, &keys).await
        {
            // The message may be the alarm about that relay, and other relays may take it. The next one tries again.
            tracing::warn!(%why, "failed to publish the server's profile to its own relay");
        }
        let inbox = self.inbox().await?;
        let now = self.sender.clock.seconds();
        let text = message.text(self.wording);
        let direct = DirectMessage { to: self.to, id: &message.id, text, created: message.created };
        let wrapped = wrap::wrap(&direct, &keys, now);
        let event = wrapped.ok_or("the text is empty, or longer than NIP-44 allows")?;
        let mut taken = match &self.sender.own {
            Some(own) if inbox.has_own => own.publish(event.to_json()).await.map(|()| Taken::Yes),
            _ => Ok(Taken::No),
        };
        for sent in self.send_to_others(&inbox.others, &event, now, &taken).await {
            taken = match (taken, sent) {
                (Ok(Taken::Yes), _) | (_, Ok(())) => Ok(Taken::Yes),
                (Ok(Taken::No), Err(why)) | (Err(why), Err(_)) => Err(why),
            };
        }
        match taken? {
            Taken::Yes => Ok(()),
            Taken::No => Err("the recipient's relays are none that can be reached from here".into()),
        }
    }

    async fn send_to_others(
        &self,
        others: &[Target],
        event: &Event,
        now: u64,
        own: &Result<Taken, String>,
    ) -> Vec<Result<(), String>> {
        let elapsed = self.sender.clock.now();
        let may_rest = matches!(own, Ok(Taken::Yes));
        let is_awake = |relay: &&Target| {
            !may_rest || self.resting.lock().get(&relay.to_string()).is_none_or(|until| *until <= elapsed)
        };
        let send = |relay| async move {
            let sent = talk::publish(&self.sender.guard, relay, event, now).await;
            match &sent {
                Ok(()) => drop(self.resting.lock().remove(&relay.to_string())),
                Err(why) => {
                    tracing::debug!(%why, "a relay of a recipient has not taken a message");
                    self.resting.lock().insert(relay.to_string(), elapsed + REST);
                }
            }
            sent
        };
        join_all(others.iter().filter(is_awake).map(send)).await
    }

    /// Finds the relays on which the recipient reads direct messages.
    async fn inbox(&self) -> Result<RecipientRelays, String> {
        let mut why = None;
        if let Some(own) = &self.sender.own {
            match own.newest(INBOX_RELAYS, self.to.serialize()).await {
                Ok(found) => {
                    if let Some(event) = found.and_then(|json| Event::verified(&json)) {
                        return self.inbox_of(&event);
                    }
                }
                Err(error) => why = Some(error),
            }
        }
        let author = const_hex::encode(self.to.serialize());
        for relay in &self.relays {
            match talk::newest(&self.sender.guard, relay, INBOX_RELAYS, &author).await {
                Ok(Some(event)) => return self.inbox_of(&event),
                Ok(None) => {}
                Err(error) => why = Some(error),
            }
        }
        let asked = match (&self.sender.own, self.relays.is_empty()) {
            (Some(_), true) => "this server's own relay",
            (Some(_), false) => "this server's own relay and the relays in the file",
            (None, false) => "the relays in the file",
            (None, true) => "any relay: this server has none, and the file names none",
        };
        let failure = why.map(|why| format!(" ({why})")).unwrap_or_default();
        Err(format!(
            "{} names no relays for direct messages (kind 10050) on {asked}{failure}; set them in the client, \
             for example to the address of this server's relay, or name a relay that has the list in `relays`",
            address::write_public(&self.to)
        ))
    }

    fn inbox_of(&self, list: &Event) -> Result<RecipientRelays, String> {
        let is_own = |url: &&str| self.sender.own.as_ref().is_some_and(|own| own.is_named(url));
        let (named_own, others): (Vec<_>, Vec<_>) = list.values("relay").take(RELAYS_MAX).partition(is_own);
        // The list is not the operator's, but the operator may have named the same relay.
        let checked = |relay: Target| if self.relays.contains(&relay) { relay } else { relay.named_by_recipient() };
        let others: Vec<_> = others.into_iter().filter_map(|url| relay(url).ok().map(checked)).collect();
        let has_own = !named_own.is_empty();
        if !has_own && others.is_empty() {
            return Err("the recipient's list of relays for direct messages (kind 10050) has none that is valid".into());
        }
        Ok(RecipientRelays { has_own, others })
    }
}

/// State of a message at the relays that the recipient reads.
enum Taken {
    Yes,
    No,
}

impl Channel for Nostr {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            match self.deliver(message).await {
                Ok(()) => Outcome::Delivered,
                Err(why) => Outcome::retry(why),
            }
        })
    }
}

fn relay(url: &str) -> Result<Target, String> {
    Target::parse(url.trim(), &[Scheme::Wss, Scheme::Ws])
}

#[cfg(test)]
#[path = "nostr_tests.rs"]
mod tests;
