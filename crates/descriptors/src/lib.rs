//! Scripts of addresses, extended keys and output descriptors
//! ([BIP 380](https://github.com/bitcoin/bips/blob/master/bip-0380.mediawiki)). Pure.
//!
//! A text is a stranger's: its length, nesting, paths and steps are bounded before a parser reads it.

#![forbid(unsafe_code)]

mod branch;
mod extended;
mod forms;
mod keys;
mod limits;
mod nesting;
mod private;
mod reasons;
mod steps;
mod unnamed;

use std::collections::HashSet;

use birdhouse_chain::read_address;
use bitcoin::{Network, NetworkKind, ScriptBuf};
use miniscript::descriptor::checksum::verify_checksum;
use miniscript::descriptor::{DescriptorType, Wildcard};
use miniscript::{Descriptor, DescriptorPublicKey, MiniscriptKey as _};

use branch::OutputKey;
pub use branch::{Branch, Derivation, Described, Underived, with_checksum};
use forms::Form;
pub use keys::lines_of_key;
pub use limits::GAP;
use limits::{CHARS_MAX, NESTING_MAX, PATHS_MAX};
pub use reasons::{silent_payment_address, unreadable};
pub use steps::Steps;
pub use unnamed::Unnamed;

/// Scripts that one line of a question names.
#[derive(Debug, Clone, PartialEq)]
pub enum Named {
    /// One script, with its address if it has one.
    One(ScriptBuf),
    /// As many as are used: a descriptor with a wildcard, or several for one key.
    Many(Vec<Described>),
}

/// Reads one address, extended key or descriptor, and charges the steps that it takes at least.
pub fn parse(text: &str, network: Network, steps: &mut Steps) -> Result<Named, Unnamed> {
    if is_too_long(text) {
        return Err(Unnamed::TooLong);
    }
    if nesting::nesting(text) > NESTING_MAX {
        return Err(Unnamed::TooDeep);
    }
    if private::has_private_key(text) {
        return Err(Unnamed::Private);
    }
    if let Some(address) = read_address(text) {
        let address = address.require_network(network).map_err(|_| Unnamed::OtherNetwork)?;
        return Ok(Named::One(address.script_pubkey()));
    }
    let mut many = |texts: &[String], output_key| -> Result<Named, Unnamed> {
        let branches = texts.iter().map(|text| branches(text, network, steps));
        let descriptors = branches.collect::<Result<Vec<_>, _>>()?.into_iter().flatten();
        Ok(Named::Many(descriptors.map(|descriptor| Described { descriptor, output_key }).collect()))
    };
    if let Some(texts) = extended::descriptors(text, network)? {
        return many(&texts, OutputKey::OfForm);
    }
    match forms::form(without_checksum(text)?, network)? {
        Form::Script(script) => Ok(Named::One(script)),
        Form::Miniscript(texts) => many(&texts, OutputKey::OfForm),
        Form::RawTaproot(key) => many(&[format!("tr({key})")], OutputKey::Internal),
    }
}

/// True for what would take minutes or gigabytes.
fn is_too_long(text: &str) -> bool {
    let has_many_paths = |key: &str| key.split('>').next().is_some_and(|paths| paths.split(';').count() > PATHS_MAX);
    text.len() > CHARS_MAX || text.split('<').skip(1).any(has_many_paths)
}

fn without_checksum(text: &str) -> Result<&str, Unnamed> {
    let has_checksum = text.contains('(') && text.contains('#');
    if has_checksum { verify_checksum(text).map_err(|_| reasons::of_checksum(text)) } else { Ok(text) }
}

/// Reads a descriptor, and makes one of each of its paths.
fn branches(text: &str, network: Network, steps: &mut Steps) -> Result<Vec<Descriptor<DescriptorPublicKey>>, Unnamed> {
    let descriptor: Descriptor<DescriptorPublicKey> = text.parse().map_err(|error| match error {
        miniscript::Error::MultipathDescLenMismatch => Unnamed::UnequalPaths,
        _ => unreadable(text),
    })?;
    check_keys(&descriptor, network)?;
    // Before a descriptor is made for each path.
    steps.charge_line(&descriptor)?;
    descriptor.into_single_descriptors().map_err(|_| Unnamed::Unreadable)
}

