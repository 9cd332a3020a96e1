//! Answers of servers about a script. They must be equal, or the times cannot be compared.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::machine::wire::result;

/// A server's answers about one script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answers {
    pub(crate) balance: (i64, i64),
    pub(crate) history: BTreeSet<(i64, String)>,
    pub(crate) unspent: BTreeSet<(String, u32, u64, i64)>,
}

#[derive(Deserialize)]
struct Balance {
    confirmed: i64,
    unconfirmed: i64,
}

#[derive(Deserialize)]
struct Entry {
    tx_hash: String,
    height: i64,
}

#[derive(Deserialize)]
struct Coin {
    tx_hash: String,
    tx_pos: u32,
    value: u64,
    height: i64,
}

impl Answers {
    /// Parses the answers to `get_balance`, `get_history` and `listunspent`.
    pub(crate) fn read(lines: &[Vec<u8>; 3]) -> Result<Self> {
        let [balance, history, unspent] = lines;
        let Balance { confirmed, unconfirmed } =
            serde_json::from_str(result(balance)?).context("failed to parse a balance")?;
        let history: Vec<Entry> = serde_json::from_str(result(history)?).context("failed to parse a history")?;
        let unspent: Vec<Coin> = serde_json::from_str(result(unspent)?).context("failed to parse unspent outputs")?;
        Ok(Self {
            balance: (confirmed, unconfirmed),
            history: history.into_iter().map(|entry| (entry.height, entry.tx_hash)).collect(),
            unspent: unspent.into_iter().map(|coin| (coin.tx_hash, coin.tx_pos, coin.value, coin.height)).collect(),
        })
    }

    /// Describes the differences from another server's answers.
    pub(crate) fn differences(&self, other: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        if self.balance != other.balance {
            differences.push(format!("balance {:?} and {:?}", self.balance, other.balance));
        }
        if self.history != other.history {
            differences.push(format!("history of {} and {}", self.history.len(), other.history.len()));
        }
        if self.unspent != other.unspent {
            differences.push(format!("unspent outputs, {} and {}", self.unspent.len(), other.unspent.len()));
        }
        differences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(confirmed: i64, order: [&str; 2]) -> Answers {
        let [one, other] = order;
        let lines = [
            format!(r#"{{"id":0,"result":{{"confirmed":{confirmed},"unconfirmed":0}}}}"#),
            format!(
                r#"{{"id":0,"result":[{{"tx_hash":"{one}","height":1,"fee":3}},{{"tx_hash":"{other}","height":1}}]}}"#
            ),
            r#"{"id":0,"result":[{"tx_hash":"aa","tx_pos":1,"value":5,"height":1}]}"#.to_owned(),
        ];
        Answers::read(&lines.map(String::into_bytes)).expect("answers")
    }

    #[test]
    fn order_and_extra_fields_are_no_difference() {
        assert_eq!(answers(5, ["aa", "bb"]).differences(&answers(5, ["bb", "aa"])), Vec::<String>::new());
        let differences = answers(5, ["aa", "bb"]).differences(&answers(6, ["aa", "cc"]));
        assert_eq!(differences, ["balance (5, 0) and (6, 0)", "history of 2 and 2"]);
    }

    #[test]
    fn a_refusal_is_an_error() {
        let lines = [r#"{"id":0,"error":{"code":1,"message":"history too large"}}"#; 3].map(Into::into);
        assert!(Answers::read(&lines).is_err());
    }
}
