//! Blocking clients of every transport of the Electrum protocol, which send and receive whole messages.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_rustls::rustls;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};
use tokio_tungstenite::tungstenite::{Message, WebSocket, client};

use crate::error::{Error, Result};

/// The time that an answer may take.
const PATIENCE: Duration = Duration::from_mins(1);

// Bits and lengths of a frame's header (RFC 6455, section 5.2).
const FINAL_TEXT: u8 = 0x81;
const MASKED: u8 = 0x80;
const MIDDLE: u8 = 126;
const LONG: u8 = 127;

/// A two-way stream of bytes.
pub trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// TLS over TCP.
pub type Tls = StreamOwned<ClientConnection, TcpStream>;

/// Connects to a loopback port.
pub fn tcp(port: u16) -> Result<TcpStream> {
    let socket = TcpStream::connect(("127.0.0.1", port))?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket)
}

/// Makes a TLS client on a socket and completes the handshake. It accepts any certificate, as wallets do the first
/// time.
pub fn tls(socket: TcpStream) -> Result<Tls> {
    let algorithms = ring::default_provider().signature_verification_algorithms;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(protocol)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(algorithms)))
        .with_no_client_auth();
    let name = ServerName::try_from("localhost").map_err(protocol)?;
    let mut stream = StreamOwned::new(ClientConnection::new(Arc::new(config), name).map_err(protocol)?, socket);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock)?;
    }
    Ok(stream)
}

/// Returns the server's certificate, in DER.
pub fn certificate(stream: &Tls) -> Option<Vec<u8>> {
    Some(stream.conn.peer_certificates()?.first()?.to_vec())
}

/// Makes a WebSocket client on a stream and completes the handshake.
pub fn ws<S: Stream>(stream: S) -> Result<WebSocket<S>> {
    Ok(client("ws://localhost/", stream).map_err(protocol)?.0)
}

/// Returns a text message as a frame. Its mask is zero, so the text is sent as it is.
pub fn frame(text: &str) -> Vec<u8> {
    let mut frame = vec![FINAL_TEXT];
    match text.len() {
        short @ 0..126 => frame.push(MASKED | u8::try_from(short).expect("below 126")),
        middle @ 126..0x1_0000 => {
            frame.push(MASKED | MIDDLE);
            frame.extend(u16::try_from(middle).expect("below 2^16").to_be_bytes());
        }
        long => {
            frame.push(MASKED | LONG);
            frame.extend((long as u64).to_be_bytes());
        }
    }
    frame.extend([0; 4]);
    frame.extend(text.as_bytes());
    frame
}

/// A client that sends and receives messages over any transport.
pub trait Pipe: Send {
    /// Sends a message.
    fn send(&mut self, message: &str) -> Result<()>;

    /// Returns the next message.
    ///
    /// # Errors
    /// When the server has closed the connection.
    fn receive(&mut self) -> Result<String>;

    /// Returns the next message as JSON.
    fn json(&mut self) -> Result<Value> {
        serde_json::from_str(&self.receive()?).map_err(protocol)
    }

    /// Sends a request and returns the next message's result.
    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.send(&serde_json::json!({ "id": 1, "method": method, "params": params }).to_string())?;
        let mut answer = self.json()?;
        match answer.get("error") {
            None => Ok(answer["result"].take()),
            Some(error) => Err(Error::Electrum { method: method.into(), error: error.clone() }),
        }
    }
}

/// A stream with one message a line.
#[derive(Debug)]
pub struct Lines<S>(pub S);

impl<S: Stream> Pipe for Lines<S> {
    fn send(&mut self, message: &str) -> Result<()> {
        self.0.write_all(format!("{message}\n").as_bytes())?;
        Ok(self.0.flush()?)
    }

    fn receive(&mut self) -> Result<String> {
        let mut line = Vec::new();
        let mut byte = [0];
        while line.last() != Some(&b'\n') {
            self.0.read_exact(&mut byte)?;
            line.push(byte[0]);
        }
        String::from_utf8(line).map_err(protocol)
    }
}

impl<S: Stream> Pipe for WebSocket<S> {
    fn send(&mut self, message: &str) -> Result<()> {
        Self::send(self, Message::text(message)).map_err(protocol)
    }

    fn receive(&mut self) -> Result<String> {
        loop {
            match self.read().map_err(protocol)? {
                Message::Text(text) => return Ok(text.to_string()),
                Message::Ping(_) | Message::Pong(_) => {}
                other => return Err(protocol(other)),
            }
        }
    }
}

#[derive(Debug)]
struct AnyCertificate(WebPkiSupportedAlgorithms);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_schemes()
    }
}

fn protocol(error: impl std::fmt::Display) -> Error {
    Error::Protocol(error.to_string())
}
