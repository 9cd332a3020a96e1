//! Addresses: the public scan key and spend key of a receiver, in Bech32m. Pure.
//!
//! Source: [BIP 352], "Address encoding" and "Backward compatibility". The BIP gives every test network `tsp`; Sparrow
//! has `sprt` for regtest.
//!
//! [BIP 352]: https://github.com/bitcoin/bips/blob/master/bip-0352.mediawiki

use std::fmt;
use std::str::FromStr;

use bech32::primitives::decode::{CheckedHrpstring, CheckedHrpstringError, ChecksumError};
use bech32::primitives::iter::{ByteIterExt as _, Fe32IterExt as _};
use bech32::{Bech32m, Fe32, Hrp};
use bitcoin::Network;
use secp256k1::{PublicKey, SECP256K1, SecretKey};

use crate::key::ScanKey;

/// Bytes of a compressed key.
const KEY_BYTES: usize = 33;
/// The version that no address has: it will mean a change that old senders must not ignore.
const RESERVED_VERSION: u8 = 31;

/// The networks that addresses tell apart, by what they begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressNetwork {
    /// The main network: `sp`.
    Main,
    /// Every test network: `tsp`.
    Test,
    /// Regtest, where wallets do not write `tsp`: `sprt`.
    Regtest,
}

/// An address. As text it has version 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Its network.
    pub network: AddressNetwork,
    /// Its version, at most 30. Senders read later versions as 0, and leave out what these add.
    pub version: u8,
    /// The public scan key, a compressed point.
    pub scan: [u8; KEY_BYTES],
    /// The public spend key, to which the point of a label may have been added; a compressed point.
    pub spend: [u8; KEY_BYTES],
}

/// The reason why a text is no address of a silent payment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It begins otherwise.
    #[error("a silent payment address begins with sp1, tsp1 or sprt1")]
    Prefix,
    /// It has a character that Bech32 lacks, or letters of both cases.
    #[error("the address has a character that does not belong there, or letters of both cases")]
    Characters,
    /// A character is wrong, missing or added.
    #[error("the checksum of the address is wrong: a character was mistyped")]
    Checksum,
    /// It is shorter than two keys, longer than any address, or goes on after the keys in version 0.
    #[error("the address has a wrong length")]
    Length,
    /// Version 31.
    #[error("the address has a version that this server does not know")]
    Version,
    /// A key is not a point.
    #[error("a key of the address is not a point of the curve")]
    Key,
}

impl AddressNetwork {
    const ALL: [Self; 3] = [Self::Main, Self::Test, Self::Regtest];

    /// Returns the network in the addresses that wallets make.
    pub fn of(network: Network) -> Self {
        match network {
            Network::Bitcoin => Self::Main,
            Network::Testnet | Network::Testnet4 | Network::Signet => Self::Test,
            Network::Regtest => Self::Regtest,
        }
    }

    /// Returns the network of a text that begins as an address does, as far as its first digit 1.
    pub fn of_text(text: &str) -> Option<Self> {
        let (prefix, _) = text.split_once('1')?;
        Self::ALL.into_iter().find(|network| network.prefix().eq_ignore_ascii_case(prefix))
    }

    /// Returns true if addresses of this kind are valid on a network.
    pub fn is_of(self, network: Network) -> bool {
        self == Self::of(network) || (self == Self::Test && network == Network::Regtest)
    }

    /// Returns the letters before the digit 1.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Main => "sp",
            Self::Test => "tsp",
            Self::Regtest => "sprt",
        }
    }
}

impl Address {
    /// Returns the address of a key without a label.
    pub fn of(key: &ScanKey, network: AddressNetwork) -> Self {
        let mut secret = SecretKey::from_slice(key.scan()).expect("a scan key is a private key");
        let scan = secret.public_key(SECP256K1).serialize();
        secret.non_secure_erase();
        Self { network, version: 0, scan, spend: key.spend().serialize() }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix = Hrp::parse_unchecked(self.network.prefix());
        let keys = self.scan.into_iter().chain(self.spend);
        let chars = keys.bytes_to_fes().with_checksum::<Bech32m>(&prefix).with_witness_version(Fe32::Q).chars();
        f.write_str(&chars.collect::<String>())
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let network = AddressNetwork::of_text(text).ok_or(AddressError::Prefix)?;
        let checked = CheckedHrpstring::new::<Bech32m>(text).map_err(|error| match error {
            CheckedHrpstringError::Parse(_) => AddressError::Characters,
            CheckedHrpstringError::Checksum(ChecksumError::InvalidResidue) => AddressError::Checksum,
            _ => AddressError::Length,
        })?;
        let mut symbols = checked.fe32_iter::<std::iter::Empty<u8>>();
        let version = symbols.next().ok_or(AddressError::Length)?.to_u8();
        if version == RESERVED_VERSION {
            return Err(AddressError::Version);
        }
        let bytes: Vec<u8> = symbols.fes_to_bytes().collect();
        let (scan, rest) = bytes.split_first_chunk().ok_or(AddressError::Length)?;
        let spend = rest.first_chunk().ok_or(AddressError::Length)?;
        if [scan, spend].into_iter().any(|key| PublicKey::from_slice(key).is_err()) {
            return Err(AddressError::Key);
        }
        let address = Self { network, version, scan: *scan, spend: *spend };
        // Version 0 ends with its keys. Written anew it differs, too, if a bit of its last symbol is no key's.
        if version == 0 && !address.to_string().eq_ignore_ascii_case(text) {
            return Err(AddressError::Length);
        }
        Ok(address)
    }
}
