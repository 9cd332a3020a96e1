//! Mail by SMTP. `smtps://` encrypts from the first byte. `smtp://` encrypts by STARTTLS, but for a server on this
//! machine.
//!
//! A mail that is sent again has the same `Message-ID`, so that mailboxes keep one.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use birdhouse_dial::{Connection, Encryption, Guard, Host, Scheme, Target};
use futures_util::future::BoxFuture;
use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, Mailboxes};
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, AsyncTokioStream, TlsParameters};
use lettre::transport::smtp::extension::ClientId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::message::{Channel, Message, Outcome, Priority, Wording};
use super::secret::Secret;
use crate::limits::ATTEMPT_TIMEOUT;

/// A mailbox, and the server that takes its mail.
pub(super) struct Mail {
    guard: Arc<Guard>,
    server: Target,
    login: Option<Login>,
    from: Mailbox,
    to: Mailboxes,
    wording: Wording,
}

/// An account at the server.
pub(super) struct Login {
    pub(super) user: String,
    pub(super) password: Secret,
}

/// The parties of a mail, as in the file.
pub(super) struct Parties<'a> {
    pub(super) from: &'a str,
    /// One address, or several with commas.
    pub(super) to: &'a str,
}

impl Mail {
    /// A mailbox, and its server as `smtps://mail.example.org`.
    ///
    /// # Errors
    /// The reason, without secrets.
    pub(super) fn new(
        guard: Arc<Guard>,
        server: &str,
        login: Option<Login>,
        parties: &Parties<'_>,
        wording: Wording,
    ) -> Result<Self, String> {
        let server = Target::parse(server, &[Scheme::Smtps, Scheme::Smtp])?;
        let from = parties.from.parse().map_err(|error| format!("the sender is no address of mail: {error}"))?;
        let to = parties.to.parse().map_err(|error| format!("the recipient is no address of mail: {error}"))?;
        Ok(Self { guard, server, login, from, to, wording })
    }

    fn mail(&self, message: &Message) -> Result<lettre::Message, String> {
        let mut text = message.text(self.wording).to_owned();
        if let Some(click) = &message.click {
            text.push_str("\n\n");
            text.push_str(click);
        }
        text.push('\n');
        let mut builder = lettre::Message::builder()
            .mailbox(lettre::message::header::From::from(Mailboxes::from(self.from.clone())))
            .mailbox(lettre::message::header::To::from(self.to.clone()))
            .subject(message.title.clone())
            .date(SystemTime::UNIX_EPOCH + Duration::from_secs(message.created))
            .message_id(Some(format!("<{}@{}>", message.id, self.from.email.domain())))
            .header(AutoSubmitted);
        if message.priority >= Priority::High {
            builder = builder.header(Importance);
        }
        let mail = builder.header(ContentType::TEXT_PLAIN).body(text);
        mail.map_err(|error| format!("failed to write the mail: {error}"))
    }

    async fn deliver(&self, mail: &lettre::Message) -> Result<(), Failure> {
        let hello = ClientId::Domain("localhost".into());
        let stream = self.guard.connect(&self.server).await.map_err(Failure::Connection)?;
        let mut smtp = AsyncSmtpConnection::connect_with_transport(Box::new(Socket(stream)), &hello).await?;
        if self.server.scheme.encryption() == Encryption::None && self.must_encrypt(&smtp)? {
            let parameters = TlsParameters::builder(self.server.host.to_string()).build_rustls()?;
            smtp.starttls(parameters, &hello).await?;
        }
        if let Some(Login { user, password }) = &self.login {
            let credentials = Credentials::new(user.clone(), password.expose().to_owned());
            smtp.auth(&[Mechanism::Plain, Mechanism::Login], &credentials).await.map_err(Failure::Login)?;
        }
        smtp.send(mail.envelope(), &mail.formatted()).await.map_err(Failure::Sending)?;
        // The server has taken the mail, whatever it answers to the farewell.
        let _ = smtp.quit().await;
        Ok(())
    }

    fn must_encrypt(&self, smtp: &AsyncSmtpConnection) -> Result<bool, Failure> {
        match smtp.can_starttls() {
            // Its certificate is often one that nobody signed, and nobody is in between.
            _ if is_this_machine(&self.server.host) => Ok(false),
            true => Ok(true),
            false => Err(Failure::Connection(format!("{} offers no encryption; use smtps://", self.server))),
        }
    }
}

impl Channel for Mail {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let mail = match self.mail(message) {
                Ok(mail) => mail,
                Err(why) => return Outcome::Refused { why },
            };
            match tokio::time::timeout(ATTEMPT_TIMEOUT, self.deliver(&mail)).await {
                Ok(Ok(())) => Outcome::Delivered,
                Ok(Err(failure)) => failure.outcome(&self.server),
                Err(_) => {
                    Outcome::retry(format!("{} has not answered in {} s", self.server, ATTEMPT_TIMEOUT.as_secs()))
                }
            }
        })
    }
}

/// A failure of an attempt.
#[derive(Debug)]
enum Failure {
    Connection(String),
    /// A refused login; the words of the server may repeat it.
    Login(lettre::transport::smtp::Error),
    /// A refused mail.
    Sending(lettre::transport::smtp::Error),
    Smtp(lettre::transport::smtp::Error),
}

impl From<lettre::transport::smtp::Error> for Failure {
    fn from(error: lettre::transport::smtp::Error) -> Self {
        Self::Smtp(error)
    }
}

impl Failure {
    fn outcome(self, server: &Target) -> Outcome {
        /// Exceeded storage allocation: the mail is larger than the server takes.
        const TOO_LARGE: u16 = 552;
        match self {
            Self::Connection(why) => Outcome::retry(why),
            Self::Login(error) => Outcome::retry(match error.status() {
                Some(code) => format!("{server} refused the login: {code}"),
                None => format!("{server} took no login: it offers no method that is known, or hung up"),
            }),
            Self::Sending(error) if error.status().is_some_and(|code| u16::from(code) == TOO_LARGE) => {
                Outcome::Refused { why: format!("{server} answered 552: the mail is too large for it") }
            }
            Self::Sending(error) if error.is_permanent() => {
                Outcome::Rejected { why: one_line(&format!("{server} refuses the mail: {error}")) }
            }
            Self::Sending(error) | Self::Smtp(error) => {
                Outcome::retry(one_line(&format!("failed to send to {server}: {error}")))
            }
        }
    }
}

fn one_line(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).take(300).collect()
}

/// True for the names of this machine that no resolver can change.
fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Name(name) => name == "localhost",
        Host::Address(address) => address.to_canonical().is_loopback(),
    }
}

/// The header that keeps vacation answers away (RFC 3834).
#[derive(Debug, Clone)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".into())
    }
}

/// The header by which mailboxes mark a mail as urgent (RFC 2156).
#[derive(Debug, Clone)]
struct Importance;

impl Header for Importance {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Importance")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "high".into())
    }
}

/// A connection in the form that lettre takes.
#[derive(Debug)]
struct Socket(Connection);

impl AsyncTokioStream for Socket {
    fn peer_addr(&self) -> io::Result<SocketAddr> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
#[path = "mail_tests.rs"]
mod tests;