/// Checks that scripts of this network can be derived from the keys.
fn check_keys(descriptor: &Descriptor<DescriptorPublicKey>, network: Network) -> Result<(), Unnamed> {
    let mut paths = None;
    for key in descriptor.iter_pk() {
        if key.xkey_network().is_some_and(|of_key| of_key != NetworkKind::from(network)) {
            return Err(Unnamed::OtherNetwork);
        }
        if key.has_hardened_step() || key.wildcard() == Some(Wildcard::Hardened) {
            return Err(Unnamed::Hardened);
        }
        if let DescriptorPublicKey::MultiXPub(key) = &key {
            let count = key.derivation_paths.paths().len();
            if key.derivation_paths.paths().iter().collect::<HashSet<_>>().len() < count {
                return Err(Unnamed::RepeatedPath);
            }
            if *paths.get_or_insert(count) != count {
                return Err(Unnamed::UnequalPaths);
            }
        }
        if descriptor.desc_type() == DescriptorType::ShSortedMulti && key.is_uncompressed() {
            // Core sorts keys as the script has them, miniscript in their compressed form. BIP 67 has no others.
            return Err(Unnamed::NotServed("sortedmulti() with an uncompressed key"));
        }
    }
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod core_tests;

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use bitcoin::{Address, base58};

    use super::limits::{STEPS_A_KEY_MAX, STEPS_MAX};
    use super::*;

    /// The account key and the first addresses of BIP 84's test vectors, with the version for its scripts and with the
    /// plain one.
    const ZPUB: &str = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs";
    /// The version bytes of `xpub`.
    const XPUB_VERSION: [u8; 4] = [0x04, 0x88, 0xb2, 0x1e];
    const FIRST: &str = "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu";
    const FIRST_CHANGE: &str = "bc1q8c6fshw2dlwun7ekn9qwf37cu2rn755upcp6el";

    fn parse(text: &str, network: Network) -> Result<Named, Unnamed> {
        super::parse(text, network, &mut Steps::default())
    }

    fn many(text: &str) -> Vec<Described> {
        let Named::Many(branches) = parse(text, Network::Bitcoin).unwrap() else { panic!("one script") };
        branches
    }

    fn addresses(text: &str, number: u32) -> Vec<String> {
        let step = || Ok(());
        let mut derivation = Derivation::new(&step);
        let scripts = many(text).into_iter().map(|descriptor| {
            let branch = Branch::new(&descriptor, &mut derivation).unwrap();
            branch.script(number, &derivation).unwrap()
        });
        scripts.map(|script| Address::from_script(&script, Network::Bitcoin).unwrap().to_string()).collect()
    }

    #[test]
    fn extended_keys_give_receiving_and_change_addresses_of_their_form() {
        assert_eq!(addresses(ZPUB, 0), [FIRST, FIRST_CHANGE]);
        let mut bytes = base58::decode_check(ZPUB).unwrap();
        bytes[..4].copy_from_slice(&XPUB_VERSION);
        let xpub = base58::encode_check(&bytes);
        let all = addresses(&xpub, 0);
        assert_eq!((all.len(), all[0].as_str(), all[1].as_str()), (8, FIRST, FIRST_CHANGE));
        assert_eq!(addresses(&format!("[73c5da0a/84'/0'/0']{xpub}"), 0), all);
        assert_eq!(addresses(&format!("wpkh({xpub}/1/*)"), 0), [FIRST_CHANGE]);
        assert_eq!(addresses(&format!("wpkh({xpub}/0/0)"), 7), [FIRST]);
    }

    #[test]
    fn lines_that_would_take_minutes_or_gigabytes_are_refused() {
        let many = format!("wpkh({ZPUB}/<0{}>/*)", ";0".repeat(PATHS_MAX));
        for text in [many, "2".repeat(CHARS_MAX + 1), format!("wpkh({ZPUB}/0/*){}", " ".repeat(CHARS_MAX))] {
            assert_eq!(parse(&text, Network::Bitcoin), Err(Unnamed::TooLong), "{text:.200}");
        }
        assert_eq!(parse(&"2".repeat(CHARS_MAX), Network::Bitcoin), Err(Unnamed::Unknown));
    }

    /// The account key of [`ZPUB`] with its plain version.
    fn xpub() -> String {
        let mut bytes = base58::decode_check(ZPUB).unwrap();
        bytes[..4].copy_from_slice(&XPUB_VERSION);
        base58::encode_check(&bytes)
    }

    #[test]
    fn lines_with_more_steps_than_wallets_need_are_refused_before_any_is_taken() {
        let (xpub, path) = (xpub(), |steps: usize| "/1".repeat(steps));
        let most = format!("wpkh({xpub}{}/*)", path(STEPS_A_KEY_MAX - 1));
        assert_eq!(many(&most).len(), 1);
        for text in [format!("wpkh({xpub}{}/*)", path(STEPS_A_KEY_MAX)), format!("wpkh({xpub}{})", path(9))] {
            assert_eq!(parse(&text, Network::Bitcoin), Err(Unnamed::TooManyStepsOfKey), "{text}");
        }
        // Fifteen keys, each with a wildcard and a path for each of sixteen branches: more than 15 x 16 x 20.
        let paths: Vec<String> = (0..PATHS_MAX).map(|path| path.to_string()).collect();
        let key = |number: u32| format!("{xpub}/{number}/<{}>/*", paths.join(";"));
        let keys: Vec<String> = (0..15).map(key).collect();
        let line = format!("wsh(multi(1,{}))", keys.join(","));
        let mut steps = Steps::default();
        let mut charged = 0;
        while super::parse(&line, Network::Bitcoin, &mut steps).is_ok() {
            charged += 1;
        }
        assert_eq!(charged, STEPS_MAX / (15 * PATHS_MAX * (2 + GAP as usize)));
    }

    #[test]
    fn a_common_prefix_is_derived_once_and_an_end_is_heeded() {
        use std::cell::Cell;
        let taken = Cell::new(0);
        let step = || {
            taken.set(taken.get() + 1);
            if taken.get() > 7 { Err(birdhouse_chain::Error::Cancelled) } else { Ok(()) }
        };
        let mut derivation = Derivation::new(&step);
        let branches: Vec<Branch> = many(&format!("wpkh({}/1/2/3/<4;5>/*)", xpub()))
            .iter()
            .map(|descriptor| Branch::new(descriptor, &mut derivation).unwrap())
            .collect();
        assert_eq!(taken.get(), 5, "three in common and one of each");
        for number in 0..2 {
            branches[1].script(number, &derivation).unwrap();
        }
        assert_eq!(taken.get(), 7);
        let ended = branches[1].script(2, &derivation);
        assert!(matches!(ended, Err(Underived::Ended(birdhouse_chain::Error::Cancelled))), "{ended:?}");
    }

    /// Descriptors of every shape that nests, with a number of levels.
    fn deep(levels: usize) -> Vec<String> {
        let xpub = xpub();
        let leaf = format!("pk({xpub}/0/*)");
        let chain =
            |open: &str, close: &str, levels: usize| format!("{}{leaf}{}", open.repeat(levels), close.repeat(levels));
        let wrapped = |wrapper: &str, levels: usize| format!("{}:{leaf}", wrapper.repeat(levels));
        vec![
            format!("wsh({})", chain("or_i(0,", ")", levels - 2)),
            format!("wsh({})", chain("thresh(1,", ")", levels - 2)),
            format!("wsh({})", wrapped("n", levels - 2)),
            format!("sh(wsh({}))", wrapped("l", levels - 3)),
            format!("tr({xpub}/1/*,{})", chain(&format!("{{pk({xpub}/2/*),"), "}", levels - 2)),
            format!("tr({xpub}/1/*,{})", wrapped("n", levels - 2)),
        ]
    }

    /// Dependencies are not optimised in tests, as in `make demo`. A request has a stack of 2 MiB.
    #[test]
    fn the_deepest_allowed_descriptor_is_derived_on_an_eighth_of_a_stack_and_no_deeper_one_is_parsed() {
        let on_thread = std::thread::Builder::new().stack_size(256 << 10);
        let derived = on_thread.spawn(|| deep(NESTING_MAX).iter().map(|text| addresses(text, 5).len()).sum::<usize>());
        assert_eq!(derived.unwrap().join().unwrap(), 6);
        for text in deep(NESTING_MAX + 1) {
            assert_eq!(parse(&text, Network::Bitcoin), Err(Unnamed::TooDeep), "{text}");
        }
    }

    #[test]
    fn branches_name_their_form_and_path() {
        let step = || Ok(());
        let change = Branch::new(&many(ZPUB)[1], &mut Derivation::new(&step)).unwrap();
        assert_eq!((change.name(5), change.is_ranged()), ("wpkh 1/5".into(), true));
    }

    /// The names are those of SLIP 132's table.
    #[test]
    fn keys_of_multisig_wallets_are_named() {
        let bytes = base58::decode_check(ZPUB).unwrap();
        for (version, name, network) in [
            (0x0295_b43f_u32, "Ypub", Network::Bitcoin),
            (0x02aa_7ed3, "Zpub", Network::Bitcoin),
            (0x0242_89ef, "Upub", Network::Regtest),
            (0x0257_5483, "Vpub", Network::Regtest),
        ] {
            let key = base58::encode_check(&[&version.to_be_bytes(), &bytes[4..]].concat());
            assert!(key.starts_with(name), "{key}");
            assert_eq!(parse(&key, network), Err(Unnamed::OneOfSeveralKeys), "{name}");
            assert_eq!(parse(&format!("wsh(multi(1,{key}/0/*))"), network), Err(Unnamed::KeyVersion), "{name}");
        }
    }

    #[test]
    fn private_keys_other_networks_and_nonsense_are_told_apart() {
        let wif = "L4rK1yDtCWekvXuE6oXD9jCYfFNV2cWRpVuPLBcCU2z8TrisoyY1";
        for descriptor in [format!("wpkh({wif})"), format!("wsh(multi(1,{},[d34db33f/0]{wif}))", xpub())] {
            assert_eq!(parse(&descriptor, Network::Bitcoin), Err(Unnamed::Private));
        }
        for text in ["Yprv", "vprv9s21Z", "tr(tprv8ZgxMBicQKsPd/0)"] {
            assert_eq!(parse(text, Network::Bitcoin), Err(Unnamed::Private), "{text}");
        }
        assert_eq!(parse("wpkh(Aprv)", Network::Bitcoin), Err(Unnamed::Unreadable), "letters in a row");
        assert_eq!(parse(ZPUB, Network::Regtest), Err(Unnamed::OtherNetwork));
        assert_eq!(parse(&format!("wpkh({})", xpub()), Network::Testnet), Err(Unnamed::OtherNetwork));
        assert_eq!(parse(wif, Network::Bitcoin), Err(Unnamed::Private));
        assert_eq!(parse("wpkh(xprv9s21Z/0)", Network::Bitcoin), Err(Unnamed::Private));
        assert_eq!(parse(FIRST, Network::Regtest), Err(Unnamed::OtherNetwork));
        for text in ["", "nonsense", "[", "[x]", "xpub6"] {
            assert_eq!(parse(text, Network::Bitcoin), Err(Unnamed::Unknown), "{text}");
        }
        for text in ["wpkh()", "wpkh(02/<0;1>/*)"] {
            assert_eq!(parse(text, Network::Bitcoin), Err(Unnamed::Unreadable), "{text}");
        }
    }
}
