//! Why a relay does not do what a client asked: NIP-01's machine-readable prefixes, each with words for people.
//!
//! A rejection is the client's doing and part of the protocol (`OK`, `CLOSED`, `NEG-ERR`); failures of our own are
//! errors, of which a client is told no detail.

use std::borrow::Cow;
use std::fmt;

/// What a person is told after the prefix.
pub type Reason = Cow<'static, str>;

/// A refusal, by its standard prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// The relay has the event already.
    Duplicate(Reason),
    /// Too little proof of work (NIP-13).
    Pow(Reason),
    /// The relay does not want this from this author or address.
    Blocked(Reason),
    /// Too much at a time.
    RateLimited(Reason),
    /// It breaks a rule of the protocol.
    Invalid(Reason),
    /// Only some may do this, and the client is not of them.
    Restricted(Reason),
    /// Nobody listened to an ephemeral event.
    Mute(Reason),
    /// Anything else.
    Error(Reason),
    /// Only some may do this, and the client has not said who it is (NIP-42).
    AuthRequired(Reason),
    /// The relay does not know how.
    Unsupported(Reason),
}

// === impl Rejection ===

impl Rejection {
    /// The word before the colon.
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

    /// The words after the colon.
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

    /// What [`Display`](fmt::Display) writes, read back; `None` without one of the standard prefixes.
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

    /// What does not fit the protocol.
    pub(crate) fn invalid(reason: impl Into<Reason>) -> Self {
        Self::Invalid(reason.into())
    }
}

/// `prefix: reason`, as it goes over the wire.
impl fmt::Display for Rejection {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.prefix(), self.reason())
    }
}

impl std::error::Error for Rejection {}
