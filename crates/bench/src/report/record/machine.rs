//! Machine and time of a record, without which figures cannot be compared.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// The machine of a record. Unknown values are "unknown", or 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// Model name of the processor.
    pub(crate) cpu: String,
    /// Number of cores that this program may use.
    pub(crate) cores: usize,
    pub(crate) memory_bytes: u64,
    pub(crate) kernel: String,
    /// Type of the file system that has the indexes of the measured servers.
    pub(crate) file_system: String,
}

impl Machine {
    pub(crate) fn this(folder: &Path) -> Self {
        Self {
            cpu: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            cores: thread::available_parallelism().map_or(0, Into::into),
            memory_bytes: memory_bytes().unwrap_or(0),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| unknown(), |text| text.trim().into()),
            file_system: file_system(folder).unwrap_or_else(unknown),
        }
    }

    /// Returns a description in one line.
    pub(crate) fn in_words(&self) -> String {
        let Self { cpu, cores, kernel, file_system, memory_bytes } = self;
        let gib = memory_bytes >> 30;
        format!("{cores} cores of {cpu}, {gib} GiB, Linux {kernel}, {file_system}")
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

/// Returns the value after a name and a colon in a file of `/proc`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    Some(value.trim().to_owned())
}

fn memory_bytes() -> Option<u64> {
    let kib: u64 = field("/proc/meminfo", "MemTotal")?.trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

/// Returns the type of the file system that has a folder or will have it.
fn file_system(folder: &Path) -> Option<String> {
    let there = folder.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("."));
    let output = Command::new("df").args(["--output=fstype"]).arg(there).output().ok()?;
    Some(String::from_utf8(output.stdout).ok()?.lines().nth(1)?.trim().to_owned())
}

/// Returns the command line of this process, quoted for a shell.
pub(crate) fn command_line() -> String {
    let mut words = env::args();
    let program = words.next().unwrap_or_default();
    let program = Path::new(&program).file_name().map_or(program.clone(), |name| name.to_string_lossy().into_owned());
    std::iter::once(program).chain(words.map(|word| quoted(&word))).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Returns the present time: RFC 3339, UTC, in whole seconds.
#[expect(clippy::disallowed_methods, reason = "a record has its time")]
pub(crate) fn now() -> String {
    let now = OffsetDateTime::from(std::time::SystemTime::now());
    now.replace_nanosecond(0).unwrap_or(now).format(&Rfc3339).unwrap_or_else(|_| unknown())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_needs_it() {
        assert_eq!(quoted("--relay"), "--relay");
        assert_eq!(quoted("a=ws://h:1#2"), "'a=ws://h:1#2'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn this_machine_is_known() {
        let machine = Machine::this(Path::new("/no/such/folder"));
        assert!(machine.cores > 0 && machine.memory_bytes > 1 << 20, "{machine:?}");
        assert!([&machine.kernel, &machine.file_system].iter().all(|text| **text != "unknown"), "{machine:?}");
        assert!(now().ends_with('Z') && now().len() == 20, "{}", now());
    }
}
