//! The time for which a certificate is valid, and the moment from which it should be renewed.

use anyhow::{Result, anyhow};
use x509_cert::der::Decode as _;

/// Time before the end at which a certificate should have been renewed, seconds.
const RENEW_WITHIN: u64 = 14 * 24 * 60 * 60;
/// A certificate that is valid for a short time should have been renewed when this part of its time is left.
const RENEW_WITHIN_PART: u64 = 4;

/// The time for which a certificate is valid, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) from: u64,
    pub(crate) until: u64,
}

/// A state of a certificate at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    Valid {
        days_left: u64,
    },
    /// It should have been renewed by now.
    Ending {
        days_left: u64,
    },
    Expired,
}

impl Validity {
    /// Reads it from a certificate in DER.
    ///
    /// # Errors
    /// The bytes are no certificate.
    pub(crate) fn of(leaf: &[u8]) -> Result<Self> {
        let parsed = x509_cert::Certificate::from_der(leaf);
        let parsed = parsed.map_err(|error| anyhow!("failed to parse the certificate: {error}"))?;
        let validity = parsed.tbs_certificate.validity;
        let [from, until] = [validity.not_before, validity.not_after].map(|time| time.to_unix_duration().as_secs());
        Ok(Self { from, until })
    }

    /// Returns the state at a time, in seconds since 1970.
    pub(crate) fn at(self, now: u64) -> Standing {
        let Some(left) = self.until.checked_sub(now).filter(|left| *left > 0) else { return Standing::Expired };
        let within = RENEW_WITHIN.min(self.until.saturating_sub(self.from) / RENEW_WITHIN_PART);
        let days_left = left / 86_400;
        if left < within { Standing::Ending { days_left } } else { Standing::Valid { days_left } }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const DAY: u64 = 86_400;

    #[test]
    fn a_certificate_is_read_and_a_short_one_is_renewed_later() {
        let mut params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        (params.not_before, params.not_after) = (rcgen::date_time_ymd(2026, 1, 1), rcgen::date_time_ymd(2026, 4, 1));
        let key = rcgen::KeyPair::generate().unwrap();
        let validity = Validity::of(params.self_signed(&key).unwrap().der()).unwrap();
        // As `date -u -d 2026-01-01 +%s` prints it.
        assert_eq!(validity, Validity { from: 1_767_225_600, until: 1_767_225_600 + 90 * DAY });
        let left = |time: u64| validity.at(validity.until - time);
        assert_eq!(left(14 * DAY), Standing::Valid { days_left: 14 });
        assert_eq!(left(14 * DAY - 1), Standing::Ending { days_left: 13 });
        assert_eq!((left(1), left(0)), (Standing::Ending { days_left: 0 }, Standing::Expired));
        let short = Validity { from: 0, until: 6 * DAY };
        assert_eq!(short.at(4 * DAY), Standing::Valid { days_left: 2 });
        assert_eq!(short.at(5 * DAY), Standing::Ending { days_left: 1 });
        assert!(Validity::of(b"no certificate").is_err());
    }
}
