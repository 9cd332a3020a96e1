//! Descriptors and keys beside what Bitcoin Core makes of them: `getdescriptorinfo` and `deriveaddresses` of a real
//! node, on regtest.

use birdhouse_testkit::{Bitcoind, Options};
use bitcoin::{Address, Network};
use serde_json::{Value, json};

use super::{Branch, Derivation, Named, Steps, Unnamed, parse};

/// The public key of the first test vector of BIP 32, and that of the second one, with the version of test networks.
const ONE: &str =
    "tpubD6NzVbkrYhZ4XgiXtGrdW5XDAPFCL9h7we1vwNCpn8tGbBcgfVYjXyhWo4E1xkh56hjod1RhGjxbaTLV3X4FyWuejifB9jusQ46QzG87VKp";
const TWO: &str =
    "tpubD6NzVbkrYhZ4XJDrzRvuxHEyQaPd1mwwdDofEJwekX18tAdsqeKfxss79AJzg1431FybXg5rfpTrJF4iAhyR7RubberdzEQXiRmXGADH2eA";
/// Any public keys.
const COMPRESSED: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
const X_ONLY: &str = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
const UNCOMPRESSED: &str = "0479be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798483ada7726a3c4655da4fbfc0e1108a8fd17b448a68554199c47d08ffb10d4b8";
/// [`TWO`] with two characters exchanged.
const SWAPPED: &str =
    "tpubD6NzVbkrYhZ4XJDrzRvuxHEyQaPd1mwwdDofEJwekX18tAdsqeKfxss79AJzg1431FybXg5rfpTrJF4iAhyR7RubberdzEQXiRmXGADHe2A";
/// Scripts of each branch that are compared.
const NUMBERS: u32 = 3;

/// Descriptors that both read, with `@A` and `@B` for extended keys, `@C`, `@X` and `@U` for the others.
const READ: &[&str] = &[
    "pkh(@A/0/*)",
    "wpkh(@C)",
    "wpkh([d34db33f/84h/1h/0h]@A/<0;1>/*)",
    "wpkh([d34db33f/84'/1'/0']@A/1/2/3/4)",
    "sh(wpkh(@A/<0;1>/*))",
    "sh(multi(1,@A/0/*,@B/0/*))",
    "sh(multi(2,@A/0/*,@B/0/*,@U))",
    "sh(sortedmulti(2,@A/0/*,@B/0/*,@C))",
    "wsh(sortedmulti(2,@A/<0;1>/*,@B/<2;3>/*))",
    "sh(wsh(multi(2,@A/<0;1>/*,@B/0/*,@C)))",
    "wsh(and_v(v:pk(@A/0/*),or_d(pk(@B/0/*),older(12960))))",
    "wsh(or_d(multi(2,@A/<0;1>/*,@B/<0;1>/*),and_v(v:pkh(@A/<2;3>/*),older(65535))))",
    "tr(@A/<0;1>/*)",
    "tr(@X)",
    "tr(@C,{pk(@A/0/*),{pk(@B/0/*),multi_a(1,@A/1/*,@X)}})",
    "tr(@A/0/*,and_v(v:pk(@B/0/*),older(144)))",
    "rawtr(@X)",
    "rawtr(@C)",
    "rawtr([d34db33f/86h/1h/0h]@A/<0;1;2>/*)",
    "combo(@C)",
    "combo(@U)",
    "combo(@A/0/*)",
    "addr(bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080)",
    "raw(0014751e76e8199196d454941c45d1b3a323f1433bd6)",
];

