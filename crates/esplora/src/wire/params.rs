//! Parts of a request: of its path, its query and its body, parsed with the texts that the API has for
//! malformed ones.

use std::str::FromStr;

use birdhouse_chain::{ScriptHash, read_address};
use bitcoin::hex::FromHex as _;
use bitcoin::{BlockHash, Network, Txid};
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;
use zeroize::Zeroizing;

use crate::wire::failure::Failure;
use crate::wire::ranges::AskedRange;

/// Parts of a request.
#[derive(Debug, Default)]
pub struct Params {
    /// Parts of the path by their names in the route.
    pub(crate) path: Vec<(String, String)>,
    /// The query as it came.
    pub(crate) query: String,
    /// Wiped when it is dropped.
    pub(crate) body: Zeroizing<Vec<u8>>,
    /// The id of the last event that the client has received.
    pub(crate) last_event: Option<String>,
    /// The part of the answer that the client asks for.
    pub(crate) asked_range: AskedRange,
}

impl Params {
    /// The text of a part of the path; empty if the route has none of that name.
    pub fn text(&self, name: &str) -> &str {
        self.path.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }

    /// A number in the path.
    pub fn number<T: FromStr>(&self, name: &str) -> Result<T, Failure> {
        self.text(name).parse().map_err(|_| Failure::bad_request("Invalid number"))
    }

    /// A txid in the path.
    pub fn txid(&self, name: &str) -> Result<Txid, Failure> {
        self.text(name).parse().map_err(|_| invalid_hex())
    }

    /// The last transaction of the page before, in the path. Text that is no txid stands for the first page, as in
    /// Esplora and in mempool's fork.
    pub(crate) fn cursor(&self) -> Option<Txid> {
        self.txid("txid").ok()
    }

    /// The largest number of entries that the client wants, at most `max`.
    pub(crate) fn page_size(&self, max: usize) -> usize {
        self.query("max_txs").and_then(|count| count.parse().ok()).unwrap_or(max).min(max)
    }

    /// The block hash in the path.
    pub fn block_hash(&self) -> Result<BlockHash, Failure> {
        self.text("hash").parse().map_err(|_| invalid_hex())
    }

    /// The script of an address or a script hash, whichever the path has.
    pub fn script(&self, network: Network) -> Result<ScriptHash, Failure> {
        match self.text("address") {
            "" => script_of_hash(self.text("scripthash")),
            address => script_of_address(address, network),
        }
    }

    /// A value of the query, decoded.
    pub fn query(&self, name: &str) -> Option<String> {
        self.query_values(name).next()
    }

    /// All values of the query under a name, decoded.
    pub fn query_values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        values(&self.query, name)
    }

    /// The values of a list in the query, decoded: `name[]=a&name[]=b`, or with indices between the brackets.
    pub fn query_list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = String> + 'a {
        let is_of_list = move |known: &str| {
            let index = known.strip_prefix(name).and_then(|rest| rest.strip_prefix('[')?.strip_suffix(']'));
            index.is_some_and(|index| index.bytes().all(|byte| byte.is_ascii_digit()))
        };
        pairs(&self.query).filter(move |(known, _)| is_of_list(known)).map(|(_, value)| value)
    }

    /// A value of the body's form, decoded.
    pub fn form(&self, name: &str) -> Option<String> {
        values(std::str::from_utf8(&self.body).ok()?, name).next()
    }

    /// A value of the body's form as it came: text of letters and digits alone is right without decoding, which would
    /// copy it.
    pub fn plain_form(&self, name: &str) -> Option<&str> {
        let pairs = std::str::from_utf8(&self.body).ok()?.split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    /// The body as JSON.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Failure> {
        serde_json::from_slice(&self.body).map_err(|error| Failure::bad_request(error.to_string()))
    }
}

/// All values under a name, of a query or a form.
fn values<'a>(text: &'a str, name: &'a str) -> impl Iterator<Item = String> + 'a {
    pairs(text).filter(move |(known, _)| known == name).map(|(_, value)| value)
}

/// The names and values of a query or a form, decoded.
fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    let pairs = text.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decoded(name), decoded(value)))
}

/// Decodes a part of a query, where a plus is a space.
fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}

fn invalid_hex() -> Failure {
    Failure::bad_request("Invalid hex string")
}

/// The script hash of an address of this network.
pub fn script_of_address(address: &str, network: Network) -> Result<ScriptHash, Failure> {
    let address = read_address(address).ok_or_else(|| Failure::bad_request("Invalid Bitcoin address"))?;
    let address = address.require_network(network);
    let address = address.map_err(|_| Failure::bad_request("Address on invalid network"))?;
    Ok(ScriptHash::of(address.script_pubkey().as_bytes()))
}

/// The script hash of 64 digits in the byte order of the hash function, which is not Electrum's.
pub fn script_of_hash(hex: &str) -> Result<ScriptHash, Failure> {
    let bytes = Vec::<u8>::from_hex(hex).map_err(|_| invalid_hex())?;
    bytes.try_into().map(ScriptHash).map_err(|_| Failure::bad_request("Invalid scripthash"))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    /// Dependencies are not optimised in tests, as in `make demo`. A request has a stack of 2 MiB.
    #[test]
    fn the_deepest_json_that_is_read_takes_an_eighth_of_a_stack_and_a_deeper_one_is_refused() {
        const LEVELS_MAX: usize = 127;
        let read = |levels: usize| {
            let body = format!("{}{}", "[".repeat(levels), "]".repeat(levels)).into_bytes();
            Params { body: body.into(), ..Params::default() }.json::<serde_json::Value>().is_ok()
        };
        let on_thread = std::thread::Builder::new().stack_size(256 << 10);
        let are_read = on_thread.spawn(move || [LEVELS_MAX, LEVELS_MAX + 1].map(read)).unwrap().join().unwrap();
        assert_eq!(are_read, [true, false]);
    }

    #[test]
    fn the_query_is_decoded_and_a_name_may_repeat() {
        let params = Params { query: "a=1&b%5B%5D=x%20y&b[]=z+w&c".into(), ..Params::default() };
        assert_eq!(params.query("a").as_deref(), Some("1"));
        assert_eq!(params.query_values("b[]").collect::<Vec<_>>(), ["x y", "z w"]);
        assert_eq!((params.query("c").as_deref(), params.query("d")), (Some(""), None));
        let params = Params { query: "a[]=1&a%5B7%5D=2&a=3&a[x]=4&b[]=5".into(), ..Params::default() };
        assert_eq!(params.query_list("a").collect::<Vec<_>>(), ["1", "2"]);
    }
}
