//! Addresses: those of the vectors, and what no decoder may take.

use bech32::primitives::iter::{ByteIterExt as _, Fe32IterExt as _};
use bech32::{Bech32m, Fe32, Hrp};
use birdhouse_silentpayments::{Address, AddressError, AddressNetwork, ScanKey};
use bitcoin::Network;
use secp256k1::{PublicKey, SECP256K1, SecretKey};

use crate::model::Receiver;
use crate::vectors;

fn receiver_key(receiver: &Receiver) -> ScanKey {
    ScanKey::new(&receiver.scan, &receiver.spend.serialize(), &receiver.labels).unwrap()
}

/// The address of the first vector.
fn first() -> String {
    vectors::all()[0].addresses[0].clone()
}

/// Writes an address of any version and content, as the BIP says.
fn written(version: u8, bytes: &[u8]) -> String {
    let prefix = Hrp::parse("sp").unwrap();
    let symbols = bytes.iter().copied().bytes_to_fes().with_checksum::<Bech32m>(&prefix);
    symbols.with_witness_version(Fe32::try_from(version).unwrap()).chars().collect()
}

#[test]
fn addresses_of_the_vectors_have_the_keys_of_their_receivers() {
    let mut labelled = 0;
    for vector in vectors::all() {
        let receiver = &vector.receiver;
        let scan = SecretKey::from_slice(&receiver.scan).unwrap().public_key(SECP256K1).serialize();
        let plain = Address::of(&receiver_key(receiver), AddressNetwork::Main);
        assert_eq!((plain.scan, plain.spend), (scan, receiver.spend.serialize()), "case {}", vector.case);
        let points = receiver.labels.iter().map(|label| {
            let point: PublicKey = receiver.label(*label).public_key(SECP256K1);
            receiver.spend.combine(&point).unwrap().serialize()
        });
        let spends: Vec<_> = std::iter::once(receiver.spend.serialize()).chain(points).collect();
        assert!(!vector.addresses.is_empty(), "case {}", vector.case);
        for text in &vector.addresses {
            let address: Address = text.parse().unwrap();
            assert_eq!((address.network, address.version), (AddressNetwork::Main, 0));
            assert_eq!(address.scan, scan, "case {}", vector.case);
            assert!(spends.contains(&address.spend), "case {}: {text}", vector.case);
            assert_eq!(address.to_string(), *text);
            labelled += usize::from(address.spend != plain.spend);
        }
        assert!(vector.addresses.contains(&plain.to_string()), "case {}", vector.case);
    }
    assert!(labelled > 0);
}

#[test]
fn each_network_reads_its_own_addresses_and_regtest_those_of_all_test_networks() {
    let address: Address = first().parse().unwrap();
    for (network, prefix, of) in [
        (AddressNetwork::Main, "sp1q", &[Network::Bitcoin][..]),
        (AddressNetwork::Test, "tsp1q", &[Network::Testnet, Network::Testnet4, Network::Signet, Network::Regtest]),
        (AddressNetwork::Regtest, "sprt1q", &[Network::Regtest]),
    ] {
        let address = Address { network, ..address };
        let text = address.to_string();
        assert!(text.starts_with(prefix), "{text}");
        assert_eq!(text.len(), prefix.len() + 106 + 6);
        assert_eq!(text.parse(), Ok(address));
        assert_eq!(text.to_uppercase().parse(), Ok(address));
        let all = [Network::Bitcoin, Network::Testnet, Network::Testnet4, Network::Signet, Network::Regtest];
        for network in all {
            assert_eq!(address.network.is_of(network), of.contains(&network), "{text} {network}");
        }
    }
}

#[test]
fn every_single_wrong_character_is_noticed() {
    let text = first();
    for at in "sp1".len()..text.len() {
        for wrong in ['q', 'z', '7', 'l'] {
            let mut chars: Vec<char> = text.chars().collect();
            if std::mem::replace(&mut chars[at], wrong) != wrong {
                let wrong: String = chars.into_iter().collect();
                assert_eq!(wrong.parse::<Address>(), Err(AddressError::Checksum), "{wrong}");
            }
        }
    }
    let first_of = |len: usize| text.chars().take(len).collect::<String>();
    for (wrong, error) in [
        (String::new(), AddressError::Prefix),
        ("bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq".into(), AddressError::Prefix),
        (text.replacen("sp1", "sp", 1), AddressError::Prefix),
        (text.replacen("sp1", "tsp1", 1), AddressError::Checksum),
        (text.replacen("sp1q", "sp1b", 1), AddressError::Characters),
        (text.replacen("sp1q", "sp1Q", 1), AddressError::Characters),
        (first_of(text.len() - 1), AddressError::Checksum),
        ("sp1".into(), AddressError::Length),
    ] {
        assert_eq!(wrong.parse::<Address>(), Err(error), "{wrong:?}");
    }
}

/// BIP 352, "Backward compatibility": version 0 has 66 bytes, 1 to 30 at least as many, 31 is no version.
#[test]
fn later_versions_are_read_as_far_as_the_keys_and_the_last_one_never() {
    let address: Address = first().parse().unwrap();
    let keys = [address.scan, address.spend].concat();
    assert_eq!(written(0, &keys), first());
    for version in [1, 17, 30] {
        for rest in [&[][..], &[1, 2, 3]] {
            let read = written(version, &[&keys, rest].concat()).parse();
            assert_eq!(read, Ok(Address { version, ..address }));
        }
    }
    let error = |version: u8, bytes: &[u8]| written(version, bytes).parse::<Address>().unwrap_err();
    assert_eq!(error(31, &keys), AddressError::Version);
    assert_eq!(error(0, &[&keys[..], &[0]].concat()), AddressError::Length);
    assert_eq!(error(0, &keys[..65]), AddressError::Length);
    assert_eq!(error(1, &keys[..65]), AddressError::Length);
    assert_eq!(error(1, &[]), AddressError::Length);
    assert_eq!(error(1, &[&keys[..], &[0; 700]].concat()), AddressError::Length, "longer than 1023 characters");
    for at in [0, 33] {
        let mut wrong = keys.clone();
        wrong[at] = 4;
        assert_eq!(error(0, &wrong), AddressError::Key);
    }
}
