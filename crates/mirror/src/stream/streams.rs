//! All streams: the settings may be replaced while they run.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};

use birdhouse_dial::Guard;
use birdhouse_relay::{Plugin, Relay};
use parking_lot::Mutex;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::sleep;

use super::attempts;
use super::cursors::{Cursors, Key};
use super::leg::Leg;
use super::settings::{StreamSettings, shown};
use super::status::{Changing, StreamStatus};
use crate::came::Came;
use crate::clock::WallClock;
use crate::limits::CURSORS_INTERVAL;
use crate::tally::SharedTally;

/// The streams of a relay. They end when it is dropped.
pub struct Streams {
    relay: Arc<Relay>,
    guard: Arc<Guard>,
    clock: WallClock,
    cursors: Arc<Cursors>,
    running: Mutex<Running>,
    saving: JoinHandle<()>,
}

#[derive(Default)]
struct Running {
    legs: BTreeMap<Key, RunningLeg>,
    /// Ids that came from each URL, for as long as a stream has the URL.
    came: HashMap<String, Weak<Came>>,
}

/// A URL of a stream, and the task that serves it.
struct RunningLeg {
    leg: Arc<Leg>,
    task: JoinHandle<()>,
}

impl Streams {
    /// Starts without a stream. Needs a runtime around the caller.
    pub fn start(relay: Arc<Relay>, guard: Arc<Guard>, cursors: Cursors, clock: WallClock) -> Self {
        let cursors = Arc::new(cursors);
        let saving = tokio::spawn(keep_saving(Arc::clone(&cursors)));
        Self { relay, guard, clock, cursors, running: Mutex::default(), saving }
    }

    /// Replaces all streams. Those that are as before go on undisturbed. Waits for the
    /// disk. Needs a runtime around the caller.
    ///
    /// # Errors
    /// Another process stores the events. Nothing has changed then.
    pub fn set(&self, streams: Vec<StreamSettings>) -> Result<(), String> {
        if !streams.is_empty() {
            self.relay.published_end()?;
        }
        let mut running = self.running.lock();
        let mut before = std::mem::take(&mut running.legs);
        for settings in streams {
            let settings = Arc::new(settings);
            let mut plugin = None;
            for target in &settings.targets {
                let key = Key { name: settings.name.clone(), url: shown(target) };
                let old = before.remove(&key);
                let leg = match old {
                    Some(old) if old.is_like(&settings, target) => old,
                    old => {
                        let plugin = plugin.get_or_insert_with(|| self.plugin(&settings)).clone();
                        let came = running.came_from(&key.url);
                        if settings.direction().is_up() {
                            came.keep();
                        }
                        if settings.direction().is_down() {
                            came.begin();
                        }
                        let leg = Arc::new(self.leg(&settings, target.clone(), key.clone(), plugin, came));
                        match &old {
                            Some(old) => old.task.abort(),
                            None => leg.begin(),
                        }
                        RunningLeg { leg: Arc::clone(&leg), task: tokio::spawn(run(leg, old)) }
                    }
                };
                running.legs.insert(key, leg);
            }
        }
        for RunningLeg { task, .. } in before.into_values() {
            task.abort();
        }
        self.cursors.retain(|key| running.legs.contains_key(key));
        running.came.retain(|_, came| came.strong_count() > 0);
        // A new stream that lost its first place would begin later after a crash.
        if let Err(why) = self.cursors.save() {
            tracing::warn!("{why}; trying again");
        }
        Ok(())
    }

    fn plugin(&self, settings: &StreamSettings) -> Option<Arc<Plugin>> {
        settings.plugin.clone().map(|plugin| self.relay.start_plugin(plugin))
    }

    fn leg(
        &self,
        settings: &Arc<StreamSettings>,
        target: birdhouse_dial::Target,
        key: Key,
        plugin: Option<Arc<Plugin>>,
        came: Arc<Came>,
    ) -> Leg {
        Leg {
            relay: Arc::clone(&self.relay),
            guard: Arc::clone(&self.guard),
            clock: self.clock.clone(),
            settings: Arc::clone(settings),
            target,
            key,
            plugin,
            came,
            cursors: Arc::clone(&self.cursors),
            tally: SharedTally::default(),
            changing: Mutex::new(Changing::new(self.clock.seconds())),
            unanswered: Mutex::default(),
        }
    }

    /// Returns the state of every URL of every stream.
    pub fn status(&self) -> Vec<StreamStatus> {
        self.running.lock().legs.values().map(|running| running.leg.status()).collect()
    }

    /// Ends all streams, and writes their places.
    pub async fn end(&self) {
        let legs = std::mem::take(&mut self.running.lock().legs);
        for RunningLeg { task, .. } in legs.into_values() {
            task.abort();
            let _ = task.await;
        }
        save(&self.cursors).await;
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        self.saving.abort();
        for running in self.running.lock().legs.values() {
            running.task.abort();
        }
    }
}

impl Running {
    fn came_from(&mut self, url: &str) -> Arc<Came> {
        let known = self.came.get(url).and_then(Weak::upgrade);
        known.unwrap_or_else(|| {
            let came = Arc::new(Came::new());
            self.came.insert(url.to_owned(), Arc::downgrade(&came));
            came
        })
    }
}

impl RunningLeg {
    fn is_like(&self, settings: &StreamSettings, target: &birdhouse_dial::Target) -> bool {
        self.leg.settings.is_like(settings) && self.leg.target == *target
    }
}

/// Serves a URL after the task that served it before, which was told to end, has ended.
async fn run(leg: Arc<Leg>, before: Option<RunningLeg>) {
    if let Some(RunningLeg { task, .. }) = before {
        let _ = task.await;
        leg.begin();
    }
    attempts::run(leg).await;
}

async fn keep_saving(cursors: Arc<Cursors>) {
    loop {
        sleep(CURSORS_INTERVAL).await;
        save(&cursors).await;
    }
}

async fn save(cursors: &Arc<Cursors>) {
    let cursors = Arc::clone(cursors);
    if let Ok(Err(why)) = spawn_blocking(move || cursors.save()).await {
        tracing::warn!("{why}; trying again");
    }
}
