//! The address of two keys: version 0, in bech32m
//! ([BIP 352](https://github.com/bitcoin/bips/blob/master/bip-0352.mediawiki), "Address encoding").
//!
//! Wallets find their subscription by this text. The BIP knows two prefixes; wallets write a third one on regtest.

use bitcoin::Network;
use bitcoin::bech32::primitives::iter::{ByteIterExt as _, Fe32IterExt as _};
use bitcoin::bech32::{Bech32m, Fe32, Hrp};
use bitcoin::secp256k1::{SECP256K1, SecretKey};

use crate::request::SilentKeys;

/// Returns the address; `None` if the scan key is not a private key.
pub(crate) fn address(keys: &SilentKeys, network: Network) -> Option<String> {
    let mut secret = SecretKey::from_slice(&keys.scan[..]).ok()?;
    let scan = secret.public_key(SECP256K1).serialize();
    secret.non_secure_erase();
    let prefix = match network {
        Network::Bitcoin => "sp",
        Network::Regtest => "sprt",
        _ => "tsp",
    };
    let prefix = Hrp::parse(prefix).expect("the prefix has lower-case letters");
    let bytes = [scan, keys.spend].concat();
    let words = bytes.iter().copied().bytes_to_fes();
    Some(words.with_checksum::<Bech32m>(&prefix).with_witness_version(Fe32::Q).chars().collect())
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use bitcoin::bech32::primitives::decode::CheckedHrpstring;
    use serde_json::Value;
    use zeroize::Zeroizing;

    use super::*;

    /// The scan key, the spend key and the unlabelled address of each receiver in the BIP's vectors.
    fn vectors() -> Vec<(SilentKeys, String)> {
        let file = include_str!("../../../silentpayments/tests/silentpayments/bip352.json");
        let cases: Vec<Value> = serde_json::from_str(file).unwrap();
        let receivers = cases.iter().flat_map(|case| case["receiving"].as_array().unwrap());
        let secret =
            |value: &Value| SecretKey::from_slice(&const_hex::decode(value.as_str().unwrap()).unwrap()).unwrap();
        let vector = |receiver: &Value| {
            let keys = &receiver["given"]["key_material"];
            let scan = Zeroizing::new(secret(&keys["scan_priv_key"]).secret_bytes());
            let spend = secret(&keys["spend_priv_key"]).public_key(SECP256K1).serialize();
            let address = receiver["expected"]["addresses"][0].as_str().unwrap().to_owned();
            (SilentKeys { scan, spend }, address)
        };
        receivers.map(vector).collect()
    }

    #[test]
    fn addresses_are_those_of_the_vectors() {
        let vectors = vectors();
        assert_eq!(vectors.len(), 29);
        for (keys, expected) in vectors {
            assert_eq!(address(&keys, Network::Bitcoin).unwrap(), expected);
        }
    }

    #[test]
    fn each_network_has_its_prefix() {
        let (keys, mainnet) = vectors().remove(0);
        let networks = [
            (Network::Testnet, "tsp"),
            (Network::Testnet4, "tsp"),
            (Network::Signet, "tsp"),
            (Network::Regtest, "sprt"),
        ];
        let data = |address: &str| -> Vec<Fe32> {
            let checked = CheckedHrpstring::new::<Bech32m>(address).unwrap();
            checked.fe32_iter::<&mut dyn Iterator<Item = u8>>().collect()
        };
        for (network, prefix) in networks {
            let address = address(&keys, network).unwrap();
            assert_eq!(address.split_once('1').unwrap().0, prefix);
            assert_eq!(data(&address), data(&mainnet));
        }
    }

    #[test]
    fn a_number_that_is_no_private_key_has_no_address() {
        let (mut keys, _) = vectors().remove(0);
        for byte in [0, 0xff] {
            keys.scan.fill(byte);
            assert_eq!(address(&keys, Network::Bitcoin), None);
        }
    }
}
