//! One field of a table.

use serde::{Deserialize, Serialize};

/// One field of a table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Cell {
    /// Summary of many measurements of the same work.
    Figure(Figure),
    /// One measurement, or one computed from many.
    Number {
        value: f64,
    },
    Text {
        text: String,
    },
    /// The server refused, with its answer.
    Refused {
        reason: String,
    },
    /// The run failed.
    Failed {
        reason: String,
    },
    Nothing,
}

/// Summary of many measurements, in the column's unit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) median: f64,
    pub(crate) spread: Spread,
    /// Number of measurements.
    pub(crate) count: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Spread {
    /// All measurements lie between these.
    Range { lowest: f64, highest: f64 },
    /// 99 of 100 measurements do not exceed it.
    P99(f64),
}

impl Cell {
    /// Makes a cell of a number. A value that is not finite, such as a rate over no time, is [`Cell::Nothing`], because
    /// JSON has no such number.
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

    /// Returns the number to compare and draw.
    pub(crate) fn value(&self) -> Option<f64> {
        match self {
            Self::Figure(figure) => Some(figure.median),
            Self::Number { value } => Some(*value),
            _ => None,
        }
    }
}
