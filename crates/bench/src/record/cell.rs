//! One field of a table.

use serde::{Deserialize, Serialize};

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Cell {
    /// Many measurements of the same work.
    Figure(Figure),
    /// One measurement, or one that is made of many.
    Number {
        value: f64,
    },
    Text {
        text: String,
    },
    /// The server said no: its answer.
    Refused {
        reason: String,
    },
    /// The run broke.
    Failed {
        reason: String,
    },
    Nothing,
}

/// What many measurements gave, in the column's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) spread: Spread,
    /// Measurements.
    pub(crate) count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Spread {
    /// All lie between these.
    Range { lowest: f64, highest: f64 },
    /// 99 of 100 do not exceed it.
    P99(f64),
}

impl Cell {
    /// What is no number, as a rate of nothing in no time, is nothing: JSON could not hold it.
    pub(crate) fn number(value: f64) -> Self {
        if value.is_finite() { Self::Number { value } } else { Self::Nothing }
    }

    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    pub(crate) fn count(value: u64) -> Self {
        Self::number(value as f64)
    }

    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    pub(crate) fn failed(error: &anyhow::Error) -> Self {
        Self::Failed { reason: format!("{error:#}") }
    }

    /// The number that is compared and drawn.
    pub(crate) fn value(&self) -> Option<f64> {
        match self {
            Self::Figure(figure) => Some(figure.median),
            Self::Number { value } => Some(*value),
            _ => None,
        }
    }
}
