//! Properties of every line of a question about wallets, for the fuzz target and for tests with random damage. No index
//! and no node is asked.

use bitcoin::Network;

use birdhouse_descriptors::{Branch, Derivation, Named, Steps, parse};

const NETWORKS: [Network; 2] = [Network::Bitcoin, Network::Regtest];
/// Numbers that scripts have, and one that none has.
const NUMBERS: [u32; 3] = [0, 20, u32::MAX];

/// Reads bytes as an address, a key or a descriptor, and derives scripts of every branch that it names. Returns their
/// number.
///
/// # Panics
/// When a script of a line that was read cannot be derived.
pub fn line(bytes: &[u8]) -> usize {
    let Ok(text) = std::str::from_utf8(bytes) else { return 0 };
    NETWORKS.into_iter().map(|network| scripts(text, network)).sum()
}

fn scripts(text: &str, network: Network) -> usize {
    let named = match parse(text, network, &mut Steps::default()) {
        Ok(Named::Many(named)) => named,
        Ok(Named::One(_)) => return 1,
        Err(_) => return 0,
    };
    let step = || Ok(());
    let mut derivation = Derivation::new(&step);
    let mut derived = 0;
    for described in &named {
        let branch = Branch::new(described, &mut derivation).expect("its keys were checked");
        for number in NUMBERS {
            let is_number = !branch.is_ranged() || number < 1 << 31;
            let script = branch.script(number, &derivation);
            assert_eq!(script.is_ok(), is_number, "{number}");
            derived += usize::from(is_number);
            assert!(!branch.name(number).is_empty());
        }
    }
    derived
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const XPUB: &str = "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8";
    const KEY: &str = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
    /// Lines of every form, `@` for an extended key and `%` for another one.
    const LINES: [&str; 12] = [
        "@",
        "[d34db33f/84h/0h/0h]@",
        "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu",
        "wpkh([d34db33f/84h/0h/0h]@/<0;1>/*)",
        "wpkh(@/0'/*)",
        "wsh(sortedmulti(2,@/<0;1>/*,@/<2;3>/*,%))",
        "wsh(or_d(multi(2,@/<0;1>/*,%),and_v(v:pkh(@/<2;3>/*),older(65535))))",
        "tr(%,{pk(@/0/*),{pk(@/1/*),multi_a(1,@/2/*,%)}})",
        "combo(@/0/*)",
        "rawtr(@/<0;1;2>/*)",
        "raw(0014751e76e8199196d454941c45d1b3a323f1433bd6)",
        "addr(bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu)",
    ];

    fn written(text: &str) -> String {
        text.replace('@', XPUB).replace('%', KEY)
    }

    #[test]
    fn lines_of_every_form_have_scripts_except_behind_a_hardened_step() {
        for text in LINES {
            assert_eq!(line(written(text).as_bytes()) == 0, text.contains("0'"), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_damaged_line_is_refused_or_derived(
            at in any::<prop::sample::Index>(),
            with in "[-0-9a-z'(){}<>;,:*/#@%]{0,6}",
            (place, cut) in (any::<prop::sample::Index>(), 0..8_usize),
        ) {
            let text = LINES[at.index(LINES.len())];
            // Before keys are put in, so that most of them stay whole.
            let start = place.index(text.len());
            let end = (start + cut).min(text.len());
            let damaged = format!("{}{with}{}", &text[..start], &text[end..]);
            line(written(&damaged).as_bytes());
        }
    }
}
