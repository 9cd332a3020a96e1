//! `birdhouse migrate`: settings of other relays as settings of this one.

mod taocpp;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::{Map, Value};

use self::taocpp::parse;
use crate::config::parse_file;
use crate::services;

/// Bytes of a file that are read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Tables for the configuration file, and what they do not say.
#[derive(Debug, PartialEq, Eq)]
struct Migrated {
    tables: String,
    /// Settings that were left out, each with the reason.
    notes: Vec<String>,
}

/// Prints the tables `[[stream]]` for the file of `strfry router`.
pub(crate) fn strfry_router(file: &Path) -> Result<ExitCode> {
    let read = || format!("failed to read {}", file.display());
    let length = std::fs::metadata(file).with_context(read)?.len();
    if length > FILE_BYTES_MAX {
        bail!("{} has {length} bytes: it is no file of `strfry router`", file.display());
    }
    let text = std::fs::read_to_string(file).with_context(read)?;
    let Migrated { tables, notes } = migrate(&text).with_context(read)?;
    print!("{tables}");
    for note in notes {
        eprintln!("left out: {note}");
    }
    let options = parse_file(&tables).context("the tables must be changed before they are used")?;
    services::check_streams(&options).context("the tables must be changed before they are used")?;
    Ok(ExitCode::SUCCESS)
}

fn migrate(text: &str) -> Result<Migrated> {
    let config = parse(text).map_err(|why| anyhow!(why))?;
    let (mut tables, mut notes) = (String::new(), Vec::new());
    let mut streams = None;
    for (key, value) in &config {
        match (key.as_str(), value) {
            ("streams", Value::Object(all)) => streams = Some(all),
            ("connectionTimeout", _) => {
                notes.push(
                    "connectionTimeout: a connection is waited for 20 s, and tried again after 1 s to 5 min".into(),
                );
            }
            ("verbose", _) => notes.push("verbose: see the setting `log`".into()),
            (key, _) => notes.push(format!("{key}: not a setting of `strfry router` that is known here")),
        }
    }
    let Some(streams) = streams else { bail!("it has no section `streams`") };
    for (name, stream) in streams {
        let Value::Object(stream) = stream else { bail!("stream {name:?} is no section") };
        let table = table(name, stream, &mut notes).with_context(|| format!("stream {name:?}"))?;
        if !tables.is_empty() {
            tables.push('\n');
        }
        tables.push_str(&table);
    }
    Ok(Migrated { tables, notes })
}

fn table(name: &str, stream: &Map<String, Value>, notes: &mut Vec<String>) -> Result<String> {
    let mut table = "[[stream]]\n".to_owned();
    let mut set = |name: &str, value: toml::Value| writeln!(table, "{name} = {value}").expect("memory takes it");
    set("name", name.into());
    let direction = stream.get("dir").and_then(Value::as_str).context("`dir` is missing")?;
    set("dir", direction.into());
    let urls = stream.get("urls").and_then(Value::as_array).context("`urls` is missing, or no list")?;
    let urls: Option<Vec<&str>> = urls.iter().map(Value::as_str).collect();
    set("urls", urls.context("`urls` has something that is no text")?.into());
    for (key, value) in stream {
        match (key.as_str(), value) {
            ("dir" | "urls", _) => {}
            ("filter", Value::Object(filter)) => {
                let mut filter = filter.clone();
                if filter.remove("limit").is_some() {
                    notes.push(format!("limit in the filter of {name}: streams have none"));
                }
                set("filter", Value::Object(filter).to_string().into());
            }
            ("pluginDown", Value::String(_)) if direction == "up" => {
                notes.push(format!("pluginDown of {name}: no events come"));
            }
            ("pluginDown", Value::String(command)) => set("plugin", command.as_str().into()),
            ("pluginUp", _) => notes.push(format!("pluginUp of {name}: events that go are not judged; use the filter")),
            (key, _) => notes.push(format!("{key} of {name}: not a setting of a stream that is known here")),
        }
    }
    Ok(table)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// The forms of strfry's `docs/router.md`.
    const ROUTER: &str = r#"
        connectionTimeout = 20

        streams {
            ## spam is filtered
            friends {
                dir = "down"
                pluginDown = "/srv/filter.js"
                urls = [
                    "wss://one.example.org"
                    "wss://two.example.org"
                ]
            }
            cluster { dir = "both", urls = [ "wss://eu.example.org", ] }
            directory {
                dir = "up"
                filter = { "kinds": [0, 3] }
                pluginUp = "/srv/up.js"
                colour = "red"
                urls = [ "ws://internal.example.org" ]
            }
        }
    "#;

    #[test]
    fn the_file_of_a_router_becomes_streams_and_what_is_left_out_is_named() {
        let Migrated { tables, notes } = migrate(ROUTER).unwrap();
        let options = parse_file(&tables).unwrap();
        services::check_streams(&options).unwrap();
        let streams = options.stream.unwrap();
        let names: Vec<&str> = streams.iter().map(|stream| stream.name.as_str()).collect();
        assert_eq!(names, ["cluster", "directory", "friends"]);
        assert_eq!(streams[2].urls, ["wss://one.example.org", "wss://two.example.org"]);
        assert_eq!(streams[2].plugin.as_deref(), Some("/srv/filter.js"));
        assert_eq!(streams[1].filter.as_deref(), Some(r#"{"kinds":[0,3]}"#));
        let named = ["connectionTimeout: ", "colour of directory: ", "pluginUp of directory: "];
        assert!(notes.len() == 3 && notes.iter().zip(named).all(|(note, named)| note.starts_with(named)), "{notes:?}");
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| format!("{:#}", migrate(text).unwrap_err());
        for (text, expected) in [
            ("verbose = true", "no section `streams`"),
            ("streams { a { urls = [\"wss://a\"] } }", "stream \"a\": `dir` is missing"),
            ("streams { a { dir = \"up\" } }", "`urls` is missing"),
            ("streams { a = 1 }", "is no section"),
            ("streams { a { dir = \"up\" ", "line 1"),
        ] {
            assert!(error(text).contains(expected), "{}", error(text));
        }
    }
}
