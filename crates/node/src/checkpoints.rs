//! Blocks of the public networks, to tell that a node follows another chain than they do.
//!
//! Source: `kernel/chainparams.cpp` of Bitcoin Core 31.99: `BIP34Hash`, the blocks of `m_assumeutxo_data`, and
//! `defaultAssumeValid`. A signet may be anybody's, and a regtest chain always is.

use bitcoin::{BlockHash, Network};

/// Heights and hashes, ascending.
type Checkpoints = &'static [(u32, &'static str)];

const BITCOIN: Checkpoints = &[
    (227_931, "000000000000024b89b42a942fe0d9fea3bb44ab7bd1b19115dd6a759c0808b8"),
    (840_000, "0000000000000000000320283a032748cef8227873ff4872689bf23f1cda83a5"),
    (880_000, "000000000000000000010b17283c3c400507969a9c2afd1dcf2082ec5cca2880"),
    (910_000, "0000000000000000000108970acb9522ffd516eae17acddcb1bd16469194a821"),
    (935_000, "0000000000000000000147034958af1652b2b91bba607beacc5e72a56f0fb5ee"),
    (938_343, "00000000000000000000ccebd6d74d9194d8dcdc1d177c478e094bfad51ba5ac"),
];
const TESTNET: Checkpoints = &[
    (21_111, "0000000023b3a96d3484e5abb3755c413e7d41500f8e2a5c3f0dd01299cd8ef8"),
    (2_500_000, "0000000000000093bcb68c03a9a168ae252572d348a2eaeba2cdf9231d73206f"),
    (4_840_000, "00000000000000f4971a7fb37fbdff89315b69a2e1920c467654a382f0d64786"),
    (4_842_348, "000000007a61e4230b28ac5cb6b5e5a0130de37ac1faf2f8987d2fa6505b67f4"),
];
const TESTNET4: Checkpoints = &[
    (90_000, "0000000002ebe8bcda020e0dd6ccfbdfac531d2f6a81457191b99fc2df2dbe3b"),
    (120_000, "000000000bd2317e51b3c5794981c35ba894ce27d3e772d5c39ecd9cbce01dc8"),
    (123_613, "0000000002368b1e4ee27e2e85676ae6f9f9e69579b29093e9a82c170bf7cf8a"),
];

/// Returns a message if a chain has another block at a height where the network's block is known. `hash_at` returns the
/// chain's block at a height; `None` beyond its tip, or where it is unknown.
pub fn forked_chain(network: Network, mut hash_at: impl FnMut(u32) -> Option<BlockHash>) -> Option<String> {
    let known = match network {
        Network::Bitcoin => BITCOIN,
        Network::Testnet => TESTNET,
        Network::Testnet4 => TESTNET4,
        Network::Signet | Network::Regtest => &[],
    };
    let other = |(height, expected): &(u32, &str)| {
        let found = hash_at(*height)?.to_string();
        (found != *expected).then(|| {
            format!(
                "the chain forks from {network} at height {height} or below: it has the block {found} there, and Bitcoin \
                 Core knows {expected}"
            )
        })
    };
    known.iter().find_map(other)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const ALL: [(Network, Checkpoints); 3] =
        [(Network::Bitcoin, BITCOIN), (Network::Testnet, TESTNET), (Network::Testnet4, TESTNET4)];

    #[test]
    fn another_block_at_any_known_height_is_a_fork() {
        let other = BlockHash::from_raw_hash(bitcoin::hashes::Hash::all_zeros());
        for (network, known) in ALL {
            assert!(known.is_sorted_by_key(|(height, _)| *height));
            let hash_of = |height| known.iter().find(|(at, _)| *at == height).unwrap().1.parse::<BlockHash>().unwrap();
            assert_eq!(forked_chain(network, |height| Some(hash_of(height))), None);
            assert_eq!(forked_chain(network, |_| None), None, "a chain that ends below says nothing");
            for (at, _) in known {
                let chain = |height| Some(if height == *at { other } else { hash_of(height) });
                let message = forked_chain(network, chain).unwrap();
                assert!(message.contains(&format!("forks from {network} at height {at} or below")), "{message}");
            }
        }
        assert_eq!(forked_chain(Network::Regtest, |_| Some(other)), None);
    }
}
