#!/usr/bin/env bash
# A balance out of two moments: @bitcoinerlab/explorer reads an Esplora address twice, and uses half of each answer.
#
# Expected: `/address/:address` answers with the confirmed and the unconfirmed part of one moment, so a client reads it
# once, and coins are in one of both parts.
# Seen: `fetchAddress` asks twice and takes `chain_stats` from the first answer and `mempool_stats` from the second one.
# If a block arrives between them, coins that it confirms are in neither part. Also, a history of unconfirmed
# transactions makes it ask for the page after one of them; Esplora's cursor is a confirmed transaction, and a server
# that refuses an unknown cursor breaks the call.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @bitcoinerlab/explorer@1.0.0

cat > probe.cjs <<'EOF'
const http = require("node:http");
const { EsploraExplorer } = require("@bitcoinerlab/explorer");

console.log("@bitcoinerlab/explorer", require("./node_modules/@bitcoinerlab/explorer/package.json").version);
const address = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4";
const txid = "11".repeat(32);
const none = { funded_txo_count: 0, funded_txo_sum: 0, spent_txo_count: 0, spent_txo_sum: 0, tx_count: 0 };
const coin = { ...none, funded_txo_count: 1, funded_txo_sum: 5000, tx_count: 1 };
let confirmed = false;
const server = http.createServer((request, response) => {
  console.log("  GET", request.url.replace(address, "ADDRESS").replace(txid, "TXID"));
  let body = [];
  if (request.url === "/blocks/tip/height") body = 100;
  if (request.url === `/address/${address}`) {
    body = { address, chain_stats: confirmed ? coin : none, mempool_stats: confirmed ? none : coin };
    confirmed = true; // A block arrives after the first answer.
  }
  if (request.url === `/address/${address}/txs`) body = [{ txid, status: { confirmed: false } }];
  response.end(JSON.stringify(body));
});
server.listen(0, "127.0.0.1", async () => {
  const explorer = new EsploraExplorer({ url: `http://127.0.0.1:${server.address().port}` });
  await explorer.connect();
  console.log("one coin of 5000 sat, confirmed meanwhile:");
  const { balance, unconfirmedBalance } = await explorer.fetchAddress(address);
  console.log("  balance", balance, "unconfirmed", unconfirmedBalance);
  console.log("history of one unconfirmed transaction:");
  console.log("  transactions", (await explorer.fetchTxHistory({ address })).length);
  process.exit(0);
});
EOF
node probe.cjs | tee seen
diff - seen <<'EOF'
@bitcoinerlab/explorer 1.0.0
one coin of 5000 sat, confirmed meanwhile:
  GET /address/ADDRESS
  GET /address/ADDRESS
  balance 0 unconfirmed 0
history of one unconfirmed transaction:
  GET /address/ADDRESS/txs
  GET /address/ADDRESS/txs/chain/TXID
  transactions 1
EOF
echo "as recorded"
