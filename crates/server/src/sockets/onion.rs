//! An onion service of a Tor that runs on this machine, for the operator's own wallets: asked for by Tor's control port
//! and kept while the server runs. Its key is a file of the data folder, so its name stays.
//!
//! Source: Tor's control specification, `PROTOCOLINFO`, `AUTHENTICATE` and `ADD_ONION`.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bitcoin::hex::DisplayHex as _;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use crate::config::{Options, Switch};
use crate::sockets::BoundListener;
use crate::sockets::welcome::Endpoint;

/// Tor's usual control port.
const CONTROL_ADDR: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9051);
/// File of the key, in the data folder.
pub(crate) const KEY_FILE: &str = "onion.key";
/// A control connection's longest line. Tor's replies here have some hundred bytes.
const LINE_MAX: u64 = 4096;
const REPLY_LINES_MAX: usize = 64;
/// Pause before a Tor that is not there, or has gone, is asked again.
const RETRY: Duration = Duration::from_secs(30);

/// The service to ask for.
#[derive(Debug, Clone)]
pub(crate) struct Onion {
    control: SocketAddr,
    data_dir: PathBuf,
    /// Listeners of wallets; each has its own port in the service.
    listeners: Vec<SocketAddr>,
}

impl Onion {
    /// Returns the service that the settings want, still without listeners.
    pub(crate) fn plan(options: &Options) -> Result<Option<Self>> {
        if options.tor != Some(Switch::On) || !options.has_bitcoin() {
            return Ok(None);
        }
        let (control, data_dir) = (options.tor_control_addr.unwrap_or(CONTROL_ADDR), options.data_dir()?);
        Ok(Some(Self { control, data_dir, listeners: Vec::new() }))
    }

    /// Returns the service with a port for each listener over TCP or TLS that wallets connect to by themselves.
    pub(crate) fn of(mut self, wallets: &[BoundListener]) -> Self {
        let endpoints = wallets.iter().filter_map(Endpoint::of);
        self.listeners = endpoints.map(|endpoint| endpoint.addr).collect();
        self
    }

