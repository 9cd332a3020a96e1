#!/usr/bin/env bash
# A balance read with the Rust crate electrum_streaming_client: what is being paid counts as coming in.
#
# Expected: `unconfirmed` is the change that the mempool makes to a balance, so it is negative after a payment (Electrum
# protocol, blockchain.scripthash.get_balance), and confirmed plus unconfirmed is what the wallet has.
# Seen: the crate gives the absolute value. Who has 100000 and pays 30000 sees 130000 until the next block, and then
# 70000; a payment looks like an income. The type has no sign, though its documentation says "may be negative". It
# also cuts off fee rates that it has read as f32: of 10000 rates 168 come out one sat per 1000 weight units lower. Add
# up `listunspent` instead of the balance.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$dir/target
mkdir src
cat > Cargo.toml <<'EOF'
[package]
name = "probe"
version = "0.0.0"
edition = "2021"

[dependencies]
electrum_streaming_client = { version = "=0.4.0", default-features = false }
electrum-client = { version = "=0.25.2", default-features = false }
serde_json = "1"
EOF
cat > src/main.rs <<'EOF'
use electrum_client::GetBalanceRes;
use electrum_streaming_client::response::{EstimateFeeResp, GetBalanceResp};
use serde_json::from_str;

fn main() {
    for answer in [r#"{"confirmed":100000,"unconfirmed":20000}"#, r#"{"confirmed":100000,"unconfirmed":-30000}"#] {
        println!("{answer}");
        let balance: GetBalanceRes = from_str(answer).unwrap();
        let sum = i64::try_from(balance.confirmed).unwrap() + balance.unconfirmed;
        println!("  electrum-client: unconfirmed {}, together {sum}", balance.unconfirmed);
        let GetBalanceResp { confirmed, unconfirmed } = from_str(answer).unwrap();
        let sum = confirmed + unconfirmed;
        println!("  electrum_streaming_client: unconfirmed {}, together {}", unconfirmed.to_sat(), sum.to_sat());
    }
    let sat_per_kwu = |satoshis: u64| {
        let answer = format!("{}.{:08}", satoshis / 100_000_000, satoshis % 100_000_000);
        from_str::<EstimateFeeResp>(&answer).unwrap().fee_rate.unwrap().to_sat_per_kwu()
    };
    println!("0.00012340 BTC per kB, 3085 sat per 1000 weight units: {}", sat_per_kwu(12_340));
    let low = (1..=10_000).filter(|satoshis| sat_per_kwu(*satoshis) < satoshis / 4).count();
    println!("too low of 1 to 10000 satoshis per kB: {low}");
}
EOF
cargo build -q
{
  cargo tree -q --offline --prefix none --depth 1 | sed -n 's/^\(electrum[-_a-z]*client\) v\([^ ]*\).*/\1 \2/p'
  target/debug/probe
} | tee seen
diff - seen <<'EOF'
electrum-client 0.25.2
electrum_streaming_client 0.4.0
{"confirmed":100000,"unconfirmed":20000}
  electrum-client: unconfirmed 20000, together 120000
  electrum_streaming_client: unconfirmed 20000, together 120000
{"confirmed":100000,"unconfirmed":-30000}
  electrum-client: unconfirmed -30000, together 70000
  electrum_streaming_client: unconfirmed 30000, together 130000
0.00012340 BTC per kB, 3085 sat per 1000 weight units: 3084
too low of 1 to 10000 satoshis per kB: 168
EOF
echo "as recorded"
