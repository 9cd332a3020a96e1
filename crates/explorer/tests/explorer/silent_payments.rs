//! Pages of silent payment addresses, and what the page of a transaction says of silent payments.

use birdhouse_silentpayments::{Address, AddressNetwork};
use birdhouse_testkit::script::{Form, Lock};
use birdhouse_testkit::tx::Payment;
use bitcoin::hex::DisplayHex as _;
use bitcoin::secp256k1::{Secp256k1, SecretKey};
use bitcoin::{Address as ChainAddress, Network, Txid};
use serde_json::json;

use crate::eligible::eligible;
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

#[test]
fn a_transaction_with_taproot_outputs_shows_the_tweak_of_the_model_or_that_it_has_none() {
    let mut world = World::small(173);
    let lock = Lock::new(Form::P2tr, 500);
    let script = world.live.wallet().script_pubkey(lock);
    let taproot = ChainAddress::from_script(&script, Network::Regtest).unwrap();
    world.live.pay(&[Payment::to_lock(lock, 70_000)]).unwrap();
    world.live.mine().unwrap();
    // A coinbase may have taproot outputs, too.
    world.live.node().rpc("generatetoaddress", json!([1, taproot.to_string()])).unwrap();
    world.live.refresh().unwrap();
    let waiting = world.live.pay(&[Payment::to_lock(lock, 60_000)]).unwrap().compute_txid();
    world.sync();
    let ledger = world.live.ledger();
    let expected: Vec<(Txid, String)> =
        eligible(ledger).into_iter().flatten().map(|one| (one.txid, one.tweak.to_lower_hex_string())).collect();
    let (mut with, mut without) = (0, 0);
    for txid in ledger.chain().iter().skip(1).flat_map(|mined| &mined.txids) {
        let plain = text(&page(&world, &format!("/tx/{txid}")));
        let tweak = expected.iter().find(|(known, _)| known == txid);
        if let Some((_, tweak)) = tweak {
            with += 1;
            assert!(
                plain.contains(&format!("May pay silent paymentsyes, by its taproot outputs; tweak {tweak}")),
                "{plain}"
            );
        } else if plain.contains("May pay silent payments") {
            without += 1;
            assert!(plain.contains("no: its inputs give no tweak"), "{txid}: {plain}");
        }
    }
    assert!(with > 0 && with == expected.len() && without > 0, "{with} {without}");
    let plain = text(&page(&world, &format!("/tx/{waiting}")));
    assert!(plain.contains("May pay silent paymentsyes"), "{plain}");
}
