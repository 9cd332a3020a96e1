//! A private PostgreSQL: the database of other relays, to import from and to compare with.
//!
//! It listens on loopback only, on a port that the system picked, and ends with the process that started it. PostgreSQL
//! refuses to run as root. Root therefore starts it as `postgres`, or as `nobody` where there is no such user.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use birdhouse_regtest::Error as RegtestError;
use birdhouse_regtest::bitcoind::free_port;
use birdhouse_regtest::child_guard::{ChildGuard, Launch};
use tempfile::TempDir;

use crate::error::{Result, at};

/// The folder where Debian keeps the programs of each version.
const DEBIAN: &str = "/usr/lib/postgresql";
const USER: &str = "nostream";
const PASSWORD: &str = "a 'password'";
/// The password as it is written in a URL.
const PASSWORD_ESCAPED: &str = "a%20%27password%27";
const START_PATIENCE: Duration = Duration::from_mins(2);
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// A running PostgreSQL. Dropping it stops it.
#[derive(Debug)]
pub struct Postgres {
    child: ChildGuard,
    port: u16,
    _folder: TempDir,
}

/// A certificate and its key, in PEM.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The certificate.
    pub chain: String,
    /// Its private key.
    pub key: String,
}

/// The user that runs the server.
#[derive(Debug, Clone)]
enum Runner {
    Current,
    /// This process is root and runs the server as another user, named here with the number of its group.
    Other {
        user: &'static str,
        group: String,
    },
}

impl Postgres {
    /// Makes a cluster in a temporary folder and starts the server.
    pub fn start() -> Result<Self> {
        Self::start_with(None, &[])
    }

    /// Makes a cluster and starts the server with settings of `postgresql.conf`.
    pub fn start_with_settings(settings: &[(&str, &str)]) -> Result<Self> {
        Self::start_with(None, settings)
    }

    /// Makes a cluster and starts the server so that it accepts TLS too.
    pub fn start_with_tls(certificate: &Certificate) -> Result<Self> {
        Self::start_with(Some(certificate), &[])
    }

    fn start_with(certificate: Option<&Certificate>, more: &[(&str, &str)]) -> Result<Self> {
        let (programs, runner) = (programs()?, Runner::find()?);
        let folder = tempfile::Builder::new().prefix("birdhouse-postgres-").tempdir()?;
        let mut settings: Vec<String> = more.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if let Some(Certificate { chain, key }) = certificate {
            for (file, setting, text) in [("chain.pem", "ssl_cert_file", chain), ("key.pem", "ssl_key_file", key)] {
                let path = folder.path().join(file);
                fs::write(&path, text).map_err(at(&path))?;
                // PostgreSQL refuses a key that other users may read.
                fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(at(&path))?;
                settings.push(format!("{setting}={}", path.display()));
            }
            settings.push("ssl=on".to_owned());
        }
        let cluster = make_cluster(&programs, &runner, folder.path())?;
        let (port, log) = (free_port()?, folder.path().join("log"));
        let mut arguments: Vec<OsString> = vec!["-D".into(), cluster.into(), "-k".into(), folder.path().into()];
        let own = [format!("port={port}"), "listen_addresses=127.0.0.1".to_owned(), "fsync=off".to_owned()];
        for setting in own.iter().chain(&settings) {
            arguments.extend(["-c".into(), setting.into()]);
        }
        let (program, args) = runner.command(&programs.join("postgres"), arguments);
        let mut child = ChildGuard::spawn(Launch { program, args, envs: Vec::new(), log: log.clone() })?;
        child.until(START_PATIENCE, || {
            let text = fs::read_to_string(&log).map_err(at(&log))?;
            Ok::<_, RegtestError>(text.contains("database system is ready to accept connections").then_some(()))
        })?;
        Ok(Self { child, port, _folder: folder })
    }

    /// Returns the URL of the database.
    pub fn url(&self) -> String {
        self.url_of(PASSWORD_ESCAPED, "postgres")
    }

