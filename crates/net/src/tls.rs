//! TLS with a certificate and key from files that may change while the server runs, or made by the server itself.
//!
//! A handshake uses the files as they are then; connections go on with what they began with. Files that cannot be
//! used (half replaced, of different keys) are reported once, and the last good pair stays.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use crate::io::Io;
use parking_lot::{Mutex, MutexGuard};
use rcgen::{CertificateParams, DnType, KeyPair, date_time_ymd};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::server::TlsStream;
use tracing::{info, warn};

/// Time between two checks of the files, made by handshakes.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
/// Bytes that TLS may hold back for a slow reader; what waits beyond stays in the outbox, where it is counted.
const TLS_BUFFER_BYTES: usize = 16 * 1024;

/// A certificate and its key.
#[derive(Debug)]
pub struct Certificate {
    files: Files,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Files {
    /// The certificate, then those that lead to its root.
    chain: PathBuf,
    key: PathBuf,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// The first certificate of its chain, in DER.
    leaf: CertificateDer<'static>,
    /// Of the files that were read last, usable or not.
    stamp: Option<Stamp>,
    checked: Instant,
}

/// The files, as they were read.
struct Pair {
    config: Arc<ServerConfig>,
    leaf: CertificateDer<'static>,
}

/// Changes when a file does.
type Stamp = [(SystemTime, u64); 2];

/// A certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CertificateError {
    /// A file cannot be read.
    #[error("failed to read {path}: {error}")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// The self-signed pair cannot be kept.
    #[error("failed to write {path}: {error}")]
    Write {
        /// Its place.
        path: PathBuf,
        /// The cause.
        error: std::io::Error,
    },
    /// A file holds no such item in PEM.
    #[error("{path} has no {what} in PEM")]
    Missing {
        /// The file.
        path: PathBuf,
        /// A certificate, or a private key.
        what: &'static str,
    },
    /// The two do not belong together, or are of a kind that is not supported.
    #[error("failed to use certificate {path} with its key: {error}")]
    Unusable {
        /// The certificate.
        path: PathBuf,
        /// The cause.
        error: tokio_rustls::rustls::Error,
    },
    /// No self-signed certificate could be made.
    #[error("failed to make a certificate: {0}")]
    Make(#[from] rcgen::Error),
}

type Result<T> = std::result::Result<T, CertificateError>;

// === impl Certificate ===

impl Certificate {
    /// Name of the pair that the server makes for itself, in one file so that it is written in one step.
    pub const SELF_SIGNED: &str = "electrum-tls.pem";

    /// Reads a certificate chain and its private key, both in PEM. Both may be in one file.
    pub fn open(chain: &Path, key: &Path) -> Result<Self> {
        let files = Files { chain: chain.into(), key: key.into() };
        let stamp = files.stamp();
        let Pair { config, leaf } = files.read()?;
        Ok(Self { files, current: Mutex::new(Current { config, leaf, stamp, checked: Instant::now() }) })
    }

    /// Takes the self-signed pair that is kept in `folder`, or makes one for these names. Wallets that have seen a
    /// self-signed certificate expect it again, so it is made once and lasts.
    pub fn self_signed(folder: &Path, names: &[String]) -> Result<Self> {
        let path = folder.join(Self::SELF_SIGNED);
        if !path.exists() {
            make(&path, names)?;
            info!(path = %path.display(), "made a self-signed certificate");
        }
        Self::open(&path, &path)
    }

    /// Does the server's side of a handshake.
    pub async fn accept<S: Io>(&self, socket: S) -> std::io::Result<TlsStream<S>> {
        let mut stream = TlsAcceptor::from(self.config(Instant::now())).accept(socket).await?;
        stream.get_mut().1.set_buffer_limit(Some(TLS_BUFFER_BYTES));
        Ok(stream)
    }

    /// Reads changed files now, and not only at a later handshake.
    pub fn reload(&self) {
        let now = Instant::now();
        self.refresh(&mut self.current.lock(), now);
    }

    /// Returns the first certificate of the chain in DER, as a client sees it.
    ///
    /// # Errors
    /// The file cannot be read, or holds no certificate.
    pub fn leaf(&self) -> Result<Vec<u8>> {
        let chain = self.files.read_chain()?;
        Ok(chain.first().map(|leaf| leaf.to_vec()).unwrap_or_default())
    }

    /// Returns the certificate in DER that a handshake shows now. It differs from [`Self::leaf`] while the files hold a
    /// newer one that cannot be used.
    pub fn leaf_in_use(&self) -> Vec<u8> {
        self.current(Instant::now()).leaf.to_vec()
    }

    /// The configuration for a handshake now.
    fn config(&self, now: Instant) -> Arc<ServerConfig> {
        Arc::clone(&self.current(now).config)
    }

    /// The pair of the files, which are checked again after a while.
    fn current(&self, now: Instant) -> MutexGuard<'_, Current> {
        let mut current = self.current.lock();
        if now.saturating_duration_since(current.checked) >= CHECK_INTERVAL {
            self.refresh(&mut current, now);
        }
        current
    }

