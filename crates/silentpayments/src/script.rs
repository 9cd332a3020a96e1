//! Forms of scriptPubKeys that [BIP 352](https://github.com/bitcoin/bips/blob/master/bip-0352.mediawiki) tells apart.

/// The twenty bytes of a hash of a key or script.
pub(crate) type Hash160 = [u8; 20];

const OP_1: u8 = 0x51;
const OP_16: u8 = 0x60;

/// The hash of a script that pays a key's hash.
pub(crate) fn p2pkh(script: &[u8]) -> Option<&Hash160> {
    script.strip_prefix(&[0x76, 0xa9, 20])?.strip_suffix(&[0x88, 0xac])?.try_into().ok()
}

/// True for a script that pays a script's hash.
pub(crate) fn is_p2sh(script: &[u8]) -> bool {
    script.len() == 23 && script.starts_with(&[0xa9, 20]) && script.ends_with(&[0x87])
}

/// True for version 0 with twenty bytes.
pub(crate) fn is_p2wpkh(script: &[u8]) -> bool {
    script.len() == 22 && script.starts_with(&[0, 20])
}

/// Returns the key of a scriptPubKey that pays a taproot key, version 1 with 32 bytes
/// ([BIP 341](https://github.com/bitcoin/bips/blob/master/bip-0341.mediawiki)). Not every value is the x coordinate of
/// a point.
pub fn taproot_key(script: &[u8]) -> Option<&[u8; 32]> {
    script.strip_prefix(&[OP_1, 32])?.try_into().ok()
}

/// The version of a witness program, that is a version and one push of 2 to 40 bytes, which is all
/// ([BIP 141](https://github.com/bitcoin/bips/blob/master/bip-0141.mediawiki)).
pub(crate) fn segwit_version(script: &[u8]) -> Option<u8> {
    let &[version, push, ref program @ ..] = script else { return None };
    if !(2..=40).contains(&program.len()) || usize::from(push) != program.len() {
        return None;
    }
    match version {
        0 => Some(0),
        OP_1..=OP_16 => Some(version - OP_1 + 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_program_is_a_version_and_one_push_of_2_to_40_bytes() {
        let script = |version: u8, push: u8, len: usize| [&[version, push][..], &vec![7; len]].concat();
        assert_eq!(segwit_version(&script(0, 20, 20)), Some(0));
        assert_eq!(segwit_version(&[0x51, 0x02, 0x4e, 0x73]), Some(1), "pay to anchor");
        assert_eq!(segwit_version(&script(0x52, 2, 2)), Some(2));
        assert_eq!(segwit_version(&script(0x60, 40, 40)), Some(16));
        for (version, push, len) in
            [(0x52, 1, 1), (0x52, 41, 41), (0x52, 3, 2), (0x52, 2, 3), (0x61, 2, 2), (0x50, 2, 2)]
        {
            assert_eq!(segwit_version(&script(version, push, len)), None, "{version:x} {push} {len}");
        }
        assert_eq!(segwit_version(&[0x52]), None);
    }
}
