//! The settings in effect, each with its origin.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _};
use serde_json::json;
use toml::Value;

use super::example::{default_of, name_of};
use super::{CommandLine, Given, SECRETS, VARIABLE, parse_file};

/// Origin of a setting that is not set.
const DEFAULT: &str = "default";
/// Stands for a secret.
const HIDDEN: &str = "(hidden)";

/// A setting, its value as TOML and its origin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) origin: String,
    /// A configuration file with this value has the same effect.
    pub(crate) use_in_file: UseInFile,
}

/// The use of a printed setting in a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UseInFile {
    /// It has the effect that it has now.
    Same,
    /// Not set, hidden, or no setting of the file: it is printed as a comment.
    None,
}

impl Given {
    /// Returns the settings in effect with their origins.
    ///
    /// # Errors
    /// The configuration file cannot be read.
    pub(crate) fn settings(&self, config: Option<&Path>) -> Result<Vec<Setting>> {
        settings(&self.0, config)
    }
}

/// Returns all settings of a command, in the order of `--help`, then the tables of the configuration file.
fn settings(matches: &ArgMatches, file: Option<&Path>) -> Result<Vec<Setting>> {
    let mut table = match file {
        None => toml::Table::new(),
        Some(path) => {
            let text = std::fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
            // Errors with their line were reported when the settings were read.
            text.parse().with_context(|| format!("failed to read {}", path.display()))?
        }
    };
    let file = file.map(|path| path.display().to_string()).unwrap_or_default();
    let command = CommandLine::command();
    let run = command.find_subcommand("run").expect("it is defined");
    let mut settings = Vec::new();
    for argument in run.get_arguments().filter(|argument| argument.get_id() != "help") {
        let name = name_of(argument).to_owned();
        let in_file = table.remove(&name);
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let (value, origin) = match (given(matches, &name, argument.get_id().as_str()), in_file) {
            (Some((value, ValueSource::EnvVariable)), _) => {
                (Some(value), format!("{VARIABLE}{}", name.replace('-', "_").to_uppercase()))
            }
            (Some((value, _)), _) => (Some(value), format!("--{name}")),
            (None, Some(value)) => (Some(shown(&value)), file.clone()),
            (None, None) if argument.is_hide_set() => continue,
            (None, None) => (default_of(&help).map(|text| typed(&name, text)), DEFAULT.to_owned()),
        };
        let is_secret = SECRETS.iter().any(|(_, flag)| flag.strip_prefix("--") == Some(&*name));
        let use_in_file =
            if is_secret || origin == DEFAULT || name == "config" { UseInFile::None } else { UseInFile::Same };
        let value = value.map(|value| if is_secret { quoted(HIDDEN) } else { value });
        settings.push(Setting { name, value, origin, use_in_file });
    }
    let in_table = |(name, value): (String, Value)| {
        let (value, origin) = (Some(shown(&value)), file.clone());
        Setting { name, value, origin, use_in_file: UseInFile::Same }
    };
    settings.extend(table.into_iter().map(in_table));
    Ok(settings)
}

/// Returns the value of a flag or a variable, as TOML.
fn given(matches: &ArgMatches, name: &str, id: &str) -> Option<(String, ValueSource)> {
    let values = matches.try_get_raw(id).ok()??;
    let values: Vec<String> = values.map(|value| typed(name, &value.to_string_lossy())).collect();
    let value = if values.len() == 1 { values.into_iter().next()? } else { format!("[{}]", values.join(", ")) };
    Some((value, matches.value_source(id)?))
}

/// Formats the text of a flag, or of a default, as TOML of the type that the setting has: a text, else a number.
fn typed(name: &str, text: &str) -> String {
    let as_text = quoted(text);
    let is_read = parse_file(&format!("{name} = {as_text}")).is_ok();
    if !is_read && text.parse::<u64>().is_ok() { text.to_owned() } else { as_text }
}

/// Formats a text as TOML in one line. JSON's escapes are some of TOML's, which also needs one for DEL.
fn quoted(text: &str) -> String {
    json!(text).to_string().replace('\u{7f}', "\\u007F")
}

/// Formats a value of the file in one line.
fn shown(value: &Value) -> String {
    match value {
        Value::Table(table) => {
            let fields: Vec<String> = table.iter().map(|(name, value)| format!("{name} = {}", shown(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        Value::String(text) => quoted(text),
        other => other.to_string(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::super::example::value;
    use super::super::{Options, example};
    use super::*;

    /// Prints settings and reads them back.
    fn read_back(settings: &[Setting]) -> Options {
        let used = settings.iter().filter(|setting| setting.use_in_file == UseInFile::Same);
        let lines = used.map(|setting| format!("{} = {}", setting.name, setting.value.as_deref().unwrap()));
        parse_file(&lines.collect::<Vec<_>>().join("\n")).unwrap()
    }

    fn shown_without_file(options: Options) -> String {
        format!("{:#?}", Options { config: None, ..options })
    }

    #[test]
    fn every_setting_of_a_file_is_read_back_as_it_was() {
        let is_setting = |line: &&str| line.contains(" = ") && !line.starts_with("# ") || line.starts_with("#[");
        let example = example();
        let lines = example.lines().filter(is_setting).filter_map(|line| line.strip_prefix('#'));
        let text = lines.collect::<Vec<_>>().join("\n");
        let file = tempfile::NamedTempFile::new().unwrap();
        let odd = r#""a \"quoted\" line\nand \\ \u007F # another""#;
        let text = text.replacen("banner = \"..\"", &format!("banner = {odd}"), 1);
        std::fs::write(file.path(), &text).unwrap();
        let options = parse_file(&text).unwrap();
        assert!(options.given().len() > 70 && options.banner.as_deref().unwrap().contains('\u{7f}'));
        let settings = settings(&ArgMatches::default(), Some(file.path())).unwrap();
        let without_secret = Options { rpc_password: None, ..options };
        assert_eq!(shown_without_file(read_back(&settings)), shown_without_file(without_secret));
    }

    #[test]
    fn every_flag_is_read_back_as_it_was() {
        let command = CommandLine::command();
        let run = command.find_subcommand("run").unwrap();
        for argument in run.get_arguments().filter(|argument| !["help", "config"].contains(&argument.get_id().as_str()))
        {
            let name = name_of(argument);
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            // Settings for tests have no example.
            let example = value(argument, &help).trim_matches('"').replace('_', "");
            let values = [if argument.is_hide_set() { "2".to_owned() } else { example }];
            let lists = argument.get_value_delimiter().map(|_| format!("{0},{0}", values[0]));
            for value in values.into_iter().chain(lists) {
                let words = ["birdhouse", "config", &format!("--{name}={value}")];
                let matches = CommandLine::command().get_matches_from(words);
                let matches = matches.subcommand().unwrap().1;
                let options = <Options as clap::FromArgMatches>::from_arg_matches(matches).unwrap();
                let settings = settings(matches, None).unwrap();
                let options = Options { rpc_password: None, ..options };
                assert_eq!(shown_without_file(read_back(&settings)), shown_without_file(options), "{name}");
            }
        }
    }
}