    /// Keeps the service until the process ends.
    pub(crate) async fn keep(self) {
        loop {
            if let Err(error) = self.keep_once().await {
                tracing::warn!(error = format!("{error:#}"), "no onion service; asking Tor again");
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Asks for the service, and returns when Tor ends the connection and with it the service.
    async fn keep_once(&self) -> Result<()> {
        let stream = TcpStream::connect(self.control).await;
        let stream = stream.with_context(|| {
            format!("failed to connect to Tor at {}; set ControlPort in torrc, or tor-control-addr here", self.control)
        })?;
        let mut control = Control { stream: BufReader::new(stream) };
        control.log_in().await?;
        let path = self.data_dir.join(KEY_FILE);
        let key = read_key(&path)?;
        let reply = control.ask(&add_onion(key.as_deref(), &self.listeners)).await?;
        let name = value(&reply, "ServiceID=").context("failed to get an onion service: Tor gave no name")?;
        // The process makes files for their owner alone.
        if let Some(key) = value(&reply, "PrivateKey=") {
            std::fs::write(&path, key).with_context(|| format!("failed to write {}", path.display()))?;
        }
        for listener in &self.listeners {
            let (onion, port) = (format!("{name}.onion"), listener.port());
            tracing::info!(onion, port, "serving wallets over Tor");
        }
        control.read_line().await?;
        bail!("Tor has ended the onion service")
    }
}

/// A connection to Tor's control port.
struct Control {
    stream: BufReader<TcpStream>,
}

impl Control {
    async fn log_in(&mut self) -> Result<()> {
        let proof = match Login::of(&self.ask("PROTOCOLINFO 1").await?)? {
            Login::Open => String::new(),
            Login::Cookie(path) => {
                let cookie = std::fs::read(&path).with_context(|| {
                    let path = path.display();
                    format!("failed to read Tor's cookie {path}; add the server's user to Tor's group (debian-tor)")
                })?;
                format!(" {}", cookie.to_lower_hex_string())
            }
        };
        self.ask(&format!("AUTHENTICATE{proof}")).await.context("failed to log in to Tor").map(drop)
    }

    /// Sends a command; returns the lines of its reply without their codes.
    async fn ask(&mut self, command: &str) -> Result<Vec<String>> {
        self.stream.write_all(format!("{command}\r\n").as_bytes()).await?;
        let mut reply = Vec::new();
        while reply.len() < REPLY_LINES_MAX {
            let line = self.read_line().await?;
            match (line.get(..4), line.get(4..)) {
                (Some("250-"), Some(text)) => reply.push(text.to_owned()),
                (Some("250 "), _) => return Ok(reply),
                // The command itself may have a secret.
                _ => bail!("Tor refuses: {line}"),
            }
        }
        bail!("Tor's reply has more than {REPLY_LINES_MAX} lines")
    }

    async fn read_line(&mut self) -> Result<String> {
        let mut line = String::new();
        (&mut self.stream).take(LINE_MAX).read_line(&mut line).await.context("failed to read from Tor")?;
        ensure!(line.ends_with('\n'), "Tor has closed the connection");
        Ok(line.trim_end().to_owned())
    }
}

/// Proof that Tor asks for.
#[derive(Debug, PartialEq, Eq)]
enum Login {
    Open,
    /// The bytes of this file.
    Cookie(PathBuf),
}

impl Login {
    /// Reads a reply to `PROTOCOLINFO`: `AUTH METHODS=COOKIE,SAFECOOKIE COOKIEFILE="/run/tor/control.authcookie"`.
    fn of(reply: &[String]) -> Result<Self> {
        let auth = value(reply, "AUTH METHODS=").context("failed to ask Tor how to log in")?;
        let (methods, file) = auth.split_once(' ').unwrap_or((auth, ""));
        if methods.split(',').any(|method| method == "NULL") {
            return Ok(Self::Open);
        }
        let file = file.strip_prefix("COOKIEFILE=\"").and_then(|file| file.strip_suffix('"'));
        match file.filter(|_| methods.split(',').any(|method| method == "COOKIE")) {
            Some(file) => Ok(Self::Cookie(file.into())),
            None => bail!("Tor wants a password; set CookieAuthentication 1 in torrc and restart it"),
        }
    }
}

/// Returns the rest of the first line with a prefix.
fn value<'a>(reply: &'a [String], prefix: &str) -> Option<&'a str> {
    reply.iter().find_map(|line| line.strip_prefix(prefix))
}

/// Returns the command that asks for a service with a key of earlier, or a new one.
fn add_onion(key: Option<&str>, listeners: &[SocketAddr]) -> String {
    let port = |addr: &SocketAddr| {
        let host = if addr.ip().is_unspecified() { CONTROL_ADDR.ip() } else { addr.ip() };
        format!(" Port={},{}", addr.port(), SocketAddr::new(host, addr.port()))
    };
    let ports: String = listeners.iter().map(port).collect();
    format!("ADD_ONION {}{ports}", key.unwrap_or("NEW:ED25519-V3"))
}

/// Reads the key of an earlier service, as Tor gave it.
fn read_key(path: &Path) -> Result<Option<String>> {
    match std::fs::read_to_string(path) {
        Ok(key) => {
            let is_key =
                key.strip_prefix("ED25519-V3:").is_some_and(|key| key.bytes().all(|byte| byte.is_ascii_graphic()));
            ensure!(
                is_key,
                "{} has no key of an onion service; restore it, or remove it for a new name",
                path.display()
            );
            Ok(Some(key))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn tor_is_logged_in_to_without_proof_or_by_its_cookie() {
        let of = |auth: &str| Login::of(&["PROTOCOLINFO 1".to_owned(), auth.to_owned()]);
        assert_eq!(of("AUTH METHODS=NULL").unwrap(), Login::Open);
        let cookie = of("AUTH METHODS=COOKIE,SAFECOOKIE,HASHEDPASSWORD COOKIEFILE=\"/run/tor/a b\"").unwrap();
        assert_eq!(cookie, Login::Cookie("/run/tor/a b".into()));
        for auth in ["AUTH METHODS=HASHEDPASSWORD", "AUTH METHODS=SAFECOOKIE COOKIEFILE=\"/a\"", "VERSION Tor=\"1\""] {
            assert!(of(auth).is_err(), "{auth}");
        }
    }

    #[test]
    fn each_listener_has_its_port_in_the_service() {
        let listeners = ["0.0.0.0:50001", "[::1]:50002"].map(|addr| addr.parse().unwrap());
        let ports = "Port=50001,127.0.0.1:50001 Port=50002,[::1]:50002";
        assert_eq!(add_onion(None, &listeners), format!("ADD_ONION NEW:ED25519-V3 {ports}"));
        assert_eq!(add_onion(Some("ED25519-V3:abc="), &listeners), format!("ADD_ONION ED25519-V3:abc= {ports}"));
    }

    #[test]
    fn a_file_without_a_key_is_never_sent_to_tor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(KEY_FILE);
        assert_eq!(read_key(&path).unwrap(), None);
        std::fs::write(&path, "ED25519-V3:abc=").unwrap();
        assert_eq!(read_key(&path).unwrap().unwrap(), "ED25519-V3:abc=");
        for wrong in ["", "abc", "ED25519-V3:abc\r\nSIGNAL SHUTDOWN"] {
            std::fs::write(&path, wrong).unwrap();
            assert!(read_key(&path).is_err(), "{wrong:?}");
        }
    }
}
