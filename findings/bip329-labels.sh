#!/usr/bin/env bash
# Labels of BIP 329 through the Rust crate bip329: a frozen coin thaws, and the older of two lines about a coin wins.
#
# Expected: by BIP 329 `label`, `origin` and `spendable` are optional, importing wallets ignore types that they do not
# know, and a file can be added to line by line. Its types keep an input and an output of one number apart.
# Seen: a coin that is frozen and has no label is exported with `"label":null`; the Python package drops that record
# with a warning, so the coin can be spent again. One line of another type makes the whole import fail. The origin is
# lost but for transactions, and so is what the BIP lists as additional fields. `Labels` is an iterator that takes from
# the end, so a `for` loop goes backwards, and in the maps made of it the first line of a coin replaces the later one.
# `into_string_map` holds one label for input 0 and output 0 of a transaction. Read lines one by one with
# `Label::try_from_str`, and take `iter` or `into_vec`.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$dir/target
python3 -m venv venv
venv/bin/pip install -q bip329==1.0.0
mkdir src
cat > Cargo.toml <<'EOF'
[package]
name = "probe"
version = "0.0.0"
edition = "2021"

[dependencies]
bip329 = "=0.6.0"
EOF
cat > src/main.rs <<'EOF'
use bip329::Labels;

const TXID: &str = "f91d0a8a78462bc59398f2c5d7a84fcff491c26ba54c4833478b202796c8aafd";
const ADDRESS: &str = "bc1q34aq5drpuwy3wgl9lhup9892qp6svr8ldzyy7c";

fn read(lines: &[&str]) -> Result<Labels, impl std::error::Error> {
    let lines: Vec<_> = lines.iter().map(|line| line.replace("TXID", TXID).replace("ADDRESS", ADDRESS)).collect();
    Labels::try_from_str(&lines.join("\n"))
}

fn brief(text: &str) -> String {
    text.replace(TXID, "TXID").replace(ADDRESS, "ADDRESS")
}

fn main() {
    let other = r#"{"type":"account","ref":"savings","label":"of another program"}"#;
    let origin = r#""origin":"wpkh([d34db33f/84'/0'/0'])""#;
    let transaction = format!(r#"{{"type":"tx","ref":"TXID","label":"Transaction",{origin},"height":800000}}"#);
    match read(&[&transaction, other]) {
        Ok(_) => println!("a line of another type: read"),
        Err(error) => println!("a line of another type: {}", error.to_string().split(',').next().unwrap()),
    }

    let address = format!(r#"{{"type":"addr","ref":"ADDRESS","label":"Address",{origin},"keypath":"/1/123"}}"#);
    let frozen = r#"{"type":"output","ref":"TXID:1","spendable":false}"#;
    let labels = read(&[&transaction, &address, frozen]).unwrap();
    println!("read and exported:");
    for line in labels.export().unwrap().lines() {
        println!("  {}", brief(line));
    }
    labels.export_to_file("exported.jsonl").unwrap();

    let earlier = r#"{"type":"output","ref":"TXID:0","label":"earlier","spendable":true}"#;
    let later = r#"{"type":"output","ref":"TXID:0","label":"later","spendable":false}"#;
    let labels = read(&[earlier, later]).unwrap();
    println!("two lines of one output:");
    println!("  iter: {:?}", labels.iter().filter_map(|label| label.label()).collect::<Vec<_>>());
    let mut order = Vec::new();
    for label in labels.clone() {
        order.extend(label.label().map(str::to_owned));
    }
    println!("  for: {order:?}");
    println!("  into_map: {:?}", labels.into_map().values().filter_map(|label| label.label()).collect::<Vec<_>>());

    let input = r#"{"type":"input","ref":"TXID:0","label":"input 0"}"#;
    let output = r#"{"type":"output","ref":"TXID:0","label":"output 0"}"#;
    let labels = read(&[input, output]).unwrap();
    println!("an input and an output: into_map has {}", labels.clone().into_map().len());
    let map = labels.into_string_map();
    println!("  into_string_map: {:?}", map.values().filter_map(|label| label.label()).collect::<Vec<_>>());
}
EOF
cat > probe.py <<'EOF'
import importlib.metadata, logging
from bip329.bip329_parser import BIP329_Parser

logging.disable(logging.WARNING)
print("bip329 (Python)", importlib.metadata.version("bip329"), "reads what the crate exported:")
for entry in BIP329_Parser("exported.jsonl").load_entries():
    print(" ", entry["type"], entry.get("label"), entry.get("spendable"))
lines = open("exported.jsonl").read().replace('"label":null,', "")
open("exported.jsonl", "w").write(lines)
print("without the null:")
for entry in BIP329_Parser("exported.jsonl").load_entries():
    print(" ", entry["type"], entry.get("label"), entry.get("spendable"))
EOF
cargo build -q
{
  cargo tree -q --offline --prefix none --depth 1 | sed -n 's/^\(bip329\) v\([^ ]*\).*/\1 (Rust) \2/p'
  target/debug/probe
  venv/bin/python probe.py
} | tee seen
diff - seen <<'EOF'
bip329 (Rust) 0.6.0
a line of another type: Unable to parse file: unknown variant `account`
read and exported:
  {"type":"tx","ref":"TXID","label":"Transaction","origin":"wpkh([d34db33f/84'/0'/0'])"}
  {"type":"addr","ref":"ADDRESS","label":"Address"}
  {"type":"output","ref":"TXID:1","label":null,"spendable":false}
two lines of one output:
  iter: ["earlier", "later"]
  for: ["later", "earlier"]
  into_map: ["earlier"]
an input and an output: into_map has 2
  into_string_map: ["input 0"]
bip329 (Python) 1.0.0 reads what the crate exported:
  tx Transaction None
  addr Address None
without the null:
  tx Transaction None
  addr Address None
  output None False
EOF
echo "as recorded"
