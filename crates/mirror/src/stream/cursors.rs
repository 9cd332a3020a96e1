//! The durable places of streams, in one file of JSON that is replaced as a whole.
//!
//! ```text
//! {"format":1,"streams":[{"name":"friends","url":"wss://relay.example.org","filter":"{}","down":1700000000,"up":77}]}
//! ```
//!
//! A place whose peer has not answered events has them, too: `"set_aside":[{"id":"4f..","why":"it hung up"}]`.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use birdhouse_events::Seq;
use birdhouse_relay::replace_file;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::limits::{CURSORS_BYTES_MAX, SET_ASIDE_KEPT, SET_ASIDE_WHY_BYTES};

/// Version of the file's format.
const FORMAT: u32 = 1;

/// A URL of a stream.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(super) struct Key {
    pub(super) name: String,
    pub(super) url: String,
}

/// The places of a URL of a stream.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Cursor {
    /// The filter of these places.
    pub(super) filter: String,
    /// Newest `created_at` of the last complete moment, seconds since 1970; `None` before the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) down: Option<u64>,
    /// Number of the first own event without an outcome; `None` if none was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) up: Option<u64>,
    /// Own events that were given up, the newest last; [`SET_ASIDE_KEPT`] at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) set_aside: Vec<SetAside>,
}

/// An event that the other relay does not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// Its id, in hexadecimal.
    pub id: String,
    /// The end of the last attempt, [`SET_ASIDE_WHY_BYTES`] at most.
    pub why: String,
}

/// The file, as it is and as it will be.
#[derive(Debug)]
pub struct Cursors {
    path: PathBuf,
    state: Mutex<State>,
    /// Held while the file is written.
    writing: Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    all: BTreeMap<Key, Cursor>,
    has_changed: bool,
}

#[derive(Serialize, Deserialize)]
struct Body {
    format: u32,
    streams: Vec<Line>,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    #[serde(flatten)]
    cursor: Cursor,
}

impl Cursors {
    /// Reads the places, if there is a file.
    ///
    /// # Errors
    /// The file cannot be read, or is none of places.
    pub fn open(path: &Path) -> Result<Self, String> {
        let mut bytes = Vec::new();
        match File::open(path).and_then(|file| file.take(CURSORS_BYTES_MAX).read_to_end(&mut bytes)) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(format!("failed to read the places of streams in {}: {error}", path.display())),
            Ok(_) => {}
        }
        let all = if bytes.is_empty() { BTreeMap::new() } else { decode(&bytes).map_err(|why| damaged(path, &why))? };
        let state = Mutex::new(State { all, has_changed: false });
        Ok(Self { path: path.to_path_buf(), state, writing: Mutex::new(()) })
    }

    /// Returns the places of a URL, which begins anew if the filter is another one and `begins_anew`.
    pub(super) fn begin(&self, key: &Key, filter: &str, anew: Anew) -> Cursor {
        let mut state = self.state.lock();
        let known = state.all.get(key).filter(|cursor| cursor.filter == filter || anew == Anew::Never);
        let cursor = Cursor { filter: filter.to_owned(), ..known.cloned().unwrap_or_default() };
        state.all.insert(key.clone(), cursor.clone());
        state.has_changed = true;
        cursor
    }

    /// Moves the place of events that come; never back, but from a second beyond `now`, at which the clock was wrong.
    pub(super) fn set_down(&self, key: &Key, second: u64, now: u64) {
        self.change(key, |cursor| cursor.down = cursor.down.map(|down| down.min(now)).max(Some(second)));
    }

    /// Moves the place of events that go.
    pub(super) fn set_up(&self, key: &Key, seq: Seq) {
        self.change(key, |cursor| cursor.up = Some(seq.0));
    }

    /// Adds an event that was given up; the oldest one makes room.
    pub(super) fn set_aside(&self, key: &Key, SetAside { id, mut why }: SetAside) {
        why.truncate(why.floor_char_boundary(SET_ASIDE_WHY_BYTES));
        self.change(key, |cursor| {
            let too_many = (cursor.set_aside.len() + 1).saturating_sub(SET_ASIDE_KEPT);
            cursor.set_aside.drain(..too_many);
            cursor.set_aside.push(SetAside { id, why });
        });
    }

    fn change(&self, key: &Key, change: impl FnOnce(&mut Cursor)) {
        let state = &mut *self.state.lock();
        if let Some(cursor) = state.all.get_mut(key) {
            let before = cursor.clone();
            change(cursor);
            state.has_changed |= *cursor != before;
        }
    }

    /// Returns the places of a URL.
    pub(super) fn get(&self, key: &Key) -> Cursor {
        self.state.lock().all.get(key).cloned().unwrap_or_default()
    }

    /// Forgets the places of all others.
    pub(super) fn retain(&self, is_kept: impl Fn(&Key) -> bool) {
        let mut state = self.state.lock();
        let before = state.all.len();
        state.all.retain(|key, _| is_kept(key));
        state.has_changed |= state.all.len() != before;
    }

    /// Writes the file, if a place has moved. Waits for the disk.
    ///
    /// # Errors
    /// The disk's failure. It is tried again by the next call.
    pub fn save(&self) -> Result<(), String> {
        let _writing = self.writing.lock();
        let body = {
            let mut state = self.state.lock();
            if !std::mem::take(&mut state.has_changed) {
                return Ok(());
            }
            let lines = state.all.iter().map(|(key, cursor)| Line { key: key.clone(), cursor: cursor.clone() });
            serde_json::to_vec(&Body { format: FORMAT, streams: lines.collect() }).expect("text and numbers are JSON")
        };
        replace_file(&self.path, &body).map_err(|error| {
            self.state.lock().has_changed = true;
            format!("failed to write the places of streams to {}: {error}", self.path.display())
        })
    }
}