/// Descriptors that neither reads, and the reason.
const REFUSED: &[(&str, Unnamed)] = &[
    ("wpkh(@A/0'/*)", Unnamed::Hardened),
    ("wpkh(@A/0h/1)", Unnamed::Hardened),
    ("wpkh(@A/0/*')", Unnamed::Hardened),
    ("tr(@X,pk(@A/<0;1h>/*))", Unnamed::Hardened),
    ("combo(@A/0/*h)", Unnamed::Hardened),
    ("rawtr(@A/0'/*)", Unnamed::Hardened),
    ("wsh(multi(1,@A/<0;1>/*,@B/<0;1;2>/*))", Unnamed::UnequalPaths),
    ("wsh(multi(1,@A/<0;1;2>/*,@B/<0;1>/*))", Unnamed::UnequalPaths),
    ("tr(@A/<0;1>/*,pk(@B/<0;1;2>/*))", Unnamed::UnequalPaths),
    ("tr(@X,{pk(@A/<0;1>/*),pk(@B/<0;1;2>/*)})", Unnamed::UnequalPaths),
    ("sh(sortedmulti(1,@A/<0;1>/*,@B/<0;1;2>/*))", Unnamed::UnequalPaths),
    ("wpkh(@A/<0;0>/*)", Unnamed::RepeatedPath),
    ("wpkh(@A/<0>/*)", Unnamed::Unreadable),
    ("wpkh(@A/<0;1>/<0;1>/*)", Unnamed::Unreadable),
    ("wpkh(@A/*/0)", Unnamed::Unreadable),
    ("wpkh(@A/0/2147483648)", Unnamed::Unreadable),
    ("wpkh([d34db33f]@A/0H/*)", Unnamed::Unreadable),
    ("wpkh([d34db33]@A/0/*)", Unnamed::Unreadable),
    ("wpkh(@X)", Unnamed::Unreadable),
    ("wsh(multi(2,@A/0/*))", Unnamed::Unreadable),
    ("wsh(wpkh(@C))", Unnamed::Unreadable),
    ("sh(sh(pkh(@C)))", Unnamed::Unreadable),
    (
        "wpkh(xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8/0/*)",
        Unnamed::OtherNetwork,
    ),
    ("addr(bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4)", Unnamed::OtherNetwork),
    (
        "wpkh(zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs/0/*)",
        Unnamed::KeyVersion,
    ),
    ("wpkh(@C)#qqqqqqqq", Unnamed::Checksum),
    ("wpkh(@C)#", Unnamed::ChecksumLength),
    ("wpkh(@U)", Unnamed::Unreadable),
    ("tr(@U)", Unnamed::Unreadable),
    ("rawtr(@U)", Unnamed::Unreadable),
    ("rawtr(@X,pk(@C))", Unnamed::Unreadable),
    ("rawtr()", Unnamed::Unreadable),
    ("raw()", Unnamed::Unreadable),
    ("raw(0)", Unnamed::Unreadable),
    ("raw(zz)", Unnamed::Unreadable),
    ("addr()", Unnamed::Unreadable),
    ("addr(nonsense)", Unnamed::Unreadable),
    ("sh(combo(@C))", Unnamed::Unreadable),
    ("wsh(raw(00))", Unnamed::Unreadable),
    ("combo()", Unnamed::Unreadable),
];

/// Lines with one mistake, the reason, and the words in which Core's reason agrees. `@S` is a key with two characters
/// exchanged.
const MISTAKES: &[(&str, Unnamed, &str)] = &[
    ("wpkh(@C)#qqqqqqqq", Unnamed::Checksum, "does not match computed checksum"),
    ("wpkh(@C)#qqq", Unnamed::ChecksumLength, "Expected 8 character checksum"),
    ("wpkh(@S/0/*)", Unnamed::Mistyped("extended key"), "is not valid"),
    ("wsh(multi(1,@A/0/*,@S/1/*))", Unnamed::Mistyped("extended key"), "is not valid"),
    ("wpkh(@C", Unnamed::Brackets, "is not a valid descriptor function"),
    ("wpk(@C)", Unnamed::NoForm, "is not a valid descriptor function"),
    ("wpkh(@X)", Unnamed::Unreadable, "is invalid"),
];

/// Addresses with one mistake, and Core's reason.
const MISTYPED: &[(&str, &str)] = &[
    ("bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt08q", "Invalid Bech32 checksum"),
    ("bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt0", "Invalid checksum"),
    ("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfm", "Invalid checksum or length of Base58"),
];

/// Descriptors that Core reads and this explorer names as not supported.
const NOT_SERVED: &[(&str, &str)] = &[
    // BIP 67 has compressed keys alone. Core sorts by what the script has, miniscript by the compressed form.
    ("sh(sortedmulti(2,@A/0/*,@B/0/*,@U))", "sortedmulti() with an uncompressed key"),
    ("tr(@X,sortedmulti_a(1,@A/0/*,@B/0/*))", "sortedmulti_a()"),
    ("tr(musig(@A,@B)/0/*)", "musig()"),
    ("rawtr(musig(@A/0/*,@B/0/*))", "musig()"),
];

fn written(descriptor: &str) -> String {
    let keys = [("@A", ONE), ("@B", TWO), ("@C", COMPRESSED), ("@X", X_ONLY), ("@U", UNCOMPRESSED), ("@S", SWAPPED)];
    keys.iter().fold(descriptor.to_owned(), |text, (name, key)| text.replace(name, key))
}

