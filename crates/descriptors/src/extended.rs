//! Extended keys by themselves, and their version bytes
//! ([SLIP 132](https://github.com/satoshilabs/slips/blob/master/slip-0132.md)).

use bitcoin::{Network, NetworkKind, base58};

use crate::unnamed::Unnamed;

/// Public version bytes by the scripts that they are for: of mainnet, and of the test networks.
const VERSIONS: [([u8; 4], [u8; 4], Scripts); 5] = [
    (
        [0x04, 0x88, 0xb2, 0x1e],
        [0x04, 0x35, 0x87, 0xcf],
        Scripts::OfOneKey(&["wpkh(_)", "tr(_)", "sh(wpkh(_))", "pkh(_)"]),
    ),
    ([0x04, 0x9d, 0x7c, 0xb2], [0x04, 0x4a, 0x52, 0x62], Scripts::OfOneKey(&["sh(wpkh(_))"])),
    ([0x04, 0xb2, 0x47, 0x46], [0x04, 0x5f, 0x1c, 0xf6], Scripts::OfOneKey(&["wpkh(_)"])),
    // Ypub, Upub; Zpub, Vpub.
    ([0x02, 0x95, 0xb4, 0x3f], [0x02, 0x42, 0x89, 0xef], Scripts::OfSeveral),
    ([0x02, 0xaa, 0x7e, 0xd3], [0x02, 0x57, 0x54, 0x83], Scripts::OfSeveral),
];
/// Bytes of an extended key.
const EXTENDED_BYTES: usize = 78;
/// Characters of an extended key in base58, at most.
const EXTENDED_CHARS_MAX: usize = 113;

/// Scripts that a key is for.
#[derive(Clone, Copy)]
enum Scripts {
    /// Descriptors with a place for the key.
    OfOneKey(&'static [&'static str]),
    /// Multisig.
    OfSeveral,
}

/// Returns the descriptors of a bare extended key: of receiving and of change scripts, in every form that it may be
/// for. `None` if it is none.
pub(crate) fn descriptors(text: &str, network: Network) -> Result<Option<Vec<String>>, Unnamed> {
    let (origin, key) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((origin, key)) => (format!("[{origin}]"), key),
        None => (String::new(), text),
    };
    let Some(mut bytes) = decode(key) else { return Ok(None) };
    let version = |(main, test, _): &([u8; 4], [u8; 4], Scripts)| bytes[..4] == *main || bytes[..4] == *test;
    let Some((main, _, scripts)) = VERSIONS.into_iter().find(version) else { return Ok(None) };
    let kind = if bytes[..4] == main { NetworkKind::Main } else { NetworkKind::Test };
    if kind != NetworkKind::from(network) {
        return Err(Unnamed::OtherNetwork);
    }
    let Scripts::OfOneKey(forms) = scripts else { return Err(Unnamed::OneOfSeveralKeys) };
    let [(xpub, tpub, _), ..] = VERSIONS;
    bytes[..4].copy_from_slice(if kind.is_mainnet() { &xpub } else { &tpub });
    let key = format!("{origin}{}/<0;1>/*", base58::encode_check(&bytes));
    Ok(Some(forms.iter().map(|form| form.replace('_', &key)).collect()))
}

/// Returns the bytes of an extended key, public or private.
fn decode(key: &str) -> Option<Vec<u8>> {
    if key.len() > EXTENDED_CHARS_MAX {
        return None;
    }
    base58::decode_check(key).ok().filter(|bytes| bytes.len() == EXTENDED_BYTES)
}
