//! Refusals of client requests: the machine-readable prefixes of [NIP-01], each with a reason for people.
//!
//! A rejection is caused by the client and part of the protocol (`OK`, `CLOSED`, `NEG-ERR`). Failures of the relay are
//! errors, and clients get no details of them.
//!
//! [NIP-01]: https://github.com/nostr-protocol/nips/blob/master/01.md

use std::borrow::Cow;
use std::fmt;

/// Text for people after the prefix.
pub type Reason = Cow<'static, str>;

/// Refusal, by its standard prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// The relay has the event already.
    Duplicate(Reason),
    /// Insufficient proof of work (NIP-13).
    Pow(Reason),
    /// The relay does not accept this from this author or address.
    Blocked(Reason),
    /// Too many requests at a time.
    RateLimited(Reason),
    /// The request breaks a rule of the protocol.
    Invalid(Reason),
    /// The client has authenticated, but may not do this.
    Restricted(Reason),
    /// No one subscribes to an ephemeral event.
    Mute(Reason),
    /// Any other reason.
    Error(Reason),
    /// The client must authenticate first (NIP-42).
    AuthRequired(Reason),
    /// The relay does not support this.
    Unsupported(Reason),
}

// === impl Rejection ===

impl Rejection {
    /// The words before the colon, of all rejections.
    pub const PREFIXES: [&str; 10] = [
        "duplicate",
        "pow",
        "blocked",
        "rate-limited",
        "invalid",
        "restricted",
        "mute",
        "error",
        "auth-required",
        "unsupported",
    ];

    /// Returns the word before the colon.
    pub fn prefix(&self) -> &'static str {
        match self {
            Self::Duplicate(_) => "duplicate",
            Self::Pow(_) => "pow",
            Self::Blocked(_) => "blocked",
            Self::RateLimited(_) => "rate-limited",
            Self::Invalid(_) => "invalid",
            Self::Restricted(_) => "restricted",
            Self::Mute(_) => "mute",
            Self::Error(_) => "error",
            Self::AuthRequired(_) => "auth-required",
            Self::Unsupported(_) => "unsupported",
        }
    }

    /// Returns the text after the colon.
    pub fn reason(&self) -> &str {
        match self {
            Self::Duplicate(reason)
            | Self::Pow(reason)
            | Self::Blocked(reason)
            | Self::RateLimited(reason)
            | Self::Invalid(reason)
            | Self::Restricted(reason)
            | Self::Mute(reason)
            | Self::Error(reason)
            | Self::AuthRequired(reason)
            | Self::Unsupported(reason) => reason,
        }
    }

    /// Parses the output of [`Display`](fmt::Display); `None` without one of the standard prefixes.
    pub fn parse(text: &str) -> Option<Self> {
        let (prefix, reason) = text.split_once(':')?;
        let reason: Reason = reason.trim_start().to_owned().into();
        Some(match prefix {
            "duplicate" => Self::Duplicate(reason),
            "pow" => Self::Pow(reason),
            "blocked" => Self::Blocked(reason),
            "rate-limited" => Self::RateLimited(reason),
            "invalid" => Self::Invalid(reason),
            "restricted" => Self::Restricted(reason),
            "mute" => Self::Mute(reason),
            "error" => Self::Error(reason),
            "auth-required" => Self::AuthRequired(reason),
            "unsupported" => Self::Unsupported(reason),
            _ => return None,
        })
    }

    /// Returns a rejection for a breach of the protocol.
    pub(crate) fn invalid(reason: impl Into<Reason>) -> Self {
        Self::Invalid(reason.into())
    }
}

/// Formats `prefix: reason`, as on the wire.
impl fmt::Display for Rejection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.prefix(), self.reason())
    }
}

impl std::error::Error for Rejection {}
