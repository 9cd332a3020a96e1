//! Blocking clients of every transport.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, DigitallySignedStruct, Error, SignatureScheme, StreamOwned,
};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

/// Something that bytes go through.
pub(crate) trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// TLS over TCP.
pub(crate) type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Takes any certificate, as wallets do at first sight.
#[derive(Debug)]
struct AnyCertificate;

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls12_signature(message, certificate, signature, &algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        tokio_rustls::rustls::crypto::verify_tls13_signature(message, certificate, signature, &algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        ring::default_provider().signature_verification_algorithms.supported_schemes()
    }
}

/// Plain TCP.
pub(crate) fn tcp(port: u16) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
    socket.set_nodelay(true).unwrap();
    socket.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    socket
}

/// A TLS client on a socket, its handshake done.
pub(crate) fn tls(socket: TcpStream) -> Tls {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    stream
}

/// The certificate that the server showed.
pub(crate) fn certificate(stream: &Tls) -> Vec<u8> {
    stream.conn.peer_certificates().unwrap()[0].to_vec()
}

/// A WebSocket client on a stream, its handshake done.
pub(crate) fn ws<S: Stream>(stream: S) -> WebSocket<S> {
    client("ws://localhost/", stream).map_err(|error| error.to_string()).unwrap().0
}

/// A client that sends messages and receives them, whatever is below.
pub(crate) trait Pipe: Send {
    fn send(&mut self, message: &str);
    /// `None` when the server has closed.
    fn receive(&mut self) -> Option<String>;

    /// The next message as JSON.
    fn json(&mut self) -> Value {
        serde_json::from_str(&self.receive().expect("the server answers")).unwrap()
    }

    /// Sends a request, and takes what comes next.
    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.send(&serde_json::json!({ "id": 1, "method": method, "params": params }).to_string());
        self.json()["result"].take()
    }
}

/// One message a line.
pub(crate) struct LinePipe<S>(pub(crate) S);

impl<S: Stream> Pipe for LinePipe<S> {
    fn send(&mut self, message: &str) {
        self.0.write_all(format!("{message}\n").as_bytes()).unwrap();
        self.0.flush().unwrap();
    }

    fn receive(&mut self) -> Option<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        while line.last() != Some(&b'\n') {
            if self.0.read(&mut byte).unwrap_or(0) == 0 {
                return None;
            }
            line.push(byte[0]);
        }
        Some(String::from_utf8(line).unwrap())
    }
}

impl<S: Stream> Pipe for WebSocket<S> {
    fn send(&mut self, message: &str) {
        WebSocket::send(self, Message::text(message)).unwrap();
    }

    fn receive(&mut self) -> Option<String> {
        loop {
            match self.read() {
                Ok(Message::Text(text)) => return Some(text.to_string()),
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(Message::Close(_)) | Err(_) => return None,
                Ok(other) => panic!("{other:?}"),
            }
        }
    }
}
