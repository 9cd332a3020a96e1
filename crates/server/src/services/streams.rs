//! Streams of the settings as the types of `birdhouse-mirror`.

use anyhow::{Context as _, Result, anyhow};
use birdhouse_events::FilterLimits;
use birdhouse_mirror::{Job, Purpose, StreamSettings, check, limits, relay_url};
use birdhouse_relay::{PluginSettings, WhenBroken};

use super::{relay_key, relay_settings};
use crate::config::{Options, StreamOptions, WhenBrokenName};

/// Name of the file of the places of streams, in the folder of the relay.
pub(crate) const FILE: &str = "streams";

/// Returns the streams of the settings.
///
/// # Errors
/// The stream and its first mistake.
pub(super) fn plan(options: &Options) -> Result<Vec<StreamSettings>> {
    let filter_limits = relay_settings::settings(options).filter_limits();
    let broken = match options.relay_plugin_broken {
        Some(WhenBrokenName::Accept) => WhenBroken::Accept,
        Some(WhenBrokenName::Refuse) | None => WhenBroken::Refuse,
    };
    let streams = options.stream.iter().flatten().map(|stream| {
        of(stream, &filter_limits, broken).with_context(|| format!("failed to read the stream {:?}", stream.name))
    });
    let streams = streams.collect::<Result<Vec<_>>>()?;
    check(&streams).map_err(|why| anyhow!(why))?;
    Ok(streams)
}

fn of(stream: &StreamOptions, filter_limits: &FilterLimits, broken: WhenBroken) -> Result<StreamSettings> {
    let plain = |why: String| anyhow!(why);
    let StreamOptions { name, urls, dir, filter, plugin, key_file, proxy } = stream;
    anyhow::ensure!(urls.len() <= limits::STREAM_URLS_MAX, "more than {} urls", limits::STREAM_URLS_MAX);
    // A URL may hold a password or a token, so an error has its number.
    let targets = (1..).zip(urls.iter()).map(|(number, url)| {
        let target = relay_url(url).map_err(|why| anyhow!("url {number} is none of a relay: {why}"))?;
        Ok(target.through(*proxy))
    });
    let filter = filter.as_deref().unwrap_or("{}");
    let job = Job::new(filter_limits, Purpose::Transfer((*dir).into()), filter).map_err(plain).context("the filter")?;
    Ok(StreamSettings {
        name: name.clone(),
        targets: targets.collect::<Result<_>>()?,
        job,
        keys: key_file.as_deref().map(relay_key::read).transpose()?.map(std::sync::Arc::new),
        plugin: plugin.clone().map(|command| PluginSettings { command, broken }),
        outcome_timeout: limits::OUTCOME_TIMEOUT,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_mirror::Direction;

    use super::*;
    use crate::config::parse_file;

    fn read(text: &str) -> Result<Vec<StreamSettings>> {
        plan(&parse_file(text)?)
    }

    #[test]
    fn a_stream_of_the_file_has_what_the_file_says() {
        let text = r##"
            [[stream]]
            name = "friends"
            urls = ["wss://relay.example.org", "ws://relay.onion/a?b"]
            dir = "both"
            filter = '{"kinds":[1],"#t":["rust"]}'
            plugin = "policy"
            proxy = "127.0.0.1:9050"
            [[stream]]
            name = "all"
            urls = "wss://relay.example.org"
            dir = "up"
        "##;
        let streams = read(text).unwrap();
        assert_eq!((streams.len(), streams[0].targets.len(), streams[0].direction()), (2, 2, Direction::Both));
        assert!(streams[0].targets.iter().all(birdhouse_dial::Target::has_proxy) && streams[0].plugin.is_some());
        assert_eq!((streams[1].direction(), streams[1].targets[0].has_proxy()), (Direction::Up, false));
    }

    #[test]
    fn mistakes_name_the_stream() {
        let of = |rest: &str| format!("{:#}", read(&format!("[[stream]]\nname = 'a'\n{rest}")).err().unwrap());
        for (rest, expected) in [
            ("urls = 'https://a'\ndir = 'up'", "stream \"a\": url 1 is none of a relay"),
            ("urls = 'wss://a'\ndir = 'up'\nfilter = '{\"limit\":1}'", "stream \"a\": the filter: "),
            ("urls = 'wss://a'\ndir = 'up'\nfilter = 'x'", "stream \"a\": the filter: "),
            ("urls = 'wss://a'\ndir = 'up'\nkey-file = '/none'", "there is no such file"),
            ("urls = 'wss://a'\ndir = 'up'\nplugin = 'p'", "a plugin judges"),
            ("urls = 'wss://a'\ndir = 'sideways'", "unknown value \"sideways\""),
            ("urls = 'wss://a'", "dir"),
            ("urls = 'wss://a'\ndir = 'up'\nurl = 'x'", "unknown setting \"url\""),
        ] {
            assert!(of(rest).contains(expected), "{}", of(rest));
        }
    }
}
