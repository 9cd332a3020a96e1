//! A program of the operator's: it gets the notice as JSON on its standard input, and an exit code of 0 means that it
//! has it. No shell, and nothing of the notice among its arguments, which every user of the machine can read.

use std::process::{ExitStatus, Stdio};

use futures_util::future::BoxFuture;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command as Process;

use super::message::{Channel, Message, Outcome, Wording};
use crate::limits::{ARGUMENTS_MAX, COMMAND_TIMEOUT};

/// Variables of the server's environment that the program gets. Others may hold passwords.
const VARIABLES: &[&str] = &["PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "XDG_RUNTIME_DIR"];

/// A program and its arguments.
pub(super) struct Command {
    program: String,
    arguments: Vec<String>,
    wording: Wording,
}

impl Command {
    /// A program and its arguments.
    ///
    /// # Errors
    /// The reason.
    pub(super) fn new(argv: &[String], wording: Wording) -> Result<Self, String> {
        let (program, arguments) = argv.split_first().ok_or("a command needs at least the path of its program")?;
        if !program.starts_with('/') {
            return Err("the program of a command must be an absolute path, like /usr/local/bin/tell".into());
        }
        if arguments.len() > ARGUMENTS_MAX || argv.iter().any(|word| word.contains('\0')) {
            return Err(format!("a command has at most {ARGUMENTS_MAX} arguments, and none holds a zero byte"));
        }
        Ok(Self { program: program.clone(), arguments: arguments.to_vec(), wording })
    }

    async fn run(&self, input: &[u8]) -> Result<ExitStatus, String> {
        let failed = |error: std::io::Error| format!("failed to run {}: {error}", self.program);
        let variables = VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        let mut child = Process::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let mut stdin = child.stdin.take().expect("it is piped");
        // A program may end without having read all; its exit code decides.
        let write = async move {
            let _ = stdin.write_all(input).await;
        };
        let ((), status) = tokio::join!(write, child.wait());
        status.map_err(failed)
    }
}

impl Channel for Command {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let mut input = message.json(self.wording).to_string().into_bytes();
            input.push(b'\n');
            match tokio::time::timeout(COMMAND_TIMEOUT, self.run(&input)).await {
                Ok(Ok(status)) if status.success() => Outcome::Delivered,
                Ok(Ok(status)) => Outcome::retry(format!("{} ended with {status}", self.program)),
                Ok(Err(why)) => Outcome::retry(why),
                Err(_) => Outcome::retry(format!("{} took more than {} s", self.program, COMMAND_TIMEOUT.as_secs())),
            }
        })
    }
}

#[cfg(test)]
#[path = "command_tests.rs"]
mod tests;
