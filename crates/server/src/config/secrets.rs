//! Secrets of the operator: read from files, from systemd's credentials or from the environment, and warned of where
//! other users of the machine could see them.
//!
//! Source: `systemd.exec(5)`, section "Credentials".

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::net::{IpAddr, ToSocketAddrs as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use birdhouse_watch::api::{TOKEN_CHARS_MIN, Token};

use crate::config::{Options, watch_files};
use crate::process::random;

/// Variable in which systemd names the folder of a service's credentials.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";
/// Name of the credential with the password of the node's RPC.
const RPC_PASSWORD: &str = "rpc-password";
/// Largest secret, bytes.
const SECRET_BYTES_MAX: usize = 4096;

/// Returns user and password for the node's RPC, if the settings name a user.
///
/// # Errors
/// Only one of the two is set, the password is set twice, or its file cannot be read.
pub(crate) fn rpc_login(options: &Options) -> Result<Option<(String, String)>> {
    let credential = credential(RPC_PASSWORD);
    rpc_login_with(options, credential.as_deref())
}

fn rpc_login_with(options: &Options, credential: Option<&Path>) -> Result<Option<(String, String)>> {
    let password = match (&options.rpc_password, options.rpc_password_file.as_deref()) {
        (Some(_), Some(_)) => bail!("--rpc-password and --rpc-password-file are both set; keep one"),
        (Some(password), None) => Some(password.clone()),
        (None, Some(file)) => Some(read(file)?),
        // A credential alone chooses nothing: the unit may hold one that the settings do not use.
        (None, None) => credential.filter(|_| options.rpc_user.is_some()).map(read).transpose()?,
    };
    match (&options.rpc_user, password) {
        (Some(user), Some(password)) => {
            ensure!(
                options.rpc_cookie_file.is_none(),
                "--rpc-user and --rpc-cookie-file are both set; keep one of the two logins"
            );
            Ok(Some((user.clone(), password)))
        }
        (None, None) => Ok(None),
        (Some(_), None) => bail!(
            "--rpc-user is set without a password; set --rpc-password-file, or the systemd credential {RPC_PASSWORD}"
        ),
        (None, Some(_)) => bail!("the RPC password is set without --rpc-user; set both"),
    }
}

/// Returns the URL of a Nostream's database: the given one, else that of the file.
///
/// # Errors
/// None of them is there, or the file cannot be read.
pub(crate) fn nostream(url: Option<String>, file: Option<&Path>) -> Result<String> {
    match (url, file) {
        (Some(url), _) => Ok(url),
        (None, Some(file)) => read(file),
        (None, None) => bail!("nothing to import; give a FILE, --nostream or --nostream-file"),
    }
}

/// Returns the secret that replicas show to their primary.
///
/// # Errors
/// The file cannot be read.
pub(crate) fn of_replicas(options: &Options) -> Result<Option<String>> {
    options.replica_secret_file.as_deref().map(read).transpose()
}

/// The file with the token of the API for programs.
#[derive(Debug, Clone)]
pub(crate) struct TokenFile {
    path: PathBuf,
    origin: TokenOrigin,
}

/// The one who makes the token.
#[derive(Debug, Clone, Copy)]
enum TokenOrigin {
    Operator,
    /// The server, at first use.
    Server,
}

impl TokenFile {
    /// Returns the file that the settings name, else one in the data folder.
    ///
    /// # Errors
    /// The data folder is unknown.
    pub(crate) fn of(options: &Options) -> Result<Self> {
        Ok(match &options.watch_api_token_file {
            Some(path) => Self { path: path.clone(), origin: TokenOrigin::Operator },
            None => Self { path: options.data_dir()?.join(watch_files::API_TOKEN), origin: TokenOrigin::Server },
        })
    }

    /// Returns the token. A file in the data folder is made if there is none. Only its owner may read it.
    ///
    /// # Errors
    /// The file can be read by others, holds no token, or can neither be read nor made.
    pub(crate) fn token(&self) -> Result<Token> {
        if matches!(self.origin, TokenOrigin::Server) {
            make_token(&self.path)?;
        }
        self.read()
    }

    /// Checks the token as [`Self::token`] does, and makes none.
    ///
    /// # Errors
    /// The file can be read by others, holds no token, or cannot be read.
    pub(crate) fn check(&self) -> Result<()> {
        let is_made_at_start = matches!(self.origin, TokenOrigin::Server) && !self.path.exists();
        if is_made_at_start { Ok(()) } else { self.read().map(drop) }
    }

    fn read(&self) -> Result<Token> {
        let path = &self.path;
        let mode =
            fs::metadata(path).with_context(|| format!("failed to read {}", path.display()))?.permissions().mode();
        ensure!(mode.trailing_zeros() >= 6, "others may read the token in {0}; run `chmod 600 {0}`", path.display());
        let token = Token::new(&read(path)?);
        token.with_context(|| {
            format!(
                "failed to use the token in {}: it needs {TOKEN_CHARS_MIN} characters at least, without spaces",
                path.display()
            )
        })
    }
}

/// Returns the token of the API for programs.
///
/// # Errors
/// See [`TokenFile::token`].
pub(crate) fn watch_api_token(options: &Options) -> Result<Token> {
    TokenFile::of(options)?.token()
}

/// Makes a file with a random token, if there is none.
fn make_token(path: &Path) -> Result<()> {
    let made = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match made {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("failed to create {}", path.display())),
    };
    let written = writeln!(file, "{}", Token::of_random(random::bytes()?).as_str()).and_then(|()| file.sync_all());
    written.with_context(|| format!("failed to write {}", path.display()))
}