/// Treatment of the places of another filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Anew {
    /// They are kept.
    Never,
    /// They are forgotten: the filter says where it begins.
    WithAnotherFilter,
}

fn decode(bytes: &[u8]) -> Result<BTreeMap<Key, Cursor>, String> {
    let body: Body = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if body.format != FORMAT {
        return Err(format!("its format is {}", body.format));
    }
    Ok(body.streams.into_iter().map(|Line { key, cursor }| (key, cursor)).collect())
}

fn damaged(path: &Path, why: &str) -> String {
    format!("{} is no file of places of streams: {why}; remove it, and the streams begin anew", path.display())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_as_they_were_written_and_the_bytes_are_the_documented_ones() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("streams");
        let key = Key { name: "friends".into(), url: "wss://relay.example.org".into() };
        let other = Key { name: "other".into(), ..key.clone() };
        let cursors = Cursors::open(&path).unwrap();
        cursors.begin(&key, "{}", Anew::Never);
        cursors.begin(&other, "{}", Anew::Never);
        cursors.set_down(&key, 1_800_000_000, 1_800_000_000);
        cursors.set_down(&key, 5, 1_700_000_000);
        cursors.set_down(&key, 5, 1_700_000_001);
        cursors.set_up(&key, Seq(77));
        cursors.retain(|one| *one == key);
        cursors.save().unwrap();
        let documented = concat!(
            r#"{"format":1,"streams":[{"name":"friends","url":"wss://relay.example.org","filter":"{}","#,
            r#""down":1700000000,"up":77}]}"#
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), documented);
        let cursors = Cursors::open(&path).unwrap();
        let read = cursors.get(&key);
        assert_eq!((read.down, read.up), (Some(1_700_000_000), Some(77)));
        assert_eq!(cursors.begin(&key, r#"{"kinds":[1]}"#, Anew::Never).up, Some(77), "another filter keeps the place");
        let anew = cursors.begin(&key, r#"{"since":1}"#, Anew::WithAnotherFilter);
        assert_eq!((anew.up, anew.down), (None, None), "one with a beginning does not");
        for number in 0..=SET_ASIDE_KEPT {
            cursors.set_aside(&key, SetAside { id: number.to_string(), why: "\u{e9}".repeat(SET_ASIDE_WHY_BYTES) });
        }
        cursors.save().unwrap();
        let of_file = Cursors::open(&path).unwrap().get(&key).set_aside;
        let ids: Vec<String> = of_file.iter().map(|one| one.id.clone()).collect();
        assert_eq!(ids, (1..=SET_ASIDE_KEPT).map(|number| number.to_string()).collect::<Vec<_>>());
        assert!(of_file.iter().all(|one| one.why.len() == SET_ASIDE_WHY_BYTES));
        for wrong in ["{", r#"{"format":2,"streams":[]}"#] {
            std::fs::write(&path, wrong).unwrap();
            assert!(Cursors::open(&path).unwrap_err().contains("begin anew"));
        }
    }
}
