//! Child processes that cannot outlive their parent, even when SIGKILL ends the parent.
//!
//! Two small shells do this without `unsafe`. The *gate* delays the child until its watchdog runs: it waits for a line
//! on its standard input and then becomes the program, with the same process id. The *watchdog* reads from a pipe whose
//! writing end only the parent has. When the parent ends, for any reason, the kernel closes the pipe, and the watchdog
//! kills the program. `PR_SET_PDEATHSIG` was rejected: it follows the *thread* that started the child, and tests start
//! children from threads that end early. Both shells have process groups of their own, so Ctrl-C in a terminal reaches
//! only the parent.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::{Error, Result, at};

const GATE: &str = r#"read -r go && exec "$@" </dev/null"#;
const WATCHDOG: &str = r#"read -r end; kill -9 "$1" 2>/dev/null"#;
const POLL: Duration = Duration::from_millis(10);
const LOG_TAIL_BYTES: u64 = 2000;

/// A command to run.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The path of the program.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Environment variables to set.
    pub envs: Vec<(String, OsString)>,
    /// The file that standard output and error are appended to.
    pub log: PathBuf,
}

impl Launch {
    /// Returns the last 2000 bytes of the log, for error messages.
    pub fn log_tail(&self) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.log)?;
            let len = file.metadata()?.len();
            file.seek(SeekFrom::Start(len.saturating_sub(LOG_TAIL_BYTES)))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().unwrap_or_else(|error| format!("(no log: {error})"))
    }

    fn name(&self) -> String {
        self.program.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned())
    }

    /// Makes an error from `what` the program did and the end of its log.
    pub fn failed(&self, what: impl Into<String>) -> Error {
        Error::Start { program: self.name(), what: what.into(), log: self.log_tail() }
    }
}

/// A child process with its watchdog. Dropping it kills both and waits for their end.
#[derive(Debug)]
pub struct ChildGuard {
    launch: Launch,
    child: Child,
    watchdog: Child,
}

impl ChildGuard {
    /// Starts the program; its standard input is `/dev/null`.
    ///
    /// A program that cannot be run is no error here: the shell reports it in the log and ends.
    pub fn spawn(launch: Launch) -> Result<Self> {
        let log = OpenOptions::new().create(true).append(true).open(&launch.log).map_err(at(&launch.log))?;
        let mut child = Command::new("sh")
            .args(["-c", GATE, "gate"])
            .arg(&launch.program)
            .args(&launch.args)
            .envs(launch.envs.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()?;
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", &child.id().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let mut gate = child.stdin.take().expect("stdin was piped");
        let mut guard = Self { launch, child, watchdog };
        if let Err(error) = gate.write_all(b"go\n") {
            guard.kill();
            return Err(error.into());
        }
        Ok(guard)
    }

    /// Returns the command that was run.
    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the exit status if the child has ended.
    pub fn exited(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Calls `ready` every 10 ms until it returns a value.
    ///
    /// # Errors
    /// [`Error::Start`] when the child ends or `patience` is over; the error of `ready`.
    pub fn until<T, E: From<Error>>(
        &mut self,
        patience: Duration,
        mut ready: impl FnMut() -> std::result::Result<Option<T>, E>,
    ) -> std::result::Result<T, E> {
        let start = Instant::now();
        loop {
            if let Some(value) = ready()? {
                return Ok(value);
            }
            if let Some(status) = self.exited()? {
                return Err(self.launch.failed(format!("ended before it was ready ({status})")).into());
            }
            if start.elapsed() > patience {
                return Err(self.launch.failed(format!("was not ready after {} s", patience.as_secs())).into());
            }
            thread::sleep(POLL);
        }
    }

    /// Waits for the child to end by itself.
    ///
    /// # Errors
    /// [`Error::Start`] when `patience` is over.
    pub fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
        let start = Instant::now();
        loop {
            if let Some(status) = self.exited()? {
                return Ok(status);
            }
            if start.elapsed() > patience {
                return Err(self.launch.failed(format!("did not end within {} s", patience.as_secs())));
            }
            thread::sleep(POLL);
        }
    }

    /// Kills the child with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        // The watchdog ends first: after the child has been waited for, its process id may belong to another process.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        self.kill();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn sleeper(folder: &std::path::Path) -> Launch {
        Launch { program: "sleep".into(), args: vec!["1000".into()], envs: Vec::new(), log: folder.join("log") }
    }

    fn alive(pid: u32) -> bool {
        // A zombie counts as dead: it runs no code.
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
    }

    #[test]
    fn dropping_kills_child_and_watchdog() {
        let folder = tempfile::tempdir().unwrap();
        let guard = ChildGuard::spawn(sleeper(folder.path())).unwrap();
        let pids = [guard.pid(), guard.watchdog.id()];
        assert!(pids.iter().all(|&pid| alive(pid)));
        drop(guard);
        assert!(pids.iter().all(|&pid| !alive(pid)));
    }

    #[test]
    fn watchdog_kills_child_when_its_pipe_closes_as_it_does_when_we_die() {
        let folder = tempfile::tempdir().unwrap();
        let mut guard = ChildGuard::spawn(sleeper(folder.path())).unwrap();
        drop(guard.watchdog.stdin.take());
        let status = guard.wait(Duration::from_secs(20)).unwrap();
        assert!(!status.success());
    }

    #[test]
    fn error_of_a_missing_program_has_the_end_of_its_log() {
        let folder = tempfile::tempdir().unwrap();
        let launch = Launch { program: "/nonexistent/bitcoind".into(), ..sleeper(folder.path()) };
        let mut guard = ChildGuard::spawn(launch).unwrap();
        let error = guard.until(Duration::from_secs(20), || Ok::<_, Error>(None::<()>)).unwrap_err();
        assert!(error.to_string().contains("not found"), "{error}");
    }
}
