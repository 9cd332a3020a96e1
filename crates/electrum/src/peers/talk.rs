//! Requests to another server.

use std::io::{Error, Result};
use std::sync::Arc;

use birdhouse_net::Stream;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{self, ClientConfig, DigitallySignedStruct, SignatureScheme};

/// Bytes that another server may send on a connection, answers and all else together.
const TALK_BYTES_MAX: u64 = 256_000;
/// Bytes of one line from it.
const LINE_BYTES_MAX: u64 = 64_000;

/// A connection on which one request at a time is answered.
pub(super) struct Talk {
    stream: BufReader<Stream>,
    /// Bytes that it may still send.
    left: u64,
}

#[derive(Deserialize)]
struct Reply<'a> {
    /// Notifications have none.
    id: Option<u32>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

impl Talk {
    pub(super) fn new(stream: Stream) -> Self {
        Self { stream: BufReader::new(stream), left: TALK_BYTES_MAX }
    }

    /// Sends a request and returns its result, as JSON. `params` is JSON too.
    ///
    /// # Errors
    /// The other server refuses, sends something else, or sends more than it may.
    pub(super) async fn ask(&mut self, method: &str, params: &str) -> Result<String> {
        let request = format!("{{\"jsonrpc\":\"2.0\",\"id\":0,\"method\":\"{method}\",\"params\":{params}}}\n");
        self.stream.write_all(request.as_bytes()).await?;
        self.stream.flush().await?;
        loop {
            let mut line = Vec::new();
            (&mut self.stream).take(LINE_BYTES_MAX.min(self.left)).read_until(b'\n', &mut line).await?;
            self.left -= line.len() as u64;
            if self.left == 0 {
                return Err(Error::other("it sends too much"));
            }
            let reply: Reply<'_> = serde_json::from_slice(&line)?;
            if reply.id == Some(0) {
                let result = reply.result.ok_or_else(|| Error::other("it refuses a question"))?;
                return Ok(result.get().to_owned());
            }
        }
    }
}

/// Opens TLS without checking the certificate: servers of this network sign their own.
pub(super) async fn tls(socket: TcpStream, name: &str) -> Result<TlsStream<TcpStream>> {
    let provider = ring::default_provider();
    let verifier = AnyCertificate(provider.signature_verification_algorithms);
    let config = ClientConfig::builder_with_provider(Arc::new(provider))
        .with_safe_default_protocol_versions()
        .map_err(Error::other)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).map_err(Error::other)?;
    TlsConnector::from(Arc::new(config)).connect(name, socket).await
}

#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

type Verified<T> = std::result::Result<T, rustls::Error>;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Verified<ServerCertVerified> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Verified<HandshakeSignatureValid> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_server_that_sends_without_end_is_left() {
        let (near, mut far) = tokio::io::duplex(4096);
        let sending = tokio::spawn(async move {
            let mut sent = 0;
            let notification = b"{\"method\":\"server.ping\",\"params\":[]}\n";
            while far.write_all(notification).await.is_ok() {
                sent += notification.len() as u64;
            }
            sent
        });
        let mut talk = Talk::new(Box::new(near));
        assert_eq!(talk.ask("server.version", "[]").await.unwrap_err().to_string(), "it sends too much");
        drop(talk);
        // Buffers are full.
        assert!(sending.await.unwrap() < TALK_BYTES_MAX + 32_000);
    }
}
