//! The calls of Core's wallet that suites make: from parameters by position to a result.

use std::collections::BTreeMap;

use birdhouse_regtest::Error as NodeError;
use birdhouse_regtest::bitcoind::Bitcoind;
use birdhouse_regtest::tx::{Coin, Payment, signed};
use bitcoin::consensus::encode::{deserialize_hex, serialize_hex};
use bitcoin::{Address, Amount, Network, ScriptBuf, Transaction, Txid};
use serde_json::{Value, json};

use super::answers::{self, btc};
use super::choice::{Choice, Wanted, choose};
use super::keys::{Keys, Owned};
use crate::chains::ledger::Ledger;
use crate::error::Error;

/// Methods that are answered here and not by the node.
pub(super) const METHODS: [&str; 9] = [
    "createwallet",
    "loadwallet",
    "listwallets",
    "getnewaddress",
    "getbalance",
    "listunspent",
    "sendtoaddress",
    "signrawtransactionwithwallet",
    "gettransaction",
];

/// Virtual size of an output without its script, whose length takes one byte.
const OUTPUT_VB: usize = 9;

/// An error of the protocol, with Core's code.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) code: i64,
    pub(super) message: String,
}

/// The wallets of a node, by name.
#[derive(Debug, Default)]
pub(super) struct Wallets {
    keys: BTreeMap<String, Keys>,
    ledger: Ledger,
    rate_sat_vb: u64,
}

/// One wallet, with the state of the node.
struct Session<'a> {
    node: &'a Bitcoind,
    keys: &'a mut Keys,
    ledger: &'a mut Ledger,
    rate_sat_vb: u64,
}

type Answer = Result<Value, Refusal>;

impl Wallets {
    /// Makes no wallet; those that will be created pay this fee rate.
    pub(super) fn new(rate_sat_vb: u64) -> Self {
        Self { rate_sat_vb, ..Self::default() }
    }

    /// Answers a method of [`METHODS`] for the wallet that the path names; without a name, for the only one.
    pub(super) fn answer(&mut self, node: &Bitcoind, name: Option<&str>, method: &str, params: &[Value]) -> Answer {
        match method {
            "createwallet" => self.create(text(params, 0)?),
            "loadwallet" => self.load(text(params, 0)?),
            "listwallets" => Ok(self.keys.keys().cloned().collect()),
            _ => self.session(node, name)?.answer(method, params),
        }
    }

    fn create(&mut self, name: &str) -> Answer {
        if self.keys.contains_key(name) {
            return refuse(-4, "Wallet already exists");
        }
        self.keys.insert(name.to_owned(), Keys::of(name));
        Ok(json!({ "name": name }))
    }

    fn load(&self, name: &str) -> Answer {
        if self.keys.contains_key(name) { Ok(json!({ "name": name })) } else { refuse(-18, "Wallet file not found") }
    }

    fn session<'a>(&'a mut self, node: &'a Bitcoind, name: Option<&str>) -> Result<Session<'a>, Refusal> {
        let keys = match name {
            Some(name) => self.keys.get_mut(name),
            None if self.keys.len() == 1 => self.keys.values_mut().next(),
            None => None,
        };
        let Some(keys) = keys else { return refuse(-18, "Requested wallet does not exist or is not loaded") };
        self.ledger.refresh(node).map_err(Refusal::from)?;
        Ok(Session { node, keys, ledger: &mut self.ledger, rate_sat_vb: self.rate_sat_vb })
    }
}

