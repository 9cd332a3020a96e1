#!/usr/bin/env bash
# A payment URI for one satoshi: the npm package `bip21` writes `amount=1e-8`, and does not read it in capitals.
#
# Expected: BIP 21 has a decimal number as amount, so one satoshi is 0.00000001. A URI in capitals, as QR codes have it,
# means the same if its parameters do.
# Seen: amounts below 100 satoshis are written with an exponent, which the grammar of BIP 21 does not have. `AMOUNT=` in
# capitals is another option, not the amount, so the payer types it in.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts bip21@3.0.0

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { decode, encode } from "bip21";

console.log("bip21", JSON.parse(readFileSync("node_modules/bip21/package.json")).version);
const address = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
for (const satoshis of [1, 99, 100]) console.log(satoshis, "sat:", encode(address, { amount: satoshis / 1e8 }));
const capitals = `BITCOIN:${address.toUpperCase()}?AMOUNT=0.1`;
console.log(capitals, "->", JSON.stringify(decode(capitals).options));
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
bip21 3.0.0
1 sat: bitcoin:bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4?amount=1e-8
99 sat: bitcoin:bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4?amount=9.9e-7
100 sat: bitcoin:bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4?amount=0.000001
BITCOIN:BC1QW508D6QEJXTDG4Y5R3ZARVARY0C5XW7KV8F3T4?AMOUNT=0.1 -> {"AMOUNT":"0.1"}
EOF
echo "as recorded"
