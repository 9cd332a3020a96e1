//! Answers while the chain is far from whole: a limit that all protocols have.

use crate::bound::Bound;

/// Answers of a server whose node still downloads the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum OldAnswers {
    /// They are given as of the block that the index has reached.
    Serve,
    /// They are refused, with the progress.
    Refuse,
}

impl Bound for OldAnswers {
    fn expected() -> String {
        "\"serve\" or \"refuse\"".into()
    }

    fn to_text(&self) -> String {
        <&str>::from(self).into()
    }

    fn from_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}
