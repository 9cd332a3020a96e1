//! Outputs as Core's JSON has them: `prevout` of `getblock 3`, the answer of `gettxout`.

use bitcoin::hex::FromHex as _;
use bitcoin::{Amount, TxOut};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Number of digits after the point of an amount in BTC.
const BTC_DIGITS: usize = 8;

/// An output.
#[derive(Debug, Deserialize)]
pub(crate) struct Prevout {
    value: Box<RawValue>,
    #[serde(rename = "scriptPubKey")]
    script: Script,
}

#[derive(Debug, Deserialize)]
struct Script {
    hex: String,
}

impl Prevout {
    /// Returns the output; `None` when its amount or its script is malformed.
    pub(crate) fn tx_out(&self) -> Option<TxOut> {
        let script_pubkey = Vec::from_hex(&self.script.hex).ok()?.into();
        Some(TxOut { value: Amount::from_sat(satoshis(self.value.get())?), script_pubkey })
    }
}

/// Converts an amount in BTC as Core writes it (`12.34500000`) to satoshis, without floating point.
fn satoshis(btc: &str) -> Option<u64> {
    let (whole, fraction) = btc.split_once('.').unwrap_or((btc, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > BTC_DIGITS {
        return None;
    }
    format!("{whole}{fraction:0<BTC_DIGITS$}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_exact() {
        assert_eq!(satoshis("50.00000000"), Some(5_000_000_000));
        assert_eq!(satoshis("0.00000001"), Some(1));
        assert_eq!(satoshis("20999999.97690000"), Some(2_099_999_997_690_000));
        assert_eq!(satoshis("1"), Some(100_000_000));
        assert_eq!(satoshis("0.1"), Some(10_000_000));
        for wrong in ["", "-1.0", "1e8", "0.123456789", ".5", "1.0x", "\"1.0\"", "99999999999999999999.0"] {
            assert_eq!(satoshis(wrong), None, "{wrong}");
        }
    }
}