/// The addresses of the first numbers of each branch, in the order of Core. Core leaves out scripts without one.
fn ours(text: &str) -> Vec<Vec<String>> {
    let address = |script: &bitcoin::Script| Address::from_script(script, Network::Regtest).ok();
    let step = || Ok(());
    let mut derivation = Derivation::new(&step);
    match parse(text, Network::Regtest, &mut Steps::default()).unwrap() {
        Named::One(script) => vec![vec![address(&script).unwrap().to_string()]],
        Named::Many(all) => {
            let mut branches = Vec::new();
            for described in &all {
                let branch = Branch::new(described, &mut derivation).unwrap();
                let count = if branch.is_ranged() { NUMBERS } else { 1 };
                let scripts = (0..count).map(|number| branch.script(number, &derivation).unwrap());
                let addresses: Vec<String> =
                    scripts.filter_map(|script| address(&script)).map(|at| at.to_string()).collect();
                branches.push(addresses);
            }
            branches
        }
    }
}

/// The same by Core.
fn by_core(node: &Bitcoind, text: &str) -> Vec<Vec<String>> {
    let info = node.rpc("getdescriptorinfo", json!([text])).unwrap();
    let with_checksum = format!("{text}#{}", info["checksum"].as_str().unwrap());
    let range =
        if info["isrange"] == json!(true) { json!([with_checksum, [0, NUMBERS - 1]]) } else { json!([with_checksum]) };
    let derived = node.rpc("deriveaddresses", range).unwrap();
    let list = |value: &Value| -> Vec<String> { serde_json::from_value(value.clone()).unwrap() };
    match &derived[0] {
        Value::Array(_) => derived.as_array().unwrap().iter().map(list).collect(),
        _ => vec![list(&derived)],
    }
}

#[test]
fn what_core_reads_has_cores_addresses_and_what_it_refuses_is_refused() {
    let node = Bitcoind::start(Options::default()).unwrap();
    for descriptor in READ.iter().copied() {
        let text = written(descriptor);
        let (ours, core) = (ours(&text), by_core(&node, &text));
        if descriptor.starts_with("combo") {
            // Core lists the forms of a number together, and not the one without an address.
            let (mut ours, mut core) = (ours.concat(), core.concat());
            ours.sort();
            core.sort();
            assert_eq!(ours, core, "{descriptor}");
        } else {
            assert_eq!(ours, core, "{descriptor}");
        }
        let checksum = node.rpc("getdescriptorinfo", json!([text])).unwrap()["checksum"].as_str().unwrap().to_owned();
        let with_checksum = format!("{text}#{checksum}");
        assert!(parse(&with_checksum, Network::Regtest, &mut Steps::default()).is_ok(), "{descriptor}");
    }
    for (descriptor, form) in NOT_SERVED {
        let text = written(descriptor);
        assert!(!by_core(&node, &text).concat().is_empty(), "{descriptor}");
        assert_eq!(
            parse(&text, Network::Regtest, &mut Steps::default()),
            Err(Unnamed::NotServed(form)),
            "{descriptor}"
        );
    }
    // Its scripts have no address.
    let bare = written("sortedmulti(1,@A/0/*,@B/0/*)");
    node.rpc("getdescriptorinfo", json!([bare])).unwrap();
    let not_served = Err(Unnamed::NotServed("sortedmulti() outside of sh() and wsh()"));
    assert_eq!(parse(&bare, Network::Regtest, &mut Steps::default()), not_served);
    for (descriptor, reason) in REFUSED.iter().cloned() {
        let text = written(descriptor);
        let info = node.rpc("getdescriptorinfo", json!([text]));
        let derived = info.and_then(|info| {
            let with_checksum = format!("{text}#{}", info["checksum"].as_str().unwrap_or_default());
            let range =
                if info["isrange"] == json!(true) { json!([with_checksum, [0, 2]]) } else { json!([with_checksum]) };
            node.rpc("deriveaddresses", range)
        });
        assert!(derived.is_err(), "Core derives {descriptor}: {derived:?}");
        assert_eq!(parse(&text, Network::Regtest, &mut Steps::default()), Err(reason), "{descriptor}");
    }
}

#[test]
fn mistakes_have_cores_reason_in_plain_words() {
    let node = Bitcoind::start(Options::default()).unwrap();
    let reason = |text: &str| parse(text, Network::Regtest, &mut Steps::default()).unwrap_err();
    for (line, expected, by_core) in MISTAKES {
        let text = written(line);
        let error = node.rpc("getdescriptorinfo", json!([text])).unwrap_err().to_string();
        assert!(error.contains(by_core), "{line}: {error}");
        assert_eq!(reason(&text), *expected, "{line}");
    }
    for (address, by_core) in MISTYPED {
        let checked = node.rpc("validateaddress", json!([address])).unwrap();
        assert!(checked["error"].as_str().unwrap().contains(by_core), "{address}: {checked}");
        assert_eq!(reason(address), Unnamed::Mistyped("address"), "{address}");
    }
}
