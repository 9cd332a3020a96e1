//! A stream as the operator configures it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use birdhouse_dial::Target;
use birdhouse_events::Keys;
use birdhouse_relay::PluginSettings;

use crate::job::{Direction, Job, Purpose};
use crate::limits::{
    STREAM_CONNECTIONS_MAX, STREAM_FILTERS_BYTES_MAX, STREAM_NAME_BYTES_MAX, STREAM_URLS_MAX, STREAMS_MAX,
};

/// A stream.
#[derive(Clone)]
pub struct StreamSettings {
    /// Its name, by which its places are kept.
    pub name: String,
    /// The other relays.
    pub targets: Vec<Target>,
    /// The events, and their direction: a purpose of [`Purpose::Transfer`].
    pub job: Job,
    /// The key by which the other relays know this one.
    pub keys: Option<Arc<Keys>>,
    /// A program that judges events that come, instead of the relay's own.
    pub plugin: Option<PluginSettings>,
    /// Time in which the other relay answers an event; [`OUTCOME_TIMEOUT`] but in tests.
    ///
    /// [`OUTCOME_TIMEOUT`]: crate::limits::OUTCOME_TIMEOUT
    pub outcome_timeout: Duration,
}

impl StreamSettings {
    /// Returns the direction of events.
    pub fn direction(&self) -> Direction {
        match self.job.purpose {
            Purpose::Transfer(direction) => direction,
            Purpose::List => Direction::Down,
        }
    }

    /// True if both say the same of a connection, whatever other URLs they have.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let pubkey = |settings: &Self| settings.keys.as_ref().map(|keys| keys.pubkey());
        (&self.name, &self.job, &self.plugin) == (&other.name, &other.job, &other.plugin)
            && (pubkey(self), self.outcome_timeout) == (pubkey(other), other.outcome_timeout)
    }
}

/// Returns the address of a relay, without the query, which may hold a secret.
pub(super) fn shown(target: &Target) -> String {
    let path = target.path().split('?').next().unwrap_or_default();
    format!("{target}{}", if path == "/" { "" } else { path })
}

/// Checks the bounds of all streams together.
///
/// # Errors
/// The stream and its mistake.
pub fn check(streams: &[StreamSettings]) -> Result<(), String> {
    if streams.len() > STREAMS_MAX {
        return Err(format!("{} streams are too many: {STREAMS_MAX} are allowed", streams.len()));
    }
    let mut names = HashSet::new();
    for stream in streams {
        let name = &stream.name;
        check_name(name)?;
        if !names.insert(name) {
            return Err(format!("two streams have the name {name:?}"));
        }
        let count = stream.targets.len();
        if !(1..=STREAM_URLS_MAX).contains(&count) {
            return Err(format!("stream {name:?} has {count} urls; use 1 to {STREAM_URLS_MAX}"));
        }
        let mut urls = HashSet::new();
        if let Some(twice) = stream.targets.iter().map(shown).find(|url| !urls.insert(url.clone())) {
            return Err(format!("stream {name:?} has the url {twice} twice"));
        }
        if stream.plugin.is_some() && !stream.direction().is_down() {
            return Err(format!("stream {name:?}: a plugin judges events that come, and dir is \"up\""));
        }
    }
    let filters = |stream: &StreamSettings| {
        let filter = serde_json::to_string(&stream.job.wire()).map_or(0, |filter| filter.len());
        stream.targets.len() * filter
    };
    if streams.iter().map(filters).sum::<usize>() > STREAM_FILTERS_BYTES_MAX {
        let most = STREAM_FILTERS_BYTES_MAX;
        return Err(format!("the filters of all streams, once for each url, have more than {most} bytes"));
    }
    let connections: usize = streams.iter().map(|stream| stream.targets.len()).sum();
    if connections > STREAM_CONNECTIONS_MAX {
        return Err(format!("all streams have {connections} urls: {STREAM_CONNECTIONS_MAX} are allowed"));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if name.is_empty() || name.len() > STREAM_NAME_BYTES_MAX || !name.bytes().all(is_plain) {
        let form = format!("1 to {STREAM_NAME_BYTES_MAX} letters, digits, hyphens, underscores and dots");
        return Err(format!("{name:?} is no name of a stream; use {form}"));
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_events::FilterLimits;

    use super::*;
    use crate::limits::OUTCOME_TIMEOUT;
    use crate::peer::relay_url;

    fn stream(name: &str, direction: Direction, urls: &[&str]) -> StreamSettings {
        let targets = urls.iter().map(|url| relay_url(url).unwrap()).collect();
        let job = Job::new(&FilterLimits::default(), Purpose::Transfer(direction), "{}").unwrap();
        StreamSettings { name: name.into(), targets, job, keys: None, plugin: None, outcome_timeout: OUTCOME_TIMEOUT }
    }

    #[test]
    fn mistakes_are_named() {
        let of = |streams: &[StreamSettings]| check(streams).unwrap_err();
        let down = |name: &str, urls: &[&str]| stream(name, Direction::Down, urls);
        assert_eq!(check(&[down("a", &["wss://a", "wss://a/b"]), down("b", &["wss://a"])]), Ok(()));
        assert!(of(&[down("a b", &["wss://a"])]).contains("no name"));
        assert!(of(&[down("a", &["wss://a"]), down("a", &["wss://b"])]).contains("two streams"));
        assert!(of(&[down("a", &[])]).contains("0 urls"));
        assert_eq!(
            of(&[down("a", &["wss://a/x?key=1", "wss://A/x?key=2"])]),
            "stream \"a\" has the url wss://a/x twice"
        );
        let up = StreamSettings {
            plugin: Some(PluginSettings { command: "x".into(), broken: birdhouse_relay::WhenBroken::Refuse }),
            ..stream("a", Direction::Up, &["wss://a"])
        };
        assert!(of(&[up]).contains("a plugin judges"));
        let many: Vec<String> = (0..STREAM_URLS_MAX).map(|number| format!("wss://a{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let all: Vec<StreamSettings> = (0..5).map(|number| down(&number.to_string(), &many)).collect();
        assert!(of(&all).contains("320 urls"));
        assert_eq!(check(&all[..4]), Ok(()));
    }
}
