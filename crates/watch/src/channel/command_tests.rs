//! Commands, with programs of the system.
#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;
use crate::channel::tests::{message, why};

fn command(argv: &[&str], wording: Wording) -> Command {
    let argv: Vec<_> = argv.iter().map(|word| (*word).to_owned()).collect();
    Command::new(&argv, wording).unwrap()
}

#[tokio::test]
async fn the_program_gets_json_on_its_input_and_nothing_of_it_among_its_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let (input, arguments) = (folder.path().join("input"), folder.path().join("arguments"));
    let script = "cat > \"$0\"; tr '\\0' '\\n' < /proc/$$/cmdline > \"$1\"; env >> \"$1\"";
    let argv = ["/bin/sh", "-c", script, input.to_str().unwrap(), arguments.to_str().unwrap()];
    assert_eq!(command(&argv, Wording::WithAmounts).send(&message()).await, Outcome::Delivered);
    let got: serde_json::Value = serde_json::from_slice(&std::fs::read(input).unwrap()).unwrap();
    assert_eq!(got, message().json(Wording::WithAmounts));
    let seen = std::fs::read_to_string(arguments).unwrap();
    assert!(!seen.contains("Savings") && !seen.contains("aa11") && !seen.contains("CARGO"), "{seen}");
}

#[tokio::test]
async fn words_of_the_arguments_are_not_interpreted() {
    let folder = tempfile::tempdir().unwrap();
    let harmless = folder.path().join("made");
    let word = format!("; touch {}", harmless.display());
    assert_eq!(
        command(&["/bin/echo", &word, "$(id)"], Wording::WithAmounts).send(&message()).await,
        Outcome::Delivered
    );
    assert!(!harmless.exists());
}

#[tokio::test]
async fn another_exit_code_a_signal_and_a_missing_program_are_failures() {
    let cases = [&["/bin/sh", "-c", "exit 3"][..], &["/bin/sh", "-c", "kill -9 $$"], &["/nonexistent"]];
    for (argv, expected) in cases.into_iter().zip(["3", "9", "No such file"]) {
        let why = why(command(argv, Wording::WithAmounts).send(&message()).await);
        assert!(why.contains(expected), "{why}");
    }
}

#[tokio::test]
async fn a_program_that_does_not_read_is_judged_by_its_exit_code() {
    let long = Message { line: "a".repeat(1 << 20), ..message() };
    assert_eq!(command(&["/bin/true"], Wording::WithAmounts).send(&long).await, Outcome::Delivered);
}

#[test]
fn relative_paths_are_refused() {
    for argv in [vec![], vec!["notify-send".to_owned()], vec!["./a".to_owned()], vec!["/bin/a".into(), "b\0".into()]] {
        assert!(Command::new(&argv, Wording::WithAmounts).is_err());
    }
}
