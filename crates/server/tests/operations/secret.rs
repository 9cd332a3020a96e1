//! Search for a secret in whatever a server writes, says or holds.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use bitcoin::hex::DisplayHex as _;

use crate::process::Birdhouse;

/// A secret, and the forms in which it could lie somewhere.
pub(crate) struct Secret {
    pub(crate) hex: String,
    forms: Vec<Vec<u8>>,
}

impl Secret {
    /// The secret of a test, by its first byte.
    pub(crate) fn new(first: usize) -> Self {
        Self::of(std::array::from_fn(|at| u8::try_from(at * 7 + first).unwrap()))
    }

    /// A secret of 32 bytes.
    pub(crate) fn of(bytes: [u8; 32]) -> Self {
        let hex = bytes.to_lower_hex_string();
        let reversed: Vec<u8> = bytes.iter().rev().copied().collect();
        let mut forms = vec![bytes.to_vec(), hex.clone().into(), hex.to_uppercase().into()];
        // Numbers are often stored the other way round.
        forms.extend([reversed.clone(), reversed.to_lower_hex_string().into()]);
        forms.extend([", ", ","].map(|between| bytes.map(|byte| byte.to_string()).join(between).into_bytes()));
        forms.extend((0..3).map(|before| base64_after(before, &bytes)));
        Self { hex, forms }
    }

    /// A secret that is used as this text alone.
    pub(crate) fn of_text(text: &str) -> Self {
        Self { hex: String::new(), forms: vec![text.into()] }
    }

    /// The secret of a file, and this text, which is another form of it.
    pub(crate) fn with(mut self, form: &str) -> Self {
        self.forms.push(form.into());
        self
    }

    pub(crate) fn is_in(&self, text: &[u8]) -> bool {
        self.forms.iter().any(|form| memchr::memmem::find(text, form).is_some())
    }

    /// Returns the files of a folder that have it.
    pub(crate) fn files_in(&self, folder: &Path) -> Vec<String> {
        let mut found = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                found.extend(self.files_in(&path));
            } else if path.is_file() && self.is_in(&fs::read(&path).unwrap()) {
                found.push(path.display().to_string());
            }
        }
        found
    }

    /// Returns the writable parts of a process's memory that have it as it is sent or used.
    pub(crate) fn memory_of(&self, process: u32) -> Vec<String> {
        let memory = File::open(format!("/proc/{process}/mem")).unwrap();
        let maps = fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
        let writable =
            maps.lines().filter(|line| line.split_whitespace().nth(1).is_some_and(|mode| mode.contains('w')));
        let has_it = |line: &&str| {
            let (start, end) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
            let [start, end] = [start, end].map(|address| u64::from_str_radix(address, 16).unwrap());
            let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
            memory.read_exact_at(&mut bytes, start).is_ok() && self.is_in(&bytes)
        };
        writable.filter(has_it).map(str::to_owned).collect()
    }
}

/// Asserts that secrets are in nothing that the server says to its operator.
pub(crate) fn assert_unsaid(secrets: &[Secret], server: &Birdhouse) {
    let pages = ["/metrics", "/health", "/", "/connections", "/reports", "/control", "/watches"];
    let pages = pages.map(|path| server.get(path).body);
    let asked = ["status", "connections"].map(|word| server.ctl(&[word]).1);
    for said in pages.iter().chain(&asked) {
        assert!(!secrets.iter().any(|secret| secret.is_in(said.as_bytes())), "{said}");
    }
}

/// Asserts that secrets are in nothing that the server says to its operator, and in no file: its log, what it stores.
pub(crate) fn assert_hidden(secrets: &[Secret], server: &Birdhouse) {
    assert_unsaid(secrets, server);
    for secret in secrets {
        assert_eq!(secret.files_in(server.dir()), Vec::<String>::new());
    }
}

/// Returns those characters of base64 that this secret alone decides, after some other bytes.
fn base64_after(before: usize, bytes: &[u8; 32]) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<u8> = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect();
    // Digits that begin in the bytes before have some of their bits.
    let skipped = (6 - 8 * before % 6) % 6;
    let digits = bits[skipped..].chunks_exact(6).map(|six| six.iter().fold(0, |digit, bit| digit << 1 | bit));
    digits.map(|digit| DIGITS[usize::from(digit)]).collect()
}

#[test]
fn a_secret_is_found_in_every_form_and_no_other_is() {
    let secret = Secret::new(5);
    let bytes = secret.forms[0].clone();
    let coded = |before: &[u8]| {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), [before, &bytes[..], b"and more"].concat()).unwrap();
        std::process::Command::new("base64").arg("--wrap=0").arg(file.path()).output().unwrap().stdout
    };
    for text in [coded(b""), coded(b"a"), coded(b"ab"), coded(b"abc"), format!("{bytes:?}").into()] {
        assert!(secret.is_in(&text) && !Secret::new(6).is_in(&text), "{}", String::from_utf8_lossy(&text));
    }
    let json = serde_json::to_vec(&bytes).unwrap();
    assert!(secret.is_in(&json) && secret.is_in(secret.hex.to_uppercase().as_bytes()) && secret.is_in(&bytes));
}
