//! The server's side of a TLS connection, without buffers while nothing is under way.
//!
//! rustls' buffered connection keeps 4 KiB for the next record, half of what an idle connection takes in all. Here
//! rustls works on buffers of ours (its `unbuffered` API): records are read into a buffer of the thread, and what is
//! left of a record that is not whole, or of records that the socket does not take, is kept by the connection.
//!
//! Bounds are those of rustls: a record, and while the handshake lasts a message of 64 KiB. Of what was written, no
//! more than [`PLAIN_BYTES`] wait in sealed form; the rest waits where it is counted.
//!
//! Source: [RFC 8446](https://www.rfc-editor.org/rfc/rfc8446), section 5 (records).

use std::cell::RefCell;
use std::future::poll_fn;
use std::io::{Error, ErrorKind, Result};
use std::mem::take;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::UnbufferedServerConnection;
use tokio_rustls::rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, UnbufferedStatus};

use crate::lent;

/// Bytes that are read at a time, behind those of a record that is not whole.
const READ_BYTES: usize = 4 * 1024;
/// A record, with its header and what encryption may add (RFC 8446, 5.2; of TLS 1.2 the larger).
const RECORD_BYTES_MAX: usize = 5 + (1 << 14) + 2048;
/// A message of the handshake, which may lie in several records.
const HANDSHAKE_BYTES_MAX: usize = 0xffff;
/// Content of a record (RFC 8446, 5.1).
const PLAIN_BYTES: usize = 1 << 14;
/// Header, nonce, type and tag of a record, rounded up; an alert is no longer. rustls says if it needs more.
const SEAL_BYTES: usize = 64;

