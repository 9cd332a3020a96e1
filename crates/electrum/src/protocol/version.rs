//! Protocol versions and their negotiation
//! ([`server.version`](https://electrum-protocol.readthedocs.io/en/latest/protocol-methods.html#server-version)).

use std::fmt;
use std::str::FromStr;

/// A version of the Electrum protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    major: u16,
    minor: u16,
    patch: u16,
}

/// Range of versions that a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct VersionRange {
    pub(crate) min: Version,
    pub(crate) max: Version,
}

/// The text is not one to three numbers with dots between them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InvalidVersion;

impl Version {
    pub(crate) const V1_4: Self = Self::new(1, 4, 0);
    pub(crate) const V1_4_2: Self = Self::new(1, 4, 2);
    pub(crate) const V1_6: Self = Self::new(1, 6, 0);
    pub(crate) const V1_7: Self = Self::new(1, 7, 0);

    /// The oldest version served; a client that never sends `server.version` speaks it.
    pub(crate) const MIN: Self = Self::V1_4;
    /// The newest version served.
    pub(crate) const MAX: Self = Self::V1_7;

    const fn new(major: u16, minor: u16, patch: u16) -> Self {
        Self { major, minor, patch }
    }
}

impl VersionRange {
    /// Returns the highest version up to `server_max` that both sides speak.
    pub(crate) fn negotiate(self, server_max: Version) -> Option<Version> {
        let version = self.max.min(server_max);
        (version >= self.min && version >= Version::MIN).then_some(version)
    }
}

impl FromStr for Version {
    type Err = InvalidVersion;

    fn from_str(text: &str) -> Result<Self, InvalidVersion> {
        let mut numbers = [0; 3];
        let mut parts = numbers.iter_mut();
        for part in text.split('.') {
            let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            let number = parts.next().filter(|_| digits).ok_or(InvalidVersion)?;
            *number = part.parse().map_err(|_| InvalidVersion)?;
        }
        let [major, minor, patch] = numbers;
        Ok(Self { major, minor, patch })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)?;
        if self.patch == 0 { Ok(()) } else { write!(f, ".{}", self.patch) }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn negotiated(min: &str, max: &str) -> Option<String> {
        let range = VersionRange { min: min.parse().unwrap(), max: max.parse().unwrap() };
        range.negotiate(Version::MAX).map(|version| version.to_string())
    }

    #[test]
    fn the_highest_common_version_is_negotiated() {
        assert_eq!(negotiated("1.4", "1.4").as_deref(), Some("1.4"));
        assert_eq!(negotiated("1.3", "1.4.2").as_deref(), Some("1.4.2"));
        assert_eq!(negotiated("1.4", "1.6").as_deref(), Some("1.6"));
        assert_eq!(negotiated("1.4", "1.7").as_deref(), Some("1.7"));
        assert_eq!(negotiated("1.4", "1.10").as_deref(), Some("1.7"));
        assert_eq!(negotiated("0", "2").as_deref(), Some("1.7"));
    }

    #[test]
    fn without_a_common_version_there_is_none() {
        assert_eq!(negotiated("1.0", "1.3"), None);
        assert_eq!(negotiated("1.8", "1.9"), None);
        assert_eq!(negotiated("1.6", "1.4"), None);
    }

    #[test]
    fn only_numbers_and_dots_are_versions() {
        for text in ["", "1.", ".4", "1.4.2.1", "one", "1.-4", "+1.4", "1.99999", " 1.4"] {
            assert_eq!(text.parse::<Version>(), Err(InvalidVersion), "{text:?}");
        }
    }
}
