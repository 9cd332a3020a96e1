//! Bounds on a line of a question, and on the derivation that it asks for.

/// Characters of a line: fifteen keys with their origins have some 2 500. The time to decode base58 grows with the
/// square of the length: a megabyte took six minutes.
pub(crate) const CHARS_MAX: usize = 4_000;
/// Paths of one key of a descriptor, between `<` and `>`. A descriptor is made for each, and each holds all of them
/// until it is: two thousand took 217 MB.
pub(crate) const PATHS_MAX: usize = 16;
/// Levels of brackets and wrappers, one inside of the other. The policies of wallets have less than ten; a tree of
/// scripts with twenty levels may have a million leaves.
pub(crate) const NESTING_MAX: usize = 20;
/// Steps of one key, with the wildcard. A wallet needs two or three beyond its account's key; a multisig wallet that
/// names one key of each person has some six.
pub(crate) const STEPS_A_KEY_MAX: usize = 8;
/// Steps of one question.
pub(crate) const STEPS_MAX: usize = 20_000;
/// Scripts of a branch without a transaction, one after the other, after which no more are derived.
pub const GAP: u32 = 20;
