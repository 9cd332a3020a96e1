//! Events of a file, and their fields as text.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Reads `count` events of a file with one a line, after the first `skip`.
pub(super) fn events(file: &Path, skip: usize, count: usize) -> Result<Vec<String>> {
    let opened = File::open(file).with_context(|| format!("failed to read {}", file.display()))?;
    let lines = BufReader::new(opened).lines().skip(skip).take(count);
    let events: Vec<String> = lines.collect::<Result<_, _>>()?;
    ensure!(events.len() == count, "{} has {} events from {skip} on, not {count}", file.display(), events.len());
    Ok(events)
}

/// An event's id in hexadecimal.
pub(crate) type Id = [u8; 64];

/// Returns the id in the JSON of an event, or of a message with one.
pub(crate) fn id(json: &[u8]) -> Option<Id> {
    // The quotes would be escaped in content.
    let at = memchr::memmem::find(json, b"\"id\":\"")? + 6;
    json.get(at..at + 64)?.try_into().ok()
}

/// Returns the string of a field.
pub(crate) fn field<'a>(value: &'a Value, name: &str) -> Result<&'a str> {
    value[name].as_str().with_context(|| format!("no {name} in {value:.200}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn id_is_not_searched_in_content() {
        let json = format!(r#"["EVENT","q",{{"content":"{{\"id\":\"no\"}}","id":"{}"}}]"#, "a".repeat(64));
        assert_eq!(id(json.as_bytes()), Some([b'a'; 64]));
        assert_eq!(id(b"[\"EOSE\",\"q\"]"), None);
    }
}