thread_local! {
    /// Holds the records that are read, for as long as one call takes.
    static RECORDS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A stream in TLS.
pub struct TlsStream<S> {
    socket: S,
    connection: UnbufferedServerConnection,
    /// The beginning of a record that is not whole.
    partial: Vec<u8>,
    plain: Plain,
    sealed: Sealed,
    ended: Ended,
    /// The client has broken the protocol: rustls is not asked again.
    has_failed: bool,
}

/// Content of records that nobody has taken yet.
#[derive(Debug, Default)]
struct Plain {
    bytes: Vec<u8>,
    taken: usize,
}

/// Records that the socket has not taken yet.
#[derive(Debug, Default)]
struct Sealed {
    bytes: Vec<u8>,
    sent: usize,
}

/// Directions that were ended in the protocol's way, by an alert.
#[derive(Debug, Default)]
struct Ended {
    by_client: bool,
    by_us: bool,
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream<S> {
    /// Does the handshake.
    ///
    /// # Errors
    /// The socket's, [`ErrorKind::InvalidData`] if the client does not keep to the protocol or has nothing in common
    /// with the server, [`ErrorKind::UnexpectedEof`] if it goes.
    pub(crate) async fn accept(config: Arc<ServerConfig>, socket: S) -> Result<Self> {
        let connection = UnbufferedServerConnection::new(config).map_err(Error::other)?;
        let mut stream = Self {
            socket,
            connection,
            partial: Vec::new(),
            plain: Plain::default(),
            sealed: Sealed::default(),
            ended: Ended::default(),
            has_failed: false,
        };
        poll_fn(|context| stream.poll_handshake(context)).await?;
        Ok(stream)
    }

    fn poll_handshake(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        loop {
            ready!(self.sealed.poll_send(&mut self.socket, context))?;
            ready!(Pin::new(&mut self.socket).poll_flush(context))?;
            if !self.connection.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            ready!(self.poll_records(context, &mut ReadBuf::new(&mut [])))?;
            if self.ended.by_client {
                return Poll::Ready(Err(ErrorKind::UnexpectedEof.into()));
            }
        }
    }

    /// Reads once, and processes the records that are whole by then. Their content goes to `buffer`, and what has no
    /// room there to `plain`.
    fn poll_records(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        if self.has_failed {
            return Poll::Ready(Err(invalid("the client has broken the protocol")));
        }
        let held = self.partial.len();
        let bytes_max = if self.connection.is_handshaking() { HANDSHAKE_BYTES_MAX } else { RECORD_BYTES_MAX };
        if held >= bytes_max {
            return Poll::Ready(Err(invalid("a message is too long")));
        }
        let end = bytes_max.min(held + READ_BYTES);
        let mut records = RECORDS.with_borrow_mut(take);
        if records.len() < end {
            records.resize(end, 0);
        }
        records[..held].copy_from_slice(&self.partial);
        let mut room = ReadBuf::new(&mut records[held..end]);
        let read = Pin::new(&mut self.socket).poll_read(context, &mut room);
        let whole = held + room.filled().len();
        let processed = match read {
            Poll::Ready(Ok(())) if whole == held => Poll::Ready(Err(ErrorKind::UnexpectedEof.into())),
            Poll::Ready(Ok(())) => Poll::Ready(self.process(&mut records[..whole], buffer, context)),
            pending_or_failed => pending_or_failed,
        };
        // They are decrypted in place.
        records[..whole].fill(0);
        RECORDS.with_borrow_mut(|kept| *kept = records);
        processed
    }

    /// Processes records, and keeps the one that is not whole.
    fn process(&mut self, records: &mut [u8], buffer: &mut ReadBuf<'_>, context: &mut Context<'_>) -> Result<()> {
        match self.open(records, buffer) {
            Ok(used) => {
                self.partial = records[used..].to_vec();
                Ok(())
            }
            Err(error) => {
                self.partial = Vec::new();
                self.has_failed = true;
                self.send_alert(context);
                Err(error)
            }
        }
    }

    /// Opens the records that are whole; returns their length.
    fn open(&mut self, records: &mut [u8], buffer: &mut ReadBuf<'_>) -> Result<usize> {
        let mut used = 0;
        loop {
            let UnbufferedStatus { mut discard, state } = self.connection.process_tls_records(&mut records[used..]);
            let mut is_last = false;
            match state.map_err(failed)? {
                ConnectionState::ReadTraffic(mut traffic) => {
                    while let Some(record) = traffic.next_record() {
                        let record = record.map_err(failed)?;
                        discard += record.discard;
                        self.plain.add(record.payload, buffer);
                    }
                }
                ConnectionState::EncodeTlsData(mut message) => self.sealed.add(0, |room| message.encode(room))?,
                ConnectionState::TransmitTlsData(message) => message.done(),
                ConnectionState::PeerClosed => self.ended.by_client = true,
                ConnectionState::BlockedHandshake | ConnectionState::WriteTraffic(_) | ConnectionState::Closed => {
                    is_last = true;
                }
                _ => return Err(invalid("early data was not offered")),
            }
            used += discard;
            if is_last {
                return Ok(used);
            }
        }
    }

    /// Sends the reason why the connection fails, if the socket takes it at once.
    fn send_alert(&mut self, context: &mut Context<'_>) {
        // Only an alert that is there: rustls must not look for records that it had seen in another buffer.
        if self.connection.wants_write()
            && let Ok(ConnectionState::EncodeTlsData(mut alert)) = self.connection.process_tls_records(&mut []).state
            && self.sealed.add(SEAL_BYTES, |room| alert.encode(room)).is_ok()
        {
            let _ = self.sealed.poll_send(&mut self.socket, context);
        }
    }

    /// Encrypts something that is to be sent after what waits.
    fn seal(&mut self, what: Outgoing<'_>) -> Result<()> {
        while !self.has_failed {
            // With what has come: rustls remembers its place.
            match self.connection.process_tls_records(&mut self.partial).state.map_err(failed)? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    return self.sealed.add(what.len() + SEAL_BYTES, |room| match what {
                        Outgoing::Plain(bytes) => traffic.encrypt(bytes, room),
                        Outgoing::End => traffic.queue_close_notify(room),
                    });
                }
                ConnectionState::EncodeTlsData(mut message) => self.sealed.add(0, |room| message.encode(room))?,
                ConnectionState::TransmitTlsData(message) => message.done(),
                ConnectionState::PeerClosed => self.ended.by_client = true,
                _ => break,
            }
        }
        Err(ErrorKind::BrokenPipe.into())
    }
}

/// Something that is sent after the handshake.
#[derive(Clone, Copy)]
enum Outgoing<'a> {
    Plain(&'a [u8]),
    /// Nothing will follow.
    End,
}

impl Outgoing<'_> {
    fn len(self) -> usize {
        match self {
            Self::Plain(bytes) => bytes.len(),
            Self::End => 0,
        }
    }
}

