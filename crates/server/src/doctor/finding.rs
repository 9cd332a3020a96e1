//! The outcome of a check.

use serde::Serialize;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// As it should be.
    Ok,
    /// Works, with a drawback or a risk.
    Warn,
    /// Keeps the server from serving.
    Fail,
}

/// The outcome of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    /// The state that was found.
    pub(super) found: String,
    /// The command or setting that mends it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) mend: Option<String>,
}

// === impl Finding ===

impl Finding {
    pub(super) fn ok(found: impl Into<String>) -> Self {
        Self { verdict: Verdict::Ok, found: found.into(), mend: None }
    }

    pub(super) fn warn(found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { verdict: Verdict::Warn, found: found.into(), mend: Some(mend.into()) }
    }

    pub(super) fn fail(found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, found: found.into(), mend: Some(mend.into()) }
    }

    /// A failure whose message already says what to do.
    pub(super) fn explained(message: impl Into<String>) -> Self {
        Self { verdict: Verdict::Fail, found: message.into(), mend: None }
    }
}
