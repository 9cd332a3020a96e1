//! The first thing that a newcomer runs.

use std::process::Command;

#[test]
fn the_demo_asks_every_half_and_ends_without_a_complaint() {
    let output = Command::new(env!("CARGO_BIN_EXE_birdhouse")).args(["demo", "--once"]).output().unwrap();
    let [answers, log] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{answers}{log}");
    for answer in ["Indexed 202 blocks", "tip: height 201", " unspent outputs, ", "height by REST: 201", "newest notes"]
    {
        assert!(answers.contains(answer), "{answer}: {answers}{log}");
    }
    assert_eq!(answers.lines().rev().take_while(|line| line.starts_with("  \"")).count(), 3, "notes: {answers}");
    // The bound on connections follows the machine's limit of open files.
    let complaints: Vec<&str> = log.lines().filter(|line| !line.contains("limit of open files")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}
