//! Reading the configuration file: messages that name the line and the right name, and lists that may be one text.

use std::fmt;
use std::marker::PhantomData;
use std::net::SocketAddr;

use anyhow::{Error, anyhow};
use serde::Deserialize;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, SeqAccess, Visitor};

use super::values::socket_addr;
use super::{SECRETS, renamed};

/// Parses the text of a configuration file.
///
/// # Errors
/// Names the line, and for an unknown setting the present or the most similar name.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    toml::from_str(text).map_err(|error| explain(text, &error))
}

fn explain(text: &str, error: &toml::de::Error) -> Error {
    let line = error.span().map_or(0, |span| text[..span.start].matches('\n').count());
    if let Some(setting) = secret_at(text, line) {
        return anyhow!("line {}: write {setting} once, as a text in quotes: {setting} = \"...\"", line + 1);
    }
    let Some(Unknown { what, name, allowed }) = Unknown::parse(error.message()) else {
        return anyhow!("{}", error.to_string().trim_end());
    };
    let hint = renamed::hint(name, &allowed).unwrap_or_else(|| format!("use one of {}", allowed.join(", ")));
    anyhow!("line {}: unknown {what} {name:?}; {hint}", line + 1)
}

/// Returns the setting of a line, counted from 0, if its value is a secret, which the parser's message would repeat. It
/// cannot be an unknown setting, and each of them is a text.
fn secret_at(text: &str, line: usize) -> Option<&'static str> {
    let (key, _) = text.lines().nth(line)?.split_once('=')?;
    let key = key.trim().trim_matches(['"', '\'']);
    SECRETS.iter().filter_map(|(_, flag)| flag.strip_prefix("--")).find(|setting| *setting == key)
}

/// An unknown name, and the names that serde expected in its place.
struct Unknown<'a> {
    what: &'static str,
    name: &'a str,
    allowed: Vec<&'a str>,
}

impl<'a> Unknown<'a> {
    /// Takes apart serde's message: "unknown field `a`, expected one of `b`, `c`".
    fn parse(message: &'a str) -> Option<Self> {
        let (what, rest) = match message.strip_prefix("unknown field ") {
            Some(rest) => ("setting", rest),
            None => ("value", message.strip_prefix("unknown variant ")?),
        };
        let mut names = rest.split('`').skip(1).step_by(2);
        Some(Self { what, name: names.next()?, allowed: names.collect() })
    }
}

// === deserializers of fields ===

/// Reads a list, which may be written as one text, like a flag's: `"a,b"` for `["a", "b"]`.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    deserializer.deserialize_any(ListReader(PhantomData)).map(Some)
}

/// Reads an address with a port.
pub(super) fn addr<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    socket_addr(&text).map(Some).map_err(serde::de::Error::custom)
}

struct ListReader<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for ListReader<T> {
    type Value = Vec<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value or a list of values")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        text.split(',').map(|item| T::deserialize(item.trim().into_deserializer())).collect()
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Vec<T>, E> {
        T::deserialize(number.into_deserializer()).map(|item| vec![item])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Vec<T>, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(items))
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::config::values::{KindRange, Readers};

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
    struct Settings {
        #[serde(deserialize_with = "list")]
        relay_url: Option<Vec<String>>,
        #[serde(deserialize_with = "list")]
        relay_allow_kinds: Option<Vec<KindRange>>,
        #[serde(deserialize_with = "addr")]
        relay_addr: Option<SocketAddr>,
        relay_private_messages: Option<Readers>,
        rpc_password: Option<String>,
        limits: Limits,
    }

    #[derive(Debug, Default, PartialEq, Deserialize)]
    #[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
    struct Limits {
        idle_timeout: u64,
        live_queue_events: u64,
    }

    fn error(text: &str) -> String {
        parse::<Settings>(text).unwrap_err().to_string()
    }

    #[test]
    fn no_message_repeats_a_secret() {
        let forms = [
            "12345678",
            "hunter2",
            "\"12345678",
            "[\"12345678\"]",
            "{ is = \"hunter2\" }",
            "\"12345678\" \"hunter2\"",
            "\"1\"\nrpc-password = \"12345678\"",
        ];
        for form in forms {
            let message = error(&format!("relay-url = []\nrpc-password = {form}\n"));
            assert!(
                message.starts_with("line ") && message.contains(": write rpc-password once, as a text in quotes"),
                "{form}: {message}"
            );
            assert!(!message.contains("1234") && !message.contains("hunter"), "{form}: {message}");
        }
    }

    #[test]
    fn a_list_may_be_one_text_or_one_number() {
        let urls = |text: &str| parse::<Settings>(text).unwrap().relay_url.unwrap();
        assert_eq!(urls("relay-url = 'wss://a'"), ["wss://a"]);
        assert_eq!(urls("relay-url = 'wss://a, wss://b'"), ["wss://a", "wss://b"]);
        assert_eq!(urls("relay-url = ['wss://a']"), ["wss://a"]);
        let kinds = |text: &str| parse::<Settings>(text).unwrap().relay_allow_kinds.unwrap();
        assert_eq!(kinds("relay-allow-kinds = 7"), [KindRange(7..=7)]);
        assert_eq!(kinds("relay-allow-kinds = '0-9,30'"), kinds("relay-allow-kinds = ['0-9', 30]"));
        assert!(error("relay-url = true").contains("expected a value or a list of values"));
    }

    #[test]
    fn a_misspelt_setting_is_named_with_its_line_and_the_nearest_one() {
        assert_eq!(
            error("\nrelay-ulr = 'wss://a'"),
            "line 2: unknown setting \"relay-ulr\"; did you mean \"relay-url\"?"
        );
        assert_eq!(
            error("[limits]\n\nxyz = 5"),
            "line 3: unknown setting \"xyz\"; use one of idle-timeout, live-queue-events"
        );
    }

    #[test]
    fn a_former_name_is_an_error_that_says_the_present_one() {
        assert_eq!(
            error("[limits]\nuntold = 5"),
            "line 2: unknown setting \"untold\"; it is now called \"live-queue-events\""
        );
        assert_eq!(
            error("relay-private-messages = 'people'"),
            "line 1: unknown value \"people\"; it is now called \"participants\""
        );
        assert!(!error("untold = 5").contains("now called"), "that name is not of this table");
    }

    #[test]
    fn other_errors_show_the_line() {
        let error = error("relay-addr = '127.0.0.1'");
        assert!(error.contains("relay-addr = '127.0.0.1'") && error.contains("needs a port"), "{error}");
    }
}
