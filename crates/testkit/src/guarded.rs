//! Child processes that cannot outlive us, not even when we are killed with SIGKILL.
//!
//! Two small shells do it without `unsafe`. The *gate* holds the child back until its watchdog stands:
//! it waits for a line on its standard input and then becomes the program (same pid). The *watchdog*
//! holds the reading end of a pipe whose writing end only we have: when we die, by whatever means, the
//! kernel closes it, and the watchdog kills the program. (`PR_SET_PDEATHSIG` would follow the *thread*
//! that started the child, and tests start children from threads that end early.)
//! Both run in process groups of their own, so that Ctrl-C in a terminal reaches us alone.

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

/// What to run.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) envs: Vec<(String, OsString)>,
    /// Standard output and error are appended here.
    pub(crate) log: PathBuf,
}

impl Launch {
    /// The end of the log, for error messages.
    pub(crate) fn log_tail(&self) -> String {
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

    pub(crate) fn failed(&self, what: impl Into<String>) -> Error {
        Error::Start { program: self.name(), what: what.into(), log: self.log_tail() }
    }
}

/// A running child with its watchdog. Dropping it kills and reaps both.
#[derive(Debug)]
pub(crate) struct Guarded {
    launch: Launch,
    child: Child,
    watchdog: Child,
}

impl Guarded {
    pub(crate) fn spawn(launch: Launch) -> Result<Self> {
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
        let mut guarded = Self { launch, child, watchdog };
        if let Err(error) = gate.write_all(b"go\n") {
            guarded.kill();
            return Err(error.into());
        }
        Ok(guarded)
    }

    pub(crate) fn launch(&self) -> &Launch {
        &self.launch
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn exited(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Asks `ready` until it gives something; fails when the child ends or `patience` does.
    pub(crate) fn until<T>(&mut self, patience: Duration, mut ready: impl FnMut() -> Result<Option<T>>) -> Result<T> {
        let start = Instant::now();
        loop {
            if let Some(value) = ready()? {
                return Ok(value);
            }
            if let Some(status) = self.exited()? {
                return Err(self.launch.failed(format!("ended before it was ready ({status})")));
            }
            if start.elapsed() > patience {
                return Err(self.launch.failed(format!("was not ready after {} s", patience.as_secs())));
            }
            thread::sleep(POLL);
        }
    }

    /// Waits for the child's own end.
    pub(crate) fn wait(&mut self, patience: Duration) -> Result<ExitStatus> {
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

    /// SIGKILL, and reap.
    pub(crate) fn kill(&mut self) {
        // The watchdog goes first: once the child is reaped, its pid may be another's.
        let _ = self.watchdog.kill();
        let _ = self.watchdog.wait();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Guarded {
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
        // A zombie counts as dead: nobody runs there any more.
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
    }

    #[test]
    fn dropping_kills_child_and_watchdog() {
        let folder = tempfile::tempdir().unwrap();
        let guarded = Guarded::spawn(sleeper(folder.path())).unwrap();
        let pids = [guarded.pid(), guarded.watchdog.id()];
        assert!(pids.iter().all(|&pid| alive(pid)));
        drop(guarded);
        assert!(pids.iter().all(|&pid| !alive(pid)));
    }

    #[test]
    fn watchdog_kills_child_when_its_pipe_closes_as_it_does_when_we_die() {
        let folder = tempfile::tempdir().unwrap();
        let mut guarded = Guarded::spawn(sleeper(folder.path())).unwrap();
        drop(guarded.watchdog.stdin.take());
        let status = guarded.wait(Duration::from_secs(20)).unwrap();
        assert!(!status.success());
    }

    #[test]
    fn missing_program_is_reported_with_its_words() {
        let folder = tempfile::tempdir().unwrap();
        let launch = Launch { program: "/nonexistent/bitcoind".into(), ..sleeper(folder.path()) };
        let mut guarded = Guarded::spawn(launch).unwrap();
        let error = guarded.until(Duration::from_secs(20), || Ok(None::<()>)).unwrap_err();
        assert!(error.to_string().contains("not found"), "{error}");
    }
}