/// Returns user and password for the cluster, if the settings name a user.
///
/// # Errors
/// Only one of the two is set, or the file cannot be read.
#[cfg(feature = "cluster")]
pub(crate) fn store_login(options: &Options) -> Result<Option<(String, String)>> {
    match (&options.store_user, options.store_password_file.as_deref()) {
        (Some(user), Some(file)) => Ok(Some((user.clone(), read(file)?))),
        (None, None) => Ok(None),
        (Some(_), None) => bail!("--store-user is set without a password; set --store-password-file"),
        (None, Some(_)) => bail!("--store-password-file is set without --store-user; set both"),
    }
}

/// Returns the path of a credential that systemd has given to this service.
fn credential(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(CREDENTIALS)?).join(name);
    path.is_file().then_some(path)
}

/// Reads a secret: the first line of a file.
fn read(path: &Path) -> Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))?;
    let secret = text.lines().next().unwrap_or_default().trim_end();
    ensure!(!secret.is_empty(), "failed to read {}: its first line is empty", path.display());
    ensure!(secret.len() <= SECRET_BYTES_MAX, "failed to read {}: its first line is too long", path.display());
    Ok(secret.to_owned())
}

/// Returns the warning that RPC leaves this machine unencrypted; `None` if it does not, or nobody knows yet.
pub(crate) fn clear_rpc(address: &str) -> Option<String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let is_local = match host.trim_matches(['[', ']']).parse::<IpAddr>() {
        Ok(ip) => ip.is_loopback(),
        // A name that is unknown now is reported by the first request.
        Err(_) => host == "localhost" || address.to_socket_addrs().ok()?.all(|addr| addr.ip().is_loopback()),
    };
    (!is_local).then(|| {
        format!(
            "the RPC password and the answers of the node at {address} cross the network unencrypted; use a tunnel, \
             for example WireGuard or `ssh -L`, unless that network is your own"
        )
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn file(text: &str) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text).unwrap();
        file
    }

    #[test]
    fn the_token_of_programs_is_made_once_and_never_shared() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { data_dir: Some(folder.path().into()), ..Options::default() };
        let token = watch_api_token(&options).unwrap();
        assert_eq!((token.as_str().len(), watch_api_token(&options).unwrap().as_str()), (64, token.as_str()));
        let path = folder.path().join("watch-api-token");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(watch_api_token(&options).unwrap_err().to_string().contains("run `chmod 600"));
        let own = file("short");
        let options = Options { watch_api_token_file: Some(own.path().into()), ..options };
        assert!(watch_api_token(&options).unwrap_err().to_string().contains("16 characters"));
        fs::write(own.path(), "0123456789abcdef\n").unwrap();
        assert_eq!(watch_api_token(&options).unwrap().as_str(), "0123456789abcdef");
    }

    #[test]
    fn the_password_comes_from_the_setting_its_file_or_a_credential() {
        let (own, credential) = (file("from file\n"), file("from systemd\n"));
        let user = Options { rpc_user: Some("alice".into()), ..Options::default() };
        let login = |options: &Options| rpc_login_with(options, Some(credential.path()));
        let password = |options: &Options| login(options).unwrap().unwrap().1;
        assert_eq!(password(&user), "from systemd");
        let with_file = Options { rpc_password_file: Some(own.path().into()), ..user.clone() };
        assert_eq!(password(&with_file), "from file");
        assert_eq!(password(&Options { rpc_password: Some("given".into()), ..user.clone() }), "given");
        assert_eq!(login(&Options::default()).unwrap(), None, "a credential alone chooses nothing");
        let twice = Options { rpc_password: Some("given".into()), ..with_file.clone() };
        assert!(login(&twice).unwrap_err().to_string().contains("keep one"));
        let cookie_too = Options { rpc_cookie_file: Some("cookie".into()), ..with_file.clone() };
        assert!(login(&cookie_too).unwrap_err().to_string().contains("keep one"));
        assert!(rpc_login_with(&user, None).unwrap_err().to_string().contains("--rpc-password-file"));
        assert!(login(&Options { rpc_user: None, ..with_file }).unwrap_err().to_string().contains("--rpc-user"));
        let empty = Options { rpc_password_file: Some(file("\n").path().into()), ..user };
        assert!(login(&empty).is_err());
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn a_login_of_a_cluster_has_a_user_and_a_password() {
        let own = file("from file\n");
        let (user, password) = (Some("bird".to_owned()), Some(own.path().to_owned()));
        let login = |store_user: &Option<String>, store_password_file: &Option<PathBuf>| {
            let (store_user, store_password_file) = (store_user.clone(), store_password_file.clone());
            store_login(&Options { store_user, store_password_file, ..Options::default() })
        };
        assert_eq!(login(&user, &password).unwrap(), Some(("bird".to_owned(), "from file".to_owned())));
        assert_eq!(login(&None, &None).unwrap(), None);
        assert!(login(&user, &None).unwrap_err().to_string().contains("--store-password-file"));
        assert!(login(&None, &password).unwrap_err().to_string().contains("--store-user"));
    }

    #[test]
    fn rpc_to_another_host_is_warned_of() {
        for local in ["127.0.0.1:8332", "[::1]:8332", "localhost:8332"] {
            assert_eq!(clear_rpc(local), None, "{local}");
        }
        for remote in ["192.0.2.7:8332", "[2001:db8::1]:8332"] {
            assert!(clear_rpc(remote).unwrap().contains("unencrypted"), "{remote}");
        }
    }
}