    /// Returns the URL with this password, escaped for a URL, and this database.
    pub fn url_of(&self, password: &str, database: &str) -> String {
        format!("postgres://{USER}:{password}@127.0.0.1:{}/{database}", self.port)
    }

    /// Returns the process id of the server's first process.
    pub fn pid(&self) -> u32 {
        self.child.pid()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // SIGINT ends its other processes and frees its shared memory; after SIGKILL they would remain for a while.
        let interrupted = Command::new("kill").args(["-INT", &self.child.pid().to_string()]).status();
        if interrupted.is_ok_and(|status| status.success()) {
            // If it does not end in time, dropping the guard kills it.
            let _ = self.child.wait(STOP_PATIENCE);
        }
    }
}

/// Returns the folder with `initdb` and `postgres`: `$POSTGRES_BIN`, else Debian's newest, else a folder of `PATH`.
fn programs() -> Result<PathBuf> {
    let named = std::env::var_os("POSTGRES_BIN").map(PathBuf::from);
    let versions = fs::read_dir(DEBIAN).into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let mut installed: Vec<PathBuf> = versions.collect();
    installed.sort_by_key(|path| {
        path.parent().and_then(Path::file_name).and_then(|name| name.to_str()?.parse::<u32>().ok())
    });
    let in_path = std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let places = named.into_iter().chain(installed.into_iter().rev()).chain(in_path.into_iter().flatten());
    let found = places.into_iter().find(|folder| folder.join("initdb").is_file()).ok_or(RegtestError::Missing {
        program: "PostgreSQL",
        script: "scripts/prepare peers",
        variable: "POSTGRES_BIN",
    });
    Ok(found?)
}

fn make_cluster(programs: &Path, runner: &Runner, folder: &Path) -> Result<PathBuf> {
    let (cluster, password) = (folder.join("cluster"), folder.join("password"));
    fs::write(&password, PASSWORD).map_err(at(&password))?;
    if let Runner::Other { user, .. } = runner {
        run(Command::new("chown").arg("-R").arg(user).arg(folder))?;
    }
    let arguments = ["--username", USER, "--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"];
    let mut arguments: Vec<OsString> = arguments.map(OsString::from).into();
    arguments.extend(["--pwfile".into(), password.into(), "-D".into(), cluster.clone().into()]);
    let (program, arguments) = runner.command(&programs.join("initdb"), arguments);
    run(Command::new(program).args(arguments).current_dir(folder))?;
    Ok(cluster)
}

fn run(command: &mut Command) -> Result<Output> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(output);
    }
    let program = command.get_program().to_string_lossy().into_owned();
    let log = String::from_utf8_lossy(&[&*output.stdout, &*output.stderr].concat()).into_owned();
    Err(RegtestError::Start { program, what: format!("failed ({})", output.status), log }.into())
}

// === impl Runner ===

impl Runner {
    fn find() -> Result<Self> {
        let id = |arguments: &[&str]| Command::new("id").args(arguments).output();
        if id(&["-u"])?.stdout.trim_ascii() != b"0" {
            return Ok(Self::Current);
        }
        let user = if id(&["-u", "postgres"])?.status.success() { "postgres" } else { "nobody" };
        let group = String::from_utf8_lossy(id(&["-g", user])?.stdout.trim_ascii()).into_owned();
        Ok(Self::Other { user, group })
    }

    /// Returns the command that runs a program as this user; the process id stays the same.
    fn command(&self, program: &Path, arguments: Vec<OsString>) -> (PathBuf, Vec<OsString>) {
        match self {
            Self::Current => (program.to_owned(), arguments),
            Self::Other { user, group } => {
                let mut line: Vec<OsString> =
                    ["--reuid", user, "--regid", group, "--clear-groups", "--"].map(OsString::from).into();
                line.push(program.into());
                line.extend(arguments);
                ("setpriv".into(), line)
            }
        }
    }
}
