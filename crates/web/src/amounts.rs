//! Amounts, sizes, fee rates and durations as text.

/// Satoshis in one bitcoin.
const COIN: u64 = 100_000_000;

/// Returns an amount in bitcoin, with eight decimals and thousands apart: `1 234.50000000`.
pub fn bitcoin(sat: u64) -> String {
    format!("{}.{:08}", count(sat / COIN), sat % COIN)
}

/// Returns a number with its thousands apart, by narrow spaces.
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// Returns a fee rate: two decimals, one from 10 on, none from 100 on.
pub fn rate(sat_vb: f64) -> String {
    match sat_vb {
        100.0.. => format!("{sat_vb:.0}"),
        10.0.. => format!("{sat_vb:.1}"),
        _ => format!("{sat_vb:.2}"),
    }
}

/// Returns a size in the largest unit of which it has one: `312 B`, `1.23 kB`, `4.00 MB`, `5.00 GB`.
pub fn bytes(bytes: u64) -> String {
    in_units(bytes, ["B", "kB", "MB", "GB"])
}

/// Returns a virtual size, like [`bytes`].
pub fn vbytes(vbytes: u64) -> String {
    in_units(vbytes, ["vB", "kvB", "MvB", "GvB"])
}

/// Returns a weight, like [`bytes`].
pub fn weight(units: u64) -> String {
    in_units(units, ["WU", "kWU", "MWU", "GWU"])
}

/// Returns a time in the largest unit of which it has two, at most days: `90 s`, `3 min`, `26 h`, `4 d`.
pub fn duration(seconds: u64) -> String {
    match seconds {
        ..120 => format!("{seconds}\u{a0}s"),
        120..7200 => format!("{}\u{a0}min", seconds / 60),
        7200..172_800 => format!("{}\u{a0}h", seconds / 3600),
        _ => format!("{}\u{a0}d", seconds / 86_400),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a size on a page is far below 2^52")]
fn in_units(number: u64, [unit, kilo, mega, giga]: [&str; 4]) -> String {
    match number {
        ..1000 => format!("{number}\u{a0}{unit}"),
        1000..1_000_000 => format!("{:.2}\u{a0}{kilo}", number as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.2}\u{a0}{mega}", number as f64 / 1e6),
        _ => format!("{:.2}\u{a0}{giga}", number as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_eight_decimals_and_thousands_apart() {
        assert_eq!(bitcoin(0), "0.00000000");
        assert_eq!(bitcoin(2_099_999_997_690_000), "20\u{202f}999\u{202f}999.97690000");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_000_000), "1\u{202f}000\u{202f}000");
    }

    #[test]
    fn rates_and_sizes_are_as_exact_as_they_need_to_be() {
        assert_eq!([1.234, 12.34, 123.4].map(rate), ["1.23", "12.3", "123"]);
        assert_eq!([999, 1_234, 3_999_999].map(bytes), ["999\u{a0}B", "1.23\u{a0}kB", "4.00\u{a0}MB"]);
        assert_eq!(bytes(5_000_000_000), "5.00\u{a0}GB");
        assert_eq!([90, 200, 100_000, 400_000].map(duration), ["90\u{a0}s", "3\u{a0}min", "27\u{a0}h", "4\u{a0}d"]);
        assert_eq!((vbytes(141), weight(561)), ("141\u{a0}vB".into(), "561\u{a0}WU".into()));
    }
}
