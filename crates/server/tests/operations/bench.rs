//! `birdhouse bench` becomes the program beside it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says its arguments, and ends as a failure does.
const MEASURES: &str = "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 7\n";

/// The binary, in a folder of its own.
fn installed(folder: &Path) -> PathBuf {
    let program = folder.join("birdhouse");
    fs::hard_link(env!("CARGO_BIN_EXE_birdhouse"), &program).unwrap();
    program
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(Path::new(env!("CARGO_BIN_EXE_birdhouse")).parent().unwrap()).unwrap()
}

#[test]
fn arguments_and_the_end_are_those_of_the_program_beside_it() {
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
fn where_it_is_missing_is_told() {
    let folder = folder();
    let output = Command::new(installed(folder.path())).args(["bench", "all"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && said.contains("birdhouse-bench is not there"), "{said}");
    assert!(said.contains("cargo build --release -p birdhouse-bench"), "{said}");
}
