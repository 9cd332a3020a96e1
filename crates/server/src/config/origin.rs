//! The settings in effect, each with its origin.

use std::path::Path;

use anyhow::{Context as _, Result};
use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _};
use toml::Value;

use super::example::{default_of, name_of};
use super::{CommandLine, Given, SECRETS, VARIABLE};

/// Stands for a secret.
const HIDDEN: &str = "(hidden)";

/// A setting, its value as TOML and its origin. A comment stands for a setting without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) name: String,
    pub(crate) value: Option<String>,
    pub(crate) origin: String,
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
    for argument in run.get_arguments().filter(|argument| argument.get_id() != "help" && !argument.is_hide_set()) {
        let name = name_of(argument).to_owned();
        let in_file = table.remove(&name);
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let (value, origin) = match (given(matches, argument.get_id().as_str()), in_file) {
            (Some((value, ValueSource::EnvVariable)), _) => {
                (Some(value), format!("{VARIABLE}{}", name.replace('-', "_").to_uppercase()))
            }
            (Some((value, _)), _) => (Some(value), format!("--{name}")),
            (None, Some(value)) => (Some(value.to_string()), file.clone()),
            (None, None) => (default_of(&help).map(default), "default".to_owned()),
        };
        let is_secret = SECRETS.iter().any(|(_, flag)| flag.strip_prefix("--") == Some(&*name));
        let value = value.map(|value| if is_secret { format!("{HIDDEN:?}") } else { value });
        settings.push(Setting { name, value, origin });
    }
    let tables = table.into_iter().map(|(name, value)| (name, Some(shown(&value))));
    settings.extend(tables.map(|(name, value)| Setting { name, value, origin: file.clone() }));
    Ok(settings)
}

/// Returns the value of a flag or a variable, as TOML.
fn given(matches: &ArgMatches, id: &str) -> Option<(String, ValueSource)> {
    let values = matches.try_get_raw(id).ok()??;
    let values: Vec<String> = values.map(|value| format!("{:?}", value.to_string_lossy())).collect();
    let value = if values.len() == 1 { values.into_iter().next()? } else { format!("[{}]", values.join(", ")) };
    Some((value, matches.value_source(id)?))
}

/// Formats a default of the help as TOML.
fn default(text: &str) -> String {
    if text.parse::<u64>().is_ok() { text.to_owned() } else { format!("{text:?}") }
}

/// Formats a value of the file in one line.
fn shown(value: &Value) -> String {
    match value {
        Value::Table(table) => {
            let fields: Vec<String> = table.iter().map(|(name, value)| format!("{name} = {}", shown(value))).collect();
            format!("{{ {} }}", fields.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(shown).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}
