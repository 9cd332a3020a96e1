//! The scripts around the suite: a hung download ends, and the status of a run is that of its tests.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Two tries of a second each, with time for a busy machine.
const PATIENCE: Duration = Duration::from_secs(40);
/// More than a pipe holds.
const LINES: usize = 50_000;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn patiently(limit: &str, command: &[&str]) -> Output {
    let script = repository().join("scripts/patiently");
    Command::new(script).args([limit, "a thing"]).args(command).output().unwrap()
}

#[test]
fn a_download_that_hangs_is_ended_and_tried_once_more() {
    let began = Instant::now();
    let output = patiently("1s", &["sleep", "600"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(began.elapsed() < PATIENCE, "{said}");
    assert_eq!(output.status.code(), Some(124), "{said}");
    assert!(said.contains("waiting for a thing (1s at most)"), "{said}");
    assert_eq!(said.matches("not finished after 1s").count(), 2, "{said}");
}

#[test]
fn a_download_that_fails_once_is_repeated_and_its_output_kept() {
    let folder = tempfile::tempdir().unwrap();
    let second = folder.path().join("second");
    let script = format!("if test -e {0}; then echo done; else touch {0}; exit 3; fi", second.display());
    let output = patiently("1m", &["sh", "-c", &script]);
    assert!(output.status.success());
    assert_eq!(output.stdout, b"done\n");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("ended with status 3") && said.contains("once more"), "{said}");
}

/// Runs `.ci/run` with a `make` that writes many lines and the output of two tests; closes the pipe after `read` bytes.
/// Returns the status, and the log.
fn ci(tested: i32, read: usize) -> (Option<i32>, String) {
    let folder = tempfile::tempdir().unwrap();
    let (program, target) = (folder.path().join("make"), folder.path().join("target"));
    fs::create_dir_all(target.join("test")).unwrap();
    let script = format!(
        "#!/bin/bash\n\
         for ((i = 0; i < {LINES}; i++)); do echo \"line $i of make $1\"; done\n\
         if [ $1 = check ]; then exit 0; fi\n\
         printf 'test good ... ok\\ntest bad ... FAILED\\ntest result: FAILED. 1 passed; 1 failed; 2 ignored;\\n' \\\n\
         > \"$CARGO_TARGET_DIR/test/log\"\n\
         exit {tested}\n"
    );
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut child = Command::new(repository().join(".ci/run"))
        .env("PATH", path)
        .env("CARGO_TARGET_DIR", &target)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = child.stdout.take().unwrap();
    let mut some = vec![0; read];
    stdout.read_exact(&mut some).unwrap();
    drop(stdout);
    let status = child.wait().unwrap();
    (status.code(), fs::read_to_string(target.join("ci.log")).unwrap())
}

#[test]
fn the_status_of_a_run_is_that_of_its_tests_though_nobody_reads_its_output() {
    for tested in [0, 2] {
        let (status, log) = ci(tested, 10);
        let end = log.lines().rev().take(4).collect::<Vec<_>>().join("\n");
        assert_eq!(status, Some(tested), "{end}");
        assert_eq!(log.matches("of make test").count(), LINES, "{end}");
        let expected =
            format!("\nmake check: status 0; make test: status {tested}\nFAILED bad\n1 passed, 1 failed, 2 skipped\n");
        assert!(log.ends_with(&expected), "{end}");
    }
}

#[test]
fn every_verb_of_the_makefile_runs_on_a_push_or_at_night() {
    let read = |file: &str| fs::read_to_string(repository().join(file)).unwrap();
    let workflows = read(".github/workflows/ci.yml") + &read(".github/workflows/nightly.yml");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let is_run = |verb: &&str| {
        let lines = workflows.lines().map(words);
        lines.into_iter().any(|line| {
            let of_make = line.windows(2).any(|pair| pair == ["make", verb]);
            of_make || line.first().is_some_and(|first| first == "-") && line.get(1).is_some_and(|first| first == verb)
        })
    };
    let makefile = read("Makefile");
    let verbs = makefile.lines().find_map(|line| line.strip_prefix(".PHONY:")).unwrap();
    let left_out: Vec<&str> = verbs.split_whitespace().filter(|verb| !is_run(verb)).collect();
    assert_eq!(left_out, [""; 0]);
}

/// `scripts/bitcoind` builds the node alone.
#[test]
fn no_script_needs_a_program_of_the_node_that_is_not_built() {
    let read = |file: &str| fs::read_to_string(repository().join(file)).unwrap();
    assert!(read("scripts/bitcoind").contains("-DBUILD_CLI=OFF"));
    for script in fs::read_dir(repository().join("scripts")).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(text) = fs::read_to_string(&script) else { continue };
        let code = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
        for program in ["bitcoin-cli", "bitcoin-tx", "bitcoin-wallet", "bitcoin-util"] {
            assert!(!code.contains(&format!("/{program}")), "{}: {program}", script.display());
        }
    }
}
