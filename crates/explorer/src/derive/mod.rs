//! Scripts of addresses, extended keys and output descriptors
//! ([BIP 380](https://github.com/bitcoin/bips/blob/master/bip-0380.mediawiki)). Pure.

mod branch;
mod nesting;
mod steps;

use birdhouse_esplora::read_address;
use bitcoin::{Network, ScriptBuf, base58};
use miniscript::{Descriptor, DescriptorPublicKey};

pub(crate) use branch::{Branch, Derivation, Underived};
pub(crate) use nesting::NESTING_MAX;
pub(crate) use steps::{GAP, STEPS_A_KEY_MAX, STEPS_MAX, Steps};

/// Public version bytes of extended keys by the scripts that they are for
/// ([SLIP 132](https://github.com/satoshilabs/slips/blob/master/slip-0132.md)): of mainnet, and of the test networks.
const VERSIONS: [([u8; 4], [u8; 4], &[&str]); 3] = [
    ([0x04, 0x88, 0xb2, 0x1e], [0x04, 0x35, 0x87, 0xcf], &["wpkh(_)", "tr(_)", "sh(wpkh(_))", "pkh(_)"]),
    ([0x04, 0x9d, 0x7c, 0xb2], [0x04, 0x4a, 0x52, 0x62], &["sh(wpkh(_))"]),
    ([0x04, 0xb2, 0x47, 0x46], [0x04, 0x5f, 0x1c, 0xf6], &["wpkh(_)"]),
];
/// Bytes of an extended key.
const EXTENDED_BYTES: usize = 78;
/// Characters of a line: fifteen keys with their origins have some 2 500. The time to decode base58 grows with the
/// square of the length: a megabyte took six minutes.
const CHARS_MAX: usize = 4_000;
/// Paths of one key of a descriptor, between `<` and `>`. A descriptor is made for each, and each holds all of them
/// until it is: two thousand took 217 MB.
const PATHS_MAX: usize = 16;
/// Characters of a private key in the wallet import format, at most.
const WIF_CHARS_MAX: usize = 52;
/// Characters of an extended key in base58, at most.
const EXTENDED_CHARS_MAX: usize = 113;

/// Scripts that one line of a question names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Named {
    /// One script, with its address if it has one.
    One(ScriptBuf),
    /// As many as are used: a descriptor with a wildcard, or several for one key.
    Many(Vec<Descriptor<DescriptorPublicKey>>),
}

/// The reason why a line names no scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unnamed {
    /// It holds a private key.
    Private,
    /// It is an address of another network.
    OtherNetwork,
    /// It has more characters, or more paths for one key, than any wallet needs.
    TooLong,
    /// It nests deeper than any wallet needs.
    TooDeep,
    /// A key has more steps of derivation than any wallet needs.
    TooManyStepsOfKey,
    /// With it the question takes too many steps of derivation.
    TooManySteps,
    /// It is nothing of the kind.
    Unknown,
}

/// Reads one address, extended key or descriptor, and charges the steps that it takes at least.
pub(crate) fn parse(text: &str, network: Network, steps: &mut Steps) -> Result<Named, Unnamed> {
    if is_too_long(text) {
        return Err(Unnamed::TooLong);
    }
    if nesting::nesting(text) > NESTING_MAX {
        return Err(Unnamed::TooDeep);
    }
    if is_private(text) {
        return Err(Unnamed::Private);
    }
    if let Some(address) = read_address(text) {
        let address = address.require_network(network).map_err(|_| Unnamed::OtherNetwork)?;
        return Ok(Named::One(address.script_pubkey()));
    }
    let descriptors = match of_key(text) {
        Some(texts) => texts,
        None => vec![text.to_owned()],
    };
    let parsed = descriptors.iter().map(|text| text.parse::<Descriptor<DescriptorPublicKey>>());
    let parsed = parsed.collect::<Result<Vec<_>, _>>().map_err(|_| Unnamed::Unknown)?;
    let mut branches = Vec::new();
    for descriptor in parsed {
        // Before a descriptor is made for each path.
        steps.charge_line(&descriptor)?;
        branches.extend(descriptor.into_single_descriptors().map_err(|_| Unnamed::Unknown)?);
    }
    Ok(Named::Many(branches))
}

/// True for what would take minutes or gigabytes.
fn is_too_long(text: &str) -> bool {
    let has_many_paths = |key: &str| key.split('>').next().is_some_and(|paths| paths.split(';').count() > PATHS_MAX);
    text.len() > CHARS_MAX || text.split('<').skip(1).any(has_many_paths)
}

/// True for anything that looks like a private key.
fn is_private(text: &str) -> bool {
    let is_extended = text.contains("prv");
    is_extended || text.len() <= WIF_CHARS_MAX && bitcoin::PrivateKey::from_wif(text).is_ok()
}

/// The descriptors of a bare extended key: of receiving and of change scripts, in every form that it may be for.
fn of_key(text: &str) -> Option<Vec<String>> {
    let (origin, key) = match text.strip_prefix('[').and_then(|text| text.split_once(']')) {
        Some((origin, key)) => (format!("[{origin}]"), key),
        None => (String::new(), text),
    };
    if key.len() > EXTENDED_CHARS_MAX {
        return None;
    }
    let mut bytes = base58::decode_check(key).ok().filter(|bytes| bytes.len() == EXTENDED_BYTES)?;
    let (main, _, forms) = VERSIONS.into_iter().find(|(main, test, _)| bytes[..4] == *main || bytes[..4] == *test)?;
    let [(xpub, tpub, _), ..] = VERSIONS;
    let version = if bytes[..4] == main { xpub } else { tpub };
    bytes[..4].copy_from_slice(&version);
    let key = format!("{origin}{}/<0;1>/*", base58::encode_check(&bytes));
    Some(forms.iter().map(|form| form.replace('_', &key)).collect())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use bitcoin::Address;

    use super::*;

    /// The account key and the first addresses of BIP 84's test vectors, with the version for its scripts and with the
    /// plain one.
    const ZPUB: &str = "zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs";
    const FIRST: &str = "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu";
    const FIRST_CHANGE: &str = "bc1q8c6fshw2dlwun7ekn9qwf37cu2rn755upcp6el";

    fn parse(text: &str, network: Network) -> Result<Named, Unnamed> {
        super::parse(text, network, &mut Steps::default())
    }

    fn many(text: &str) -> Vec<Descriptor<DescriptorPublicKey>> {
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
        bytes[..4].copy_from_slice(&VERSIONS[0].0);
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
        bytes[..4].copy_from_slice(&VERSIONS[0].0);
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

    #[test]
    fn private_keys_other_networks_and_nonsense_are_told_apart() {
        let wif = "L4rK1yDtCWekvXuE6oXD9jCYfFNV2cWRpVuPLBcCU2z8TrisoyY1";
        assert_eq!(parse(wif, Network::Bitcoin), Err(Unnamed::Private));
        assert_eq!(parse("wpkh(xprv9s21Z/0)", Network::Bitcoin), Err(Unnamed::Private));
        assert_eq!(parse(FIRST, Network::Regtest), Err(Unnamed::OtherNetwork));
        for text in ["", "nonsense", "wpkh()", "[", "[x]", "xpub6", "wpkh(02/<0;1>/*)"] {
            assert_eq!(parse(text, Network::Bitcoin), Err(Unnamed::Unknown), "{text}");
        }
    }
}
