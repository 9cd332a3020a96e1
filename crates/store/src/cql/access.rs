//! Access to a cluster: TLS, a login, and the errors of both.

use std::fmt;
use std::sync::Arc;

use scylla::errors::{
    ConnectionError, ConnectionPoolError, ConnectionSetupRequestErrorKind, DbError, MetadataError, NewSessionError,
};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore};

use crate::error::{AccessFault, Error, Result};

/// Encryption of connections to a cluster, and the login.
#[derive(Clone, Default)]
pub struct CqlAccess {
    /// Certificates, as PEM, of the authorities that signed those of the nodes. With them, connections are encrypted.
    pub authorities: Option<Vec<u8>>,
    /// Name and password of a role of the cluster.
    pub login: Option<(String, String)>,
}

// === impl CqlAccess ===

impl CqlAccess {
    /// Returns the settings of encrypted connections; `None` for others.
    ///
    /// # Errors
    /// [`Error::Engine`] for authorities that are no certificates.
    pub(super) fn tls(&self) -> Result<Option<Arc<ClientConfig>>> {
        let Some(pem) = &self.authorities else { return Ok(None) };
        let unusable = |cause: &dyn fmt::Display| {
            Error::Engine(format!("failed to read the authorities of the cluster's certificates: {cause}; use PEM"))
        };
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem) {
            let certificate = certificate.map_err(|cause| unusable(&cause))?;
            roots.add(certificate).map_err(|cause| unusable(&cause))?;
        }
        if roots.is_empty() {
            return Err(unusable(&"there is no certificate in the file"));
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        let config = config.with_safe_default_protocol_versions().map_err(|cause| unusable(&cause))?;
        Ok(Some(Arc::new(config.with_root_certificates(roots).with_no_client_auth())))
    }

    /// Returns the error of a session that could not be opened.
    pub(super) fn refused(&self, hosts: &str, cause: &NewSessionError) -> Error {
        let action = format!("connect to {hosts}");
        match self.fault(cause) {
            Some(fault) => Error::Access { action, fault, cause: cause.to_string() },
            None => Error::Cluster { action, cause: cause.to_string() },
        }
    }

    fn fault(&self, cause: &NewSessionError) -> Option<AccessFault> {
        let NewSessionError::MetadataError(MetadataError::ConnectionPoolError(ConnectionPoolError::Broken {
            last_connection_error: cause,
        })) = cause
        else {
            return None;
        };
        match cause {
            ConnectionError::ConnectionSetupRequestError(request) => match request.get_error() {
                ConnectionSetupRequestErrorKind::MissingAuthentication => Some(AccessFault::NoLogin),
                ConnectionSetupRequestErrorKind::DbError(DbError::AuthenticationError, _) => {
                    Some(AccessFault::WrongLogin)
                }
                ConnectionSetupRequestErrorKind::BrokenConnection(_) if self.authorities.is_none() => {
                    Some(AccessFault::Closed)
                }
                _ => None,
            },
            ConnectionError::IoError(cause) if self.authorities.is_some() => {
                match cause.get_ref()?.downcast_ref::<rustls::Error>()? {
                    rustls::Error::InvalidCertificate(_) => Some(AccessFault::WrongCertificate),
                    rustls::Error::InvalidMessage(_) => Some(AccessFault::NotEncrypted),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

impl fmt::Debug for CqlAccess {
    /// Leaves the password out.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.login.as_ref().map(|(user, _)| user);
        let is_encrypted = self.authorities.is_some();
        f.debug_struct("CqlAccess").field("is_encrypted", &is_encrypted).field("user", &user).finish_non_exhaustive()
    }
}
