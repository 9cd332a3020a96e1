//! `birdhouse bench` runs the program in its own folder.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program that prints its arguments and fails.
const MEASURES: &str = "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n";

/// Links the binary into a folder of its own.
fn installed(folder: &Path) -> PathBuf {
    let program = folder.join("birdhouse");
    fs::hard_link(env!("CARGO_BIN_EXE_birdhouse"), &program).unwrap();
    program
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(Path::new(env!("CARGO_BIN_EXE_birdhouse")).parent().unwrap()).unwrap()
}

#[test]
fn arguments_and_exit_code_pass_through() {
    let folder = folder();
    let program = installed(folder.path());
    let beside = folder.path().join("birdhouse-bench");
    fs::write(&beside, MEASURES).unwrap();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).unwrap();
    for arguments in [&["report", "a b.json", "--html", "x"][..], &["--help"], &["all", "--", "-h"]] {
        let output = Command::new(&program).arg("bench").args(arguments).output().unwrap();
        let said = format!("<{}>", arguments.join("><"));
        assert_eq!((String::from_utf8(output.stdout).unwrap(), output.status.code()), (said, Some(7)));
    }
}

#[test]
fn a_missing_program_is_an_error_with_advice() {
    let folder = folder();
    let output = Command::new(installed(folder.path())).args(["bench", "all"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("birdhouse-bench: no such file"), "{said}");
    assert!(said.contains("cargo build --release -p birdhouse-bench"), "{said}");
}
