//! Requests of the REST API about scripts, with the answers of the model.

use serde_json::{Value, json};

use crate::chains::ledger::{Output, ScriptFacts, SpentState};
use crate::clients::client::scripthash;
use crate::clients::http_client::{HttpClient, get, rest_path};
use crate::error::{Error, Result};
use crate::faults::asked::Scripts;

/// A request with its only right answer.
#[derive(Debug)]
pub(super) struct RestAsked {
    path: String,
    question: Question,
    answer: Value,
}

/// The part of the answer that the model knows.
#[derive(Debug, Clone, Copy)]
enum Question {
    /// Counts and sums in the chain.
    Stats,
    /// Unspent outputs. (A page of transactions would cost what the largest of them does: here thousands of outputs.)
    Unspent,
}

impl RestAsked {
    /// Returns the requests about these scripts.
    pub(super) fn about(scripts: &Scripts) -> Vec<Self> {
        let each = scripts.iter().flat_map(|(script, facts)| {
            let path = rest_path(&scripthash(script.as_bytes()));
            let unspent = format!("{path}/utxo");
            [
                Self { path, question: Question::Stats, answer: stats(facts) },
                Self { path: unspent, question: Question::Unspent, answer: unspent_of(facts) },
            ]
        });
        each.collect()
    }

    /// Sends the request.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a wrong answer.
    pub(super) fn ask(&self, client: &mut HttpClient) -> Result<()> {
        let answer: Value = serde_json::from_slice(client.body(&get(&self.path))?)
            .map_err(|error| Error::Protocol(format!("{}: {error}", self.path)))?;
        let known = match self.question {
            Question::Stats => answer["chain_stats"].clone(),
            Question::Unspent => sorted(answer.as_array().into_iter().flatten().map(outpoint_and_value).collect()),
        };
        if known == self.answer {
            return Ok(());
        }
        Err(Error::Protocol(format!("{}: {known} instead of {}", self.path, self.answer)))
    }
}

fn stats(facts: &ScriptFacts) -> Value {
    let tally = |counts: &dyn Fn(&Output) -> bool| {
        let counted = facts.outputs.iter().filter(|output| counts(output));
        counted.fold((0_u64, 0), |(count, sum), output| (count + 1, sum + output.output.value.to_sat()))
    };
    let funded = tally(&|output| output.height.is_some());
    let spent = tally(&|output| output.spent == SpentState::InChain);
    json!({
        "tx_count": facts.confirmed.len(),
        "funded_txo_count": funded.0, "funded_txo_sum": funded.1,
        "spent_txo_count": spent.0, "spent_txo_sum": spent.1,
    })
}

fn unspent_of(facts: &ScriptFacts) -> Value {
    let unspent = facts.outputs.iter().filter(|output| output.spent == SpentState::No);
    sorted(
        unspent
            .map(|Output { outpoint, output, .. }| {
                json!([outpoint.txid.to_string(), outpoint.vout, output.value.to_sat()])
            })
            .collect(),
    )
}

fn outpoint_and_value(coin: &Value) -> Value {
    json!([coin["txid"], coin["vout"], coin["value"]])
}

/// The API leaves the order open.
fn sorted(mut list: Vec<Value>) -> Value {
    list.sort_by_key(Value::to_string);
    list.into()
}
