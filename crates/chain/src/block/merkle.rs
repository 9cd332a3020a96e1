//! Merkle trees over 32-byte hashes, as Bitcoin builds them: pairs hashed twice, an odd last one with itself.

use crate::names::{Hash256, sha256d, sha256d_many};

/// The branch from one leaf to the root, deepest sibling first, and the root.
pub(crate) fn branch(leaves: &[Hash256], position: usize) -> (Vec<Hash256>, Hash256) {
    assert!(position < leaves.len(), "leaf {position} of {}", leaves.len());
    let mut siblings = Vec::new();
    let mut level = leaves.to_vec();
    let mut at = position;
    while level.len() > 1 {
        siblings.push(level[(at ^ 1).min(level.len() - 1)]);
        level = parents(&level);
        at /= 2;
    }
    (siblings, level[0])
}

/// The root over at least one leaf.
pub(super) fn root(leaves: &[Hash256]) -> Hash256 {
    if leaves.len() == 1 {
        return leaves[0];
    }
    let mut level = parents(leaves);
    while level.len() > 1 {
        level = parents(&level);
    }
    level.first().copied().unwrap_or_default()
}

/// The next level up.
pub(crate) fn parents(level: &[Hash256]) -> Vec<Hash256> {
    let (pairs, odd) = level.as_chunks::<2>();
    let mut out = Vec::with_capacity(level.len().div_ceil(2));
    let messages: Vec<&[u8]> = pairs.iter().map(|pair| pair.as_flattened()).collect();
    sha256d_many(&messages, &mut out);
    out.extend(odd.iter().map(|last| parent(last, last)));
    out
}

/// The hash over two nodes.
pub(super) fn parent(left: &Hash256, right: &Hash256) -> Hash256 {
    sha256d([*left, *right].as_flattened())
}
