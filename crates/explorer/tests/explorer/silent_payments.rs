//! Pages of silent payment addresses.

use birdhouse_silentpayments::{Address, AddressNetwork};
use bitcoin::hex::DisplayHex as _;
use bitcoin::secp256k1::{Secp256k1, SecretKey};

use crate::pages::{page, text};
use crate::world::World;

/// The address of the first vector of BIP 352, and its private keys.
const ADDRESS: &str = "sp1qqgste7k9hx0qftg6qmwlkqtwuy6cycyavzmzj85c6qdfhjdpdjtdgqjuexzk6murw56suy3e0rd2cgqvycxttddwsvgxe2usfpxumr70xc9pkqwv";
const SCAN: &str = "0f694e068028a717f8af6b9411f9a133dd3565258714cc226594b34db90c1f2c";
const SPEND: &str = "9d6ad855ce3417ef84e836892e5a56392bfba05fa5d97ccea30e266f540e08b3";

/// The address of the same keys on another network.
pub(crate) fn address(network: AddressNetwork) -> String {
    let address: Address = ADDRESS.parse().unwrap();
    Address { network, ..address }.to_string()
}

#[test]
fn an_address_of_its_own_network_shows_its_keys_and_the_search_leads_to_it() {
    let world = World::small(171);
    let public = |key: &str| {
        let key: SecretKey = key.parse().unwrap();
        key.public_key(&Secp256k1::new()).serialize().to_lower_hex_string()
    };
    for network in [AddressNetwork::Test, AddressNetwork::Regtest] {
        let address = address(network);
        let plain = text(&page(&world, &format!("/address/{address}")));
        for expected in [&address, &public(SCAN), &public(SPEND), "No history", "Networkregtest", "Version0"] {
            assert!(plain.contains(expected), "{expected}: {plain}");
        }
        for searched in [address.clone(), address.to_uppercase(), format!("bitcoin:{address}")] {
            let got = world.rest.post("/search", &format!("q={searched}"));
            assert_eq!((got.status, got.header("location")), (303, &*format!("/address/{address}")), "{searched}");
        }
    }
}

#[test]
fn an_address_of_another_network_or_with_a_slip_is_refused_with_the_reason() {
    let world = World::small(172);
    let own = address(AddressNetwork::Regtest);
    let (first, last) = own.split_at(own.len() - 1);
    let mistyped = format!("{first}{}", if last == "q" { "p" } else { "q" });
    for (address, reason) in [
        (ADDRESS, "another network"),
        (&mistyped, "checksum"),
        (first, "checksum"),
        ("sprt1", "wrong length"),
        ("sprt1qb", "does not belong there"),
    ] {
        let opened = world.rest.get(&format!("/address/{address}"));
        let searched = world.rest.post("/search", &format!("q={address}"));
        for got in [opened, searched] {
            assert_eq!(got.status, 400, "{address}");
            assert!(text(&got.text()).contains(reason), "{address}: {}", got.text());
        }
    }
    // Nothing else of an address is there, and a wallet page has no line for it.
    for path in ["unspent", "history.csv"] {
        let got = world.rest.get(&format!("/address/{own}/{path}"));
        assert!(got.status == 400 && got.text().contains("silent payment address"), "{path}: {}", got.text());
    }
    let wallet = world.rest.post("/addresses", &format!("q={own}"));
    assert!(wallet.status == 400 && wallet.text().contains("silent payment address"), "{}", wallet.text());
}
