//! Channels and their outboxes.

use std::sync::Arc;

use parking_lot::RwLock;

use super::running::{Running, SERVER, now};
use super::watches::{Inner, Watches};
use crate::channel::{Clock, Message, OpenChannel, Outcome};
use crate::error::{Error, Result};
use crate::file::{ChannelName, WatchFile, WatchName};
use crate::notice::{Notice, NoticeId, NoticeKind};
use crate::outbox::{Outbox, Render, render};

impl Watches {
    /// Sends a test message to a channel now, before what waits in its outbox. Waits for the other side, so it may not
    /// be called by a task of the runtime.
    ///
    /// # Errors
    /// No channel has the name, or the reason why the message was not delivered.
    pub fn test(&self, channel: &str) -> Result<()> {
        let none = || Error::File(format!("{} names no channel", self.path().display()));
        let running = self.running().ok_or_else(none)?;
        let outbox = running.outbox.lock().clone();
        let unknown = || Error::File(format!("no channel has the name \"{channel}\""));
        let outbox = outbox.ok_or_else(unknown)?;
        // Each is another message, which receivers tell apart by its id.
        let id = NoticeId::of(&[&now().to_be_bytes(), &getrandom::u64().unwrap_or_default().to_be_bytes()]);
        let message =
            message(&Notice { id, ..Notice::apart(WatchName::new(SERVER), NoticeKind::Test, now()) }, &running.file);
        let outcome = self.inner.runtime.block_on(outbox.test(&ChannelName::new(channel), &message))?;
        let why = match outcome.ok_or_else(unknown)? {
            Outcome::Delivered => return Ok(()),
            Outcome::Retry { why, .. }
            | Outcome::Rejected { why }
            | Outcome::Disable { why }
            | Outcome::Refused { why } => why,
        };
        Err(Error::Undelivered { channel: channel.to_owned(), why })
    }
}

impl Inner {
    /// Opens the channels of a file.
    pub(super) fn open_channels(&self, file: &WatchFile) -> Result<Vec<OpenChannel>> {
        let Some(channels) = self.delivery.get() else { return Ok(Vec::new()) };
        channels.open_all(file).map_err(Error::File)
    }

    /// Replaces the outboxes. A channel that was disabled is tried again.
    pub(super) fn deliver(&self, running: &Arc<Running>, channels: Vec<OpenChannel>) -> Result<()> {
        if self.delivery.get().is_none() {
            return Ok(());
        }
        let _entered = self.runtime.enter();
        let mut outbox = running.outbox.lock();
        // Its tasks end before others begin with the same entries.
        *outbox = None;
        let of_file = Arc::downgrade(running);
        let render: Render = Arc::new(move |notice: &Notice| match of_file.upgrade() {
            Some(running) => message(notice, &running.file),
            None => render(notice, None),
        });
        *outbox = Some(Arc::new(Outbox::start(running.state.clone(), channels, &render, Clock::system())?));
        Ok(())
    }
}

/// Returns the message of a notice.
fn message(notice: &Notice, file: &RwLock<WatchFile>) -> Message {
    render(notice, file.read().explorer.as_deref())
}