impl Session<'_> {
    fn answer(&mut self, method: &str, params: &[Value]) -> Answer {
        match method {
            "getnewaddress" => self.new_address(params),
            "getbalance" => Ok(self.balance()),
            "listunspent" => self.unspent(params),
            "sendtoaddress" => self.send(&script(params, 0)?, amount(params, 1)?),
            "signrawtransactionwithwallet" => self.sign(text(params, 0)?),
            "gettransaction" => self.transaction(text(params, 0)?),
            other => refuse(-32601, format!("Method not found: {other}")),
        }
    }

    fn new_address(&mut self, params: &[Value]) -> Answer {
        match params.get(1).and_then(Value::as_str) {
            None | Some("bech32") => Ok(self.keys.next_address().to_string().into()),
            Some(other) => refuse(-5, format!("Unknown address type '{other}'")),
        }
    }

    fn balance(&self) -> Value {
        let trusted = self.keys.coins(self.ledger).into_iter().filter(|owned| owned.is_trusted);
        btc(trusted.map(|owned| owned.coin.sat()).sum())
    }

    /// `minconf`, `maxconf`, `addresses` and `include_unsafe`; without the first, unconfirmed outputs are left out.
    fn unspent(&self, params: &[Value]) -> Answer {
        let (min, max) = (number(params, 0).unwrap_or(1), number(params, 1).unwrap_or(u64::MAX));
        let addresses = addresses(params)?;
        let all = params.get(3).and_then(Value::as_bool).unwrap_or(true);
        let coins = self.keys.coins(self.ledger).into_iter().filter(|owned| all || owned.is_trusted);
        let listed = coins.filter(|owned| (min..=max).contains(&self.confirmations(owned)));
        let paid_to = |owned: &Owned| addresses.is_empty() || addresses.contains(&owned.coin.output.script_pubkey);
        Ok(listed.filter(paid_to).map(|owned| answers::unspent(&owned, self.confirmations(&owned))).collect())
    }

    fn confirmations(&self, owned: &Owned) -> u64 {
        owned.height.map_or(0, |height| u64::from(self.ledger.height() - height) + 1)
    }

    fn send(&mut self, script: &ScriptBuf, amount: Amount) -> Answer {
        let wanted =
            Wanted { sat: amount.to_sat(), vsize: (OUTPUT_VB + script.len()) as u64, rate_sat_vb: self.rate_sat_vb };
        let (confirmed, unconfirmed) = self.spendable();
        let Some(choice) = choose(&confirmed, &unconfirmed, wanted) else { return refuse(-6, "Insufficient funds") };
        let tx = self.payment(&choice, Payment::to_script(script.clone(), amount.to_sat()));
        Ok(self.node.rpc("sendrawtransaction", json!([serialize_hex(&tx)])).map_err(Error::from)?)
    }

    fn spendable(&self) -> (Vec<Coin>, Vec<Coin>) {
        let trusted = self.keys.coins(self.ledger).into_iter().filter(|owned| owned.is_trusted);
        let (confirmed, unconfirmed): (Vec<_>, Vec<_>) = trusted.partition(|owned| owned.height.is_some());
        let coins = |owned: Vec<Owned>| owned.into_iter().map(|owned| owned.coin).collect();
        (coins(confirmed), coins(unconfirmed))
    }

    fn payment(&mut self, choice: &Choice, payment: Payment) -> Transaction {
        let mut payments = vec![payment];
        if let Some(sat) = choice.change_sat {
            payments.push(Payment::to_lock(self.keys.next_lock(), sat));
        }
        signed(self.keys.wallet(), &choice.coins, &payments)
    }

    fn sign(&self, hex: &str) -> Answer {
        let mut tx: Transaction = deserialize_hex(hex).map_err(|_| refusal(-22, "TX decode failed"))?;
        let Some(coins) = self.keys.inputs(&self.ledger.outputs(), &tx) else {
            return refuse(-5, "an input is not the wallet's");
        };
        self.keys.wallet().sign(&mut tx, &coins);
        Ok(json!({ "hex": serialize_hex(&tx), "complete": true }))
    }

    fn transaction(&self, txid: &str) -> Answer {
        let txid: Txid = txid.parse().map_err(|_| refusal(-8, "txid must be hexadecimal string of length 64"))?;
        let found = answers::transaction(self.ledger, self.keys, txid);
        found.ok_or_else(|| refusal(-5, "Invalid or non-wallet transaction id"))
    }
}

fn refuse<T>(code: i64, message: impl Into<String>) -> Result<T, Refusal> {
    Err(refusal(code, message))
}

fn refusal(code: i64, message: impl Into<String>) -> Refusal {
    Refusal { code, message: message.into() }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        match error {
            Error::Regtest(NodeError::Rpc { code, message, .. }) => Self { code, message },
            other => refusal(-1, other.to_string()),
        }
    }
}

// === Parameters ===

fn text(params: &[Value], index: usize) -> Result<&str, Refusal> {
    params.get(index).and_then(Value::as_str).ok_or_else(|| refusal(-3, format!("parameter {index} is no string")))
}

fn number(params: &[Value], index: usize) -> Option<u64> {
    params.get(index).and_then(Value::as_u64)
}

fn script(params: &[Value], index: usize) -> Result<ScriptBuf, Refusal> {
    parse_address(text(params, index)?)
}

fn addresses(params: &[Value]) -> Result<Vec<ScriptBuf>, Refusal> {
    let listed = params.get(2).and_then(Value::as_array).into_iter().flatten();
    listed.map(|address| parse_address(address.as_str().unwrap_or_default())).collect()
}

fn parse_address(text: &str) -> Result<ScriptBuf, Refusal> {
    let address: Option<Address> =
        text.parse().ok().and_then(|address: Address<_>| address.require_network(Network::Regtest).ok());
    address.map(|address| address.script_pubkey()).ok_or_else(|| refusal(-5, "Invalid Bitcoin address"))
}

/// An amount in bitcoin: a number or a string.
fn amount(params: &[Value], index: usize) -> Result<Amount, Refusal> {
    let parsed = match params.get(index) {
        Some(Value::String(text)) => text.parse().ok(),
        Some(value) => value.as_f64(),
        None => None,
    };
    parsed.and_then(|btc| Amount::from_btc(btc).ok()).ok_or_else(|| refusal(-3, "Invalid amount"))
}
