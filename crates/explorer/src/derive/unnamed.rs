//! The reasons for which a line of a question is refused.

/// The reason why a line names no scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Unnamed {
    /// It holds a private key.
    Private,
    /// It is an address, or has a key, of another network.
    OtherNetwork,
    /// It has more characters, or more paths for one key, than any wallet needs.
    TooLong,
    /// It nests deeper than any wallet needs.
    TooDeep,
    /// A key has more steps of derivation than any wallet needs.
    TooManyStepsOfKey,
    /// With it the question takes too many steps of derivation.
    TooManySteps,
    /// A public key has a hardened step, which only its private key can take.
    Hardened,
    /// Its keys have different numbers of paths
    /// ([BIP 389](https://github.com/bitcoin/bips/blob/master/bip-0389.mediawiki)).
    UnequalPaths,
    /// A key has the same path twice.
    RepeatedPath,
    /// It is one of the keys of a multisig wallet, by itself.
    OneOfSeveralKeys,
    /// A key of it has a version of SLIP 132, which descriptors do not have.
    KeyVersion,
    /// It has a form that is not served.
    NotServed(&'static str),
    /// Its checksum is wrong.
    Checksum,
    /// It is nothing of the kind.
    Unknown,
}
