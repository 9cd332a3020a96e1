//! Forms of descriptors that Bitcoin Core has beside those of miniscript: `addr`, `raw`, `combo`, `rawtr`
//! ([BIP 385](https://github.com/bitcoin/bips/blob/master/bip-0385.mediawiki),
//! [BIP 384](https://github.com/bitcoin/bips/blob/master/bip-0384.mediawiki), Core's `doc/descriptors.md`).

use birdhouse_chain::read_address;
use bitcoin::hex::FromHex as _;
use bitcoin::{Network, ScriptBuf};

use crate::reasons::unreadable;
use crate::unnamed::Unnamed;

/// Hexadecimal digits of an uncompressed public key.
const UNCOMPRESSED_DIGITS: usize = 130;

/// A descriptor without its checksum, by its outermost form.
pub(crate) enum Form<'a> {
    /// A script that is written out.
    Script(ScriptBuf),
    /// The texts of descriptors of miniscript.
    Miniscript(Vec<String>),
    /// The key of `rawtr`.
    RawTaproot(&'a str),
}

/// Reads the outermost form.
pub(crate) fn form(text: &str, network: Network) -> Result<Form<'_>, Unnamed> {
    let whole = || Form::Miniscript(vec![text.to_owned()]);
    let Some((name, rest)) = text.split_once('(') else { return Ok(whole()) };
    let Some(inner) = rest.strip_suffix(')') else { return Ok(whole()) };
    Ok(match name {
        "addr" => {
            let address = read_address(inner).ok_or_else(|| unreadable(inner).in_descriptor())?;
            let address = address.require_network(network).map_err(|_| Unnamed::OtherNetwork)?;
            Form::Script(address.script_pubkey())
        }
        "raw" => {
            let script = Vec::from_hex(inner).ok().filter(|script| !script.is_empty());
            Form::Script(script.ok_or(Unnamed::Unreadable)?.into())
        }
        "combo" => Form::Miniscript(combo(inner)),
        // Not a tree of scripts, which `tr` may have.
        "rawtr" if inner.contains(',') => return Err(unreadable(text)),
        "rawtr" => Form::RawTaproot(inner),
        _ => whole(),
    })
}

/// Returns the descriptors of all scripts that a key alone may have; without segwit for an uncompressed key.
fn combo(key: &str) -> Vec<String> {
    let forms: &[&str] = &["pk(_)", "pkh(_)", "wpkh(_)", "sh(wpkh(_))"];
    let bare = key.rsplit(']').next().unwrap_or_default();
    let is_uncompressed = bare.len() == UNCOMPRESSED_DIGITS;
    let forms = if is_uncompressed { &forms[..2] } else { forms };
    forms.iter().map(|form| form.replace('_', key)).collect()
}
