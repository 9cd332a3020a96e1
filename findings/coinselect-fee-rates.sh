#!/usr/bin/env bash
# Coins for a fee rate of Esplora: the npm package `coinselect` finds none, or makes change that nodes refuse.
#
# Expected: `/fee-estimates` has rates such as 2.5 sat/vB, and a node's floor may be below 1; coinselect takes a rate in
# satoshis per byte, finds "no solution" for want of money, and adds change "over a dust threshold".
# Seen: a rate that is no integer gives `{}`, as if there were no coins, without the fee that is "always returned".
# The dust threshold is 148 times the rate, not Bitcoin Core's, which does not depend on it (294 sat for P2WPKH, 546 for
# P2PKH, at 3000 sat/kvB): at 1 sat/vB nodes refuse the whole transaction for change of 149 to 293 sat, and at 100
# sat/vB change of 14000 sat goes to the miner. All sizes are those of P2PKH: a P2WPKH wallet pays for 226 bytes where
# its transaction has 141 vB; outputs to Taproot, 43 bytes, count 34, so many of them stay below the rate.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts coinselect@3.1.13

cat > probe.cjs <<'EOF'
const coinSelect = require("coinselect");

console.log("coinselect", require("./node_modules/coinselect/package.json").version);
const coin = (value) => ({ txId: "11".repeat(32), vout: 0, value });
const show = (result) => {
  const { inputs, outputs, fee } = result;
  if (!inputs) return JSON.stringify(result);
  return `inputs ${inputs.map(({ value }) => value)}, outputs ${outputs.map(({ value }) => value)}, fee ${fee}`;
};
for (const rate of [2, 2.5, 0.5]) {
  console.log(`5000 of 100000 sat at ${rate} sat/vB:`, show(coinSelect([coin(100000)], [{ value: 5000 }], rate)));
}
console.log("9600 of 10000 sat at 1 sat/vB:", show(coinSelect([coin(10000)], [{ value: 9600 }], 1)));
console.log("63000 of 100000 sat at 100 sat/vB:", show(coinSelect([coin(100000)], [{ value: 63000 }], 100)));
// Version, counts, lock time: 10 bytes. An input of P2PKH: 148, and P2PKH change 34.
const address = "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0";
const payees = Array(10).fill({ address, value: 5000 });
const { fee } = coinSelect([coin(100000)], payees, 1);
console.log(`P2PKH to ten P2TR at 1 sat/vB: fee ${fee}, bytes ${10 + 148 + 10 * 43 + 34}`);
EOF
node probe.cjs | tee seen
diff - seen <<'EOF'
coinselect 3.1.13
5000 of 100000 sat at 2 sat/vB: inputs 100000, outputs 5000,94548, fee 452
5000 of 100000 sat at 2.5 sat/vB: {}
5000 of 100000 sat at 0.5 sat/vB: {}
9600 of 10000 sat at 1 sat/vB: inputs 10000, outputs 9600,174, fee 226
63000 of 100000 sat at 100 sat/vB: inputs 100000, outputs 63000, fee 37000
P2PKH to ten P2TR at 1 sat/vB: fee 532, bytes 622
EOF
echo "as recorded"
