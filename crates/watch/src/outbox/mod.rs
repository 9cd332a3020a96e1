//! Outboxes: each channel has one, in the file of notices, and a task that empties it: alarms first, the others in
//! order.
//!
//! A notice and its entries are one transaction of the engine; a delivery removes its entry in a transaction of its
//! own, after the other side has the notice. So a process that is killed at any moment delivers each notice at least
//! once, and a repetition has the same id.
//!
//! May use `state` and `channel`.

mod lane;
mod render;
mod schedule;
mod status;
mod tools;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tokio::sync::Notify;
use tokio::task::AbortHandle;

use self::lane::Lane;
use self::schedule::Schedule;
use self::tools::Tools;
use crate::channel::{Clock, Message, OpenChannel, Outcome};
use crate::error::Result;
use crate::file::ChannelName;
use crate::state::{ChannelRecord, State};

pub use crate::state::Failure;
pub use render::render;
pub use status::ChannelStatus;
pub use tools::Render;

/// The outboxes of all channels. Dropping it ends their tasks.
pub struct Outbox {
    state: State,
    lanes: BTreeMap<ChannelName, (Lane, Task)>,
}

impl Outbox {
    /// Starts the tasks of channels in the current runtime. A channel that was disabled is tried again. Entries of
    /// channels that are no longer there are deleted.
    ///
    /// # Errors
    /// Damage of the file of notices, and failures of the disk.
    pub fn start(state: State, channels: Vec<OpenChannel>, render: &Render, clock: Clock) -> Result<Self> {
        let random = Arc::new(|| getrandom::u64().unwrap_or_default());
        Self::with(state, channels, render, &Tools { clock, random, schedule: Schedule::default() })
    }

    fn with(state: State, channels: Vec<OpenChannel>, render: &Render, tools: &Tools) -> Result<Self> {
        let names: HashSet<&str> = channels.iter().map(|channel| channel.name.as_str()).collect();
        state.keep_channels(&names)?;
        let mut lanes = BTreeMap::new();
        for OpenChannel { name, channel } in channels {
            if state.pending(&name)?.delivery.disabled.is_some() {
                state.change_delivery(&name, ChannelRecord::begin_anew)?;
            }
            let (state, render, tools) = (state.clone(), Arc::clone(render), tools.clone());
            let lane = Lane { name: name.clone(), channel, state, render, tools, wake: Arc::new(Notify::new()) };
            let task = Task(tokio::spawn(lane.clone().run()).abort_handle());
            lanes.insert(name, (lane, task));
        }
        Ok(Self { state, lanes })
    }

    /// Wakes the tasks; to be called after each transaction that adds entries.
    pub fn wake(&self) {
        for (lane, _) in self.lanes.values() {
            lane.wake.notify_one();
        }
    }

    /// Sends a message now, beside the order of the outbox; `None` if there is no such channel. Success makes a
    /// disabled channel usable again.
    ///
    /// # Errors
    /// Damage of the file of notices, and failures of the disk.
    pub async fn test(&self, channel: &ChannelName, message: &Message) -> Result<Option<Outcome>> {
        match self.lanes.get(channel) {
            Some((lane, _)) => lane.test(message).await.map(Some),
            None => Ok(None),
        }
    }

    /// Returns the states of all channels, by name. Reads the disk.
    ///
    /// # Errors
    /// Damage of the file of notices, and failures of the disk.
    pub fn status(&self) -> Result<Vec<ChannelStatus>> {
        self.lanes.keys().map(|name| Ok(ChannelStatus::new(name, self.state.waiting(name)?))).collect()
    }
}

/// Ends a task when it is dropped.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests;