    /// Takes the files if they have changed and can be used.
    fn refresh(&self, current: &mut Current, now: Instant) {
        current.checked = now;
        let stamp = self.files.stamp();
        if stamp == current.stamp {
            return;
        }
        current.stamp = stamp;
        match self.files.read() {
            Ok(Pair { config, leaf }) => {
                (current.config, current.leaf) = (config, leaf);
                info!(path = %self.files.chain.display(), "took the new certificate");
            }
            Err(error) => warn!(%error, "keeping the last certificate"),
        }
    }
}

impl Files {
    fn stamp(&self) -> Option<Stamp> {
        let of = |path| fs::metadata(path).and_then(|file| Ok((file.modified()?, file.len()))).ok();
        Some([of(&self.chain)?, of(&self.key)?])
    }

    fn read_chain(&self) -> Result<Vec<CertificateDer<'static>>> {
        let chain: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(&self.chain)?).collect();
        let chain = chain.ok().filter(|chain| !chain.is_empty());
        chain.ok_or_else(|| missing(&self.chain, "certificate"))
    }

    fn read(&self) -> Result<Pair> {
        let chain = self.read_chain()?;
        let leaf = chain.first().cloned().ok_or_else(|| missing(&self.chain, "certificate"))?;
        let key = PrivateKeyDer::from_pem_slice(&read(&self.key)?).map_err(|_| missing(&self.key, "private key"))?;
        let unusable = |error| CertificateError::Unusable { path: self.chain.clone(), error };
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(unusable)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(unusable)?;
        Ok(Pair { config: Arc::new(config), leaf })
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| CertificateError::Read { path: path.into(), error })
}

fn missing(path: &Path, what: &'static str) -> CertificateError {
    CertificateError::Missing { path: path.into(), what }
}

/// Makes a pair and keeps it where only the server's user can read it.
fn make(path: &Path, names: &[String]) -> Result<()> {
    let mut params = CertificateParams::new(if names.is_empty() { vec!["localhost".into()] } else { names.to_vec() })?;
    params.distinguished_name.push(DnType::CommonName, "Birdhouse");
    // The years that every wallet's reader of certificates can express.
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2049, 12, 31);
    let key = KeyPair::generate()?;
    let pem = params.self_signed(&key)?.pem() + &key.serialize_pem();
    let failed = |error| CertificateError::Write { path: path.into(), error };
    let half = path.with_extension("new");
    let mut file =
        fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&half).map_err(failed)?;
    file.write_all(pem.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&half, path).map_err(failed)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// Two files with a pair that was just made.
    fn pair(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec![name.into()]).unwrap().self_signed(&key).unwrap();
        let (chain, secret) = (folder.join("cert.pem"), folder.join("key.pem"));
        fs::write(&chain, certificate.pem()).unwrap();
        fs::write(&secret, key.serialize_pem()).unwrap();
        (chain, secret)
    }

    #[test]
    fn the_self_signed_pair_is_made_once_and_for_the_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        Certificate::self_signed(folder.path(), &["example.org".into()]).unwrap();
        let path = folder.path().join(Certificate::SELF_SIGNED);
        let first = fs::read(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        Certificate::self_signed(folder.path(), &["example.net".into()]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), first);
    }

    #[test]
    fn changed_files_are_taken_after_the_interval_and_bad_ones_never() {
        let folder = tempfile::tempdir().unwrap();
        let (chain, key) = pair(folder.path(), "one.example");
        let certificate = Certificate::open(&chain, &key).unwrap();
        let start = Instant::now();
        let first = certificate.config(start);

        pair(folder.path(), "second.example");
        assert!(Arc::ptr_eq(&first, &certificate.config(start)), "not looked at again yet");
        let second = certificate.config(start + 2 * CHECK_INTERVAL);
        assert!(!Arc::ptr_eq(&first, &second));
        pair(folder.path(), "other.example");
        let seen = certificate.leaf().unwrap();
        certificate.reload();
        let second = certificate.config(start);
        assert_eq!(CertificateDer::from_pem_file(&chain).unwrap().to_vec(), seen);
        assert!(!Arc::ptr_eq(&first, &second), "read at once on demand");

        assert_eq!(certificate.leaf_in_use(), seen);

        let good_key = fs::read(&key).unwrap();
        fs::write(&key, KeyPair::generate().unwrap().serialize_pem() + "\n").unwrap();
        assert!(Arc::ptr_eq(&second, &certificate.config(start + 4 * CHECK_INTERVAL)), "of another pair");
        fs::write(&key, "").unwrap();
        assert!(Arc::ptr_eq(&second, &certificate.config(start + 6 * CHECK_INTERVAL)), "empty");
        fs::remove_file(&key).unwrap();
        assert!(Arc::ptr_eq(&second, &certificate.config(start + 8 * CHECK_INTERVAL)), "gone");
        assert_eq!(certificate.leaf_in_use(), seen, "clients get the last good one");
        fs::write(&key, good_key).unwrap();
        assert!(!Arc::ptr_eq(&second, &certificate.config(start + 10 * CHECK_INTERVAL)), "good again");
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let (chain, key) = pair(folder.path(), "one.example");
        let error = |chain: &Path, key: &Path| Certificate::open(chain, key).unwrap_err().to_string();
        assert!(error(&folder.path().join("none"), &key).starts_with("failed to read "));
        assert!(error(&key, &key).ends_with("has no certificate in PEM"));
        assert!(error(&chain, &chain).ends_with("has no private key in PEM"));
    }
}
