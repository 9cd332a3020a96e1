//! A reader of the configuration format of taocpp, as far as strfry's files use it: JSON with comments, names without
//! quotes, `=` beside `:`, sections without either, and commas that may be left out. Pure.
//!
//! Source: <https://github.com/taocpp/config/blob/main/doc/Writing-Config-Files.md>.

use serde_json::{Map, Value};

/// Sections within sections.
const DEPTH_MAX: usize = 32;

/// Reads a file.
///
/// # Errors
/// The line, and what is wrong there.
pub(super) fn parse(text: &str) -> Result<Map<String, Value>, String> {
    let mut reader = Reader { text, at: 0 };
    let parsed = reader.members(End::OfFile, 0);
    parsed.map_err(|why| format!("line {}: {why}", text[..reader.at].matches('\n').count() + 1))
}

/// The end of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    OfFile,
    Brace,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn take(&mut self, expected: char) -> bool {
        let is_there = self.peek() == Some(expected);
        if is_there {
            self.at += expected.len_utf8();
        }
        is_there
    }

    /// Skips white space and comments.
    fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            let comment = &rest[blank..];
            let length = if comment.starts_with('#') || comment.starts_with("//") {
                comment.find('\n').unwrap_or(comment.len())
            } else if comment.starts_with("/*") {
                comment.find("*/").map_or(comment.len(), |end| end + 2)
            } else {
                0
            };
            self.at += blank + length;
            if length == 0 {
                return;
            }
        }
    }

    fn members(&mut self, end: End, depth: usize) -> Result<Map<String, Value>, String> {
        let mut members = Map::new();
        loop {
            self.skip();
            let has_ended = match end {
                End::OfFile => self.rest().is_empty(),
                End::Brace => self.take('}'),
            };
            if has_ended {
                return Ok(members);
            }
            let name = self.name()?;
            self.skip();
            if self.rest().starts_with("+=") || name == "include" {
                return Err(format!("{name}: only plain values are read; write what it stands for"));
            }
            if !self.take('=') && !self.take(':') && self.peek() != Some('{') {
                return Err(format!("expected a value of {name}"));
            }
            let value = self.value(depth + 1)?;
            if members.insert(name.clone(), value).is_some() {
                return Err(format!("{name} is there twice"));
            }
            self.skip();
            self.take(',');
        }
    }

    fn name(&mut self) -> Result<String, String> {
        if matches!(self.peek(), Some('"' | '\'')) {
            return self.string();
        }
        let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_' || char == '-';
        let length = self.rest().find(|char| !is_part(char)).unwrap_or(self.rest().len());
        if length == 0 {
            return Err(match self.peek() {
                Some(char) => format!("expected a name instead of {char:?}"),
                None => "the file ends within a section".to_owned(),
            });
        }
        let name = self.rest()[..length].to_owned();
        self.at += length;
        Ok(name)
    }

    fn value(&mut self, depth: usize) -> Result<Value, String> {
        if depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} sections within each other"));
        }
        self.skip();
        match self.peek() {
            Some('{') => {
                self.take('{');
                self.members(End::Brace, depth).map(Value::Object)
            }
            Some('[') => {
                self.take('[');
                self.items(depth).map(Value::Array)
            }
            Some('"' | '\'') => self.string().map(Value::String),
            _ => self.word(),
        }
    }

    fn items(&mut self, depth: usize) -> Result<Vec<Value>, String> {
        let mut items = Vec::new();
        loop {
            self.skip();
            if self.take(']') {
                return Ok(items);
            }
            items.push(self.value(depth + 1)?);
            self.skip();
            self.take(',');
        }
    }

    /// Reads a text in double quotes, with the escapes of JSON, or in single ones.
    fn string(&mut self) -> Result<String, String> {
        let open = "a text without an end".to_owned();
        if self.take('\'') {
            let length =
                self.rest().find(['\'', '\n']).filter(|at| self.rest()[*at..].starts_with('\'')).ok_or(open)?;
            let text = self.rest()[..length].to_owned();
            self.at += length + 1;
            return Ok(text);
        }
        let mut stream = serde_json::Deserializer::from_str(self.rest()).into_iter::<String>();
        let text = stream.next().and_then(Result::ok).ok_or(open)?;
        self.at += stream.byte_offset();
        Ok(text)
    }

    /// Reads a number, `true`, `false` or `null`.
    fn word(&mut self) -> Result<Value, String> {
        let is_part = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
        let length = self.rest().find(|char| !is_part(char)).unwrap_or(self.rest().len());
        let word = &self.rest()[..length];
        let value = serde_json::from_str(word).map_err(|_| match self.peek() {
            Some('(' | '$') => "only plain values are read; write what it stands for".to_owned(),
            _ => format!("expected a value instead of {:?}", self.rest().chars().take(20).collect::<String>()),
        })?;
        self.at += length;
        Ok(value)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_forms_of_the_format_are_read() {
        let text = "a = 1 # one\n// two\n b { c: 'x#y', d = [1 2, 3,] } /* three\n */ \"e f\" = \"\\u00e9\" g=true";
        let expected = json!({ "a": 1, "b": { "c": "x#y", "d": [1, 2, 3] }, "e f": "é", "g": true });
        assert_eq!(Value::Object(parse(text).unwrap()), expected);
    }

    #[test]
    fn mistakes_have_their_line() {
        for (text, expected) in [
            ("a = 1\nb", "line 2: expected a value of b"),
            ("a {\n", "line 2: the file ends within a section"),
            ("a = 1 a = 2", "line 1: a is there twice"),
            ("a = \"x", "line 1: a text without an end"),
            ("a = (env \"HOME\")", "line 1: only plain values"),
            ("a += 1", "line 1: a: only plain values"),
            ("= 1", "line 1: expected a name instead of '='"),
        ] {
            assert!(parse(text).unwrap_err().starts_with(expected), "{:?}", parse(text));
        }
        assert!(parse(&"a{".repeat(1000)).unwrap_err().contains("within each other"));
        assert!(parse(&format!("a={}", "[".repeat(100_000))).is_err());
    }

    proptest! {
        /// JSON is a part of the format.
        #[test]
        fn json_is_read_as_it_is(names in prop::collection::btree_map("[a-z \"é\\\\]{1,8}", -1000_i64..1000, 0..8)) {
            let value = json!({ "all": names, "list": names.keys().collect::<Vec<_>>() });
            let text = serde_json::to_string_pretty(&value).unwrap();
            prop_assert_eq!(Value::Object(parse(text.trim_matches(['{', '}'])).unwrap()), value);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[a-c={}\\[\\]\"'#/*\n ,0-9é]{0,60}") {
            let _ = parse(&text);
        }
    }
}