impl Plain {
    /// Gives bytes to `buffer`, and keeps those that have no room there.
    fn add(&mut self, bytes: &[u8], buffer: &mut ReadBuf<'_>) {
        let given = if self.bytes.is_empty() { bytes.len().min(buffer.remaining()) } else { 0 };
        buffer.put_slice(&bytes[..given]);
        self.bytes.extend_from_slice(&bytes[given..]);
    }

    /// Gives what was kept to `buffer`.
    fn give(&mut self, buffer: &mut ReadBuf<'_>) {
        let rest = &self.bytes[self.taken..];
        let given = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..given]);
        self.taken += given;
        if self.taken == self.bytes.len() {
            *self = Self::default();
        }
    }
}

/// Room that rustls lacks for a record.
trait Lacking {
    /// Returns the bytes that it needs; `None` if it fails for another reason.
    fn required_bytes(&self) -> Option<usize>;
}

impl Lacking for EncodeError {
    fn required_bytes(&self) -> Option<usize> {
        match self {
            Self::InsufficientSize(size) => Some(size.required_size),
            Self::AlreadyEncoded => None,
        }
    }
}

impl Lacking for EncryptError {
    fn required_bytes(&self) -> Option<usize> {
        match self {
            Self::InsufficientSize(size) => Some(size.required_size),
            Self::EncryptExhausted => None,
        }
    }
}

impl Sealed {
    /// Adds a record of about `bytes_expected` bytes that `write` writes.
    fn add<E: Lacking>(
        &mut self,
        bytes_expected: usize,
        mut write: impl FnMut(&mut [u8]) -> std::result::Result<usize, E>,
    ) -> Result<()> {
        if self.bytes.capacity() == 0 {
            let is_short = bytes_expected <= lent::BUFFER_BYTES;
            self.bytes = if is_short { lent::take() } else { Vec::with_capacity(bytes_expected) };
        }
        let start = self.bytes.len();
        self.bytes.resize(start + bytes_expected, 0);
        let mut written = write(&mut self.bytes[start..]);
        if let Some(bytes) = written.as_ref().err().and_then(Lacking::required_bytes) {
            self.bytes.resize(start + bytes, 0);
            written = write(&mut self.bytes[start..]);
        }
        self.bytes.truncate(start + written.as_ref().ok().copied().unwrap_or(0));
        written.map(drop).map_err(|_| ErrorKind::BrokenPipe.into())
    }

