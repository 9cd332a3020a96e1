#!/usr/bin/env bash
# Tether's wallet kit and an Electrum server: the transfers shown are the oldest ten, and a spent balance stays.
#
# Expected: `getTransfers()` of a wallet shows the latest transfers; `getBalance()` is what the wallet has, as it is for
# others that use `blockchain.scripthash.get_balance`; a fee rate of 1.5 sat/vB pays 1.5.
# Seen: Electrum's history begins with the oldest transaction, and the kit takes ten from that end: from the eleventh
# payment on, a user who is paid sees nothing new. The balance is the field `confirmed` alone: a payment that waits can
# be spent, but is not in it, and after all was spent it stays until the next block, as that is in `unconfirmed`, below
# zero. Fee rates are rounded to whole satoshis: 1.5 pays 2, a third too much, and 2.4 pays 2. Ask for all transfers,
# and add both fields.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  @tetherto/wdk-wallet-btc@1.0.0-beta.7 bitcoinjs-lib@6.1.7

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import WalletManagerBtc from "@tetherto/wdk-wallet-btc";
import { Transaction, address } from "bitcoinjs-lib";

const name = "@tetherto/wdk-wallet-btc";
console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
const [own, other] = ["bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu", "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"];
const payment = (input, index, receiver, values) => {
  const transaction = new Transaction();
  transaction.addInput(input, index);
  for (const value of values) transaction.addOutput(address.toOutputScript(receiver), value);
  return transaction;
};
const source = payment(Buffer.alloc(32, 0x11), 0, other, Array(12).fill(60_000));
const transactions = new Map([[source.getId(), source.toHex()]]);
// Twelve payments to the wallet, the newest of which waits, as a server lists them.
const history = Array.from({ length: 12 }, (_, index) => {
  const transaction = payment(source.getHash(), index, own, [50_000]);
  transactions.set(transaction.getId(), transaction.toHex());
  return { tx_hash: transaction.getId(), height: index === 11 ? 0 : 800_001 + index };
});
const server = {
  getHistory: history,
  listUnspent: history.map((entry) => ({ ...entry, tx_pos: 0, value: 50_000 })),
  getBalance: { confirmed: 550_000, unconfirmed: 50_000 },
};
let sent;
const client = {
  connect: async () => {},
  getTransaction: async (txid) => transactions.get(txid),
  broadcast: async (hex) => (sent = Transaction.fromHex(hex)).getId(),
};
for (const method of Object.keys(server)) client[method] = async () => server[method];
const words = "abandon ".repeat(11) + "about";
const account = await new WalletManagerBtc(words, { client, network: "bitcoin", bip: 84 }).getAccount(0);
console.log("address as expected:", (await account.getAddress()) === own);
const heights = (await account.getTransfers()).map(({ height }) => height);
console.log("heights of the history:", history.map(({ height }) => height).join(" "));
console.log("heights of the transfers:", heights.join(" "));
const show = async (title) => {
  const { amount, fee, changeValue } = await account.getMaxSpendable({ feeRate: 1 });
  const spendable = amount + fee + changeValue;
  console.log(`${title}: balance ${await account.getBalance()}, spendable with its fee ${spendable}`);
};
await show("one payment waits");
for (const feeRate of [1.4, 1.5, 2.4]) {
  const { fee } = await account.sendTransaction({ to: other, value: 20_000, feeRate });
  console.log(`fee rate ${feeRate} pays`, Number(fee) / sent.virtualSize());
}
Object.assign(server, { listUnspent: [], getBalance: { confirmed: 550_000, unconfirmed: -550_000 } });
await show("all is spent in the mempool");
process.exit();
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
@tetherto/wdk-wallet-btc 1.0.0-beta.7
address as expected: true
heights of the history: 800001 800002 800003 800004 800005 800006 800007 800008 800009 800010 800011 0
heights of the transfers: 800001 800002 800003 800004 800005 800006 800007 800008 800009 800010
one payment waits: balance 550000, spendable with its fee 600000
fee rate 1.4 pays 1
fee rate 1.5 pays 2
fee rate 2.4 pays 2
all is spent in the mempool: balance 550000, spendable with its fee 0
EOF
echo "as recorded"