    /// Writes everything to the socket. What it does not take is kept in memory of its size.
    fn poll_send(&mut self, socket: &mut (impl AsyncWrite + Unpin), context: &mut Context<'_>) -> Poll<Result<()>> {
        while self.sent < self.bytes.len() {
            let written = Pin::new(&mut *socket).poll_write(context, &self.bytes[self.sent..]);
            match written {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => self.sent += written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.keep();
                    return Poll::Pending;
                }
            }
        }
        lent::give(take(&mut self.bytes));
        self.sent = 0;
        Poll::Ready(Ok(()))
    }

    /// Keeps what was not sent, and gives the buffer back.
    fn keep(&mut self) {
        if self.bytes.capacity() > self.bytes.len() || self.sent > 0 {
            let rest = self.bytes[self.sent..].to_vec();
            lent::give(std::mem::replace(&mut self.bytes, rest));
            self.sent = 0;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        self.plain.give(buffer);
        while buffer.filled().len() == before && buffer.remaining() > 0 && !self.ended.by_client {
            ready!(self.poll_records(context, buffer))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsStream<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let this = self.get_mut();
        ready!(this.sealed.poll_send(&mut this.socket, context))?;
        let mut taken = 0;
        for part in bytes.chunks(PLAIN_BYTES) {
            this.seal(Outgoing::Plain(part))?;
            taken += part.len();
            if this.sealed.poll_send(&mut this.socket, context)?.is_pending() {
                break;
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        ready!(this.sealed.poll_send(&mut this.socket, context))?;
        Pin::new(&mut this.socket).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if !this.ended.by_us {
            this.ended.by_us = true;
            this.seal(Outgoing::End)?;
        }
        ready!(this.sealed.poll_send(&mut this.socket, context))?;
        match ready!(Pin::new(&mut this.socket).poll_shutdown(context)) {
            // The client was faster.
            Err(error) if error.kind() == ErrorKind::NotConnected => Poll::Ready(Ok(())),
            ended => Poll::Ready(ended),
        }
    }
}

fn failed(error: rustls::Error) -> Error {
    Error::new(ErrorKind::InvalidData, error)
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use rcgen::{CertificateParams, KeyPair};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
    use tokio::join;
    use tokio_rustls::TlsConnector;
    use tokio_rustls::client::TlsStream as ClientStream;
    use tokio_rustls::rustls::crypto::ring;
    use tokio_rustls::rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName};
    use tokio_rustls::rustls::version::{TLS12, TLS13};
    use tokio_rustls::rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};

    use super::*;

    const VERSIONS: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

    /// A server and a client that trusts it.
    fn configs(version: &'static SupportedProtocolVersion) -> (Arc<ServerConfig>, ClientConfig) {
        let key = KeyPair::generate().unwrap();
        let certificate = CertificateParams::new(vec!["one.example".into()]).unwrap().self_signed(&key).unwrap();
        let chain = vec![CertificateDer::from(certificate.der().to_vec())];
        let mut roots = RootCertStore::empty();
        roots.add(chain[0].clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
        let server = server.unwrap().with_no_client_auth();
        let server = server.with_single_cert(chain, PrivatePkcs8KeyDer::from(key.serialize_der()).into()).unwrap();
        let client = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        (Arc::new(server), client.with_root_certificates(roots).with_no_client_auth())
    }

    /// Both ends of a connection over a pipe of this capacity.
    async fn connected(
        pipe_bytes: usize,
        (server, client): (Arc<ServerConfig>, ClientConfig),
    ) -> (TlsStream<DuplexStream>, ClientStream<DuplexStream>) {
        let (near, far) = duplex(pipe_bytes);
        let name = ServerName::try_from("one.example").unwrap();
        let (server, client) =
            join!(TlsStream::accept(server, near), TlsConnector::from(Arc::new(client)).connect(name, far));
        (server.unwrap(), client.unwrap())
    }

    /// Bytes that differ from their neighbours.
    fn some_bytes(count: usize) -> Vec<u8> {
        (0..count).map(|index| u8::try_from(index % 251).unwrap()).collect()
    }

    fn holds_nothing<S>(stream: &TlsStream<S>) -> bool {
        let buffers = [&stream.partial, &stream.plain.bytes, &stream.sealed.bytes];
        buffers.into_iter().all(|buffer| buffer.capacity() == 0)
    }

    #[tokio::test]
    async fn bytes_of_both_directions_arrive_whole_through_pipes_of_any_size_and_nothing_is_held_after() {
        for version in VERSIONS {
            for pipe_bytes in [1, 7, 1000, 5000, 1 << 17] {
                let (mut server, mut client) = connected(pipe_bytes, configs(version)).await;
                for bytes in [1, 100, PLAIN_BYTES, PLAIN_BYTES + 1, if pipe_bytes < 1000 { 20_000 } else { 300_000 }] {
                    let (sent, mut there, mut back) = (some_bytes(bytes), vec![0; bytes], vec![0; bytes]);
                    let asking = async {
                        client.write_all(&sent).await.unwrap();
                        client.flush().await.unwrap();
                        client.read_exact(&mut back).await.unwrap();
                    };
                    let answering = async {
                        server.read_exact(&mut there).await.unwrap();
                        server.write_all(&there).await.unwrap();
                        server.flush().await.unwrap();
                    };
                    join!(asking, answering);
                    assert!(there == sent && back == sent, "{bytes} bytes, a pipe of {pipe_bytes}");
                    assert!(holds_nothing(&server), "after {bytes} bytes, a pipe of {pipe_bytes}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_handshake_may_come_in_many_small_records() {
        for version in VERSIONS {
            let (server, mut client) = configs(version);
            client.max_fragment_size = Some(32);
            let (mut server, mut client) = connected(3, (server, client)).await;
            let (sent, mut there) = (some_bytes(5000), vec![0; 5000]);
            let (sending, receiving) = join!(client.write_all(&sent), server.read_exact(&mut there));
            sending.unwrap();
            receiving.unwrap();
            assert!(there == sent && holds_nothing(&server));
        }
    }

    #[tokio::test]
    async fn a_client_may_change_its_keys() {
        let (mut server, mut client) = connected(5, configs(&TLS13)).await;
        for text in [b"before", b"after!"] {
            let mut there = [0; 6];
            join!(async { client.write_all(text).await.unwrap() }, async {
                server.read_exact(&mut there).await.unwrap()
            });
            assert_eq!(&there, text);
            join!(
                async {
                    server.write_all(text).await.unwrap();
                    server.flush().await.unwrap();
                },
                async {
                    client.read_exact(&mut there).await.unwrap();
                }
            );
            assert_eq!(&there, text);
            client.get_mut().1.refresh_traffic_keys().unwrap();
        }
    }

    #[tokio::test]
    async fn a_client_that_says_so_has_ended_and_one_that_breaks_off_has_failed() {
        for version in VERSIONS {
            let (mut server, mut client) = connected(1000, configs(version)).await;
            client.write_all(b"last").await.unwrap();
            client.shutdown().await.unwrap();
            let mut read = Vec::new();
            server.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, b"last");
            // Its own end arrives, too.
            server.write_all(b"reply").await.unwrap();
            server.shutdown().await.unwrap();
            read.clear();
            client.read_to_end(&mut read).await.unwrap();
            assert_eq!(read, b"reply");

            let (mut server, client) = connected(1000, configs(version)).await;
            drop(client);
            assert_eq!(server.read(&mut [0; 10]).await.unwrap_err().kind(), ErrorKind::UnexpectedEof);
        }
    }

    #[tokio::test]
    async fn what_is_no_record_is_refused_with_an_alert_in_the_handshake_and_after() {
        let (config, _) = configs(&TLS13);
        let (near, mut far) = duplex(1000);
        far.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(TlsStream::accept(config, near).await.err().unwrap().kind(), ErrorKind::InvalidData);
        let mut alert = Vec::new();
        far.read_to_end(&mut alert).await.unwrap();
        assert_eq!(alert.first(), Some(&21), "the type of records with alerts");

        let (mut server, client) = connected(1000, configs(&TLS13)).await;
        let (mut raw, _) = client.into_inner();
        // A record that nobody has sealed.
        raw.write_all(&[&[23, 3, 3, 0, 40][..], &[7; 40]].concat()).await.unwrap();
        for _ in 0..2 {
            assert_eq!(server.read(&mut [0; 10]).await.unwrap_err().kind(), ErrorKind::InvalidData);
        }
        assert_eq!(server.write(b"more").await.unwrap_err().kind(), ErrorKind::BrokenPipe);
        drop(server);
        let mut sent = Vec::new();
        raw.read_to_end(&mut sent).await.unwrap();
        assert!(!sent.is_empty(), "an alert, sealed");
    }

    #[tokio::test]
    async fn parts_of_a_message_of_the_handshake_may_not_stand_between_records_of_others() {
        let (config, _) = configs(&TLS13);
        let (near, mut far) = duplex(1000);
        // The beginning of a hello, then a record of another type.
        far.write_all(&[22, 3, 1, 0, 4, 1, 0, 1, 0, 21, 3, 1, 0, 2, 1, 0]).await.unwrap();
        assert_eq!(TlsStream::accept(config, near).await.err().unwrap().kind(), ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn a_message_of_the_handshake_has_a_bound() {
        let (config, _) = configs(&TLS13);
        let (near, mut far) = duplex(1 << 20);
        // A hello of 16 MB, in records of 16 KB.
        let mut record = [&[22, 3, 1, 0x40, 0][..], &[0; 1 << 14]].concat();
        record[5..9].copy_from_slice(&[1, 0xff, 0xff, 0xff]);
        far.write_all(&record).await.unwrap();
        record[5..9].fill(0);
        for _ in 0..8 {
            far.write_all(&record).await.unwrap();
        }
        assert_eq!(TlsStream::accept(config, near).await.err().unwrap().kind(), ErrorKind::InvalidData);
    }

    #[tokio::test]
    async fn no_more_than_a_record_waits_for_a_client_that_does_not_read() {
        let (mut server, _client) = connected(1000, configs(&TLS13)).await;
        let bytes = some_bytes(1 << 20);
        let written = server.write(&bytes).await.unwrap();
        assert_eq!(written, PLAIN_BYTES);
        let held = server.sealed.bytes.capacity();
        assert!(held <= PLAIN_BYTES + SEAL_BYTES, "{held}");
        let mut more = std::pin::pin!(server.write(&bytes));
        assert!(poll_fn(|context| Poll::Ready(more.as_mut().poll(context))).await.is_pending());
    }
}
