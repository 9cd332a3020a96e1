#!/usr/bin/env bash
# A result of null: the Electrum client of mempool's back end returns the whole message in its place.
#
# Expected: the promise of a call gives the `result` of the answer, whatever it is. The Electrum protocol has many
# results that JavaScript takes for false: null as the status of an unused script, null from `server.ping`, 0 as relay
# fee, an empty banner.
# Seen: for null, 0, false and an empty text the caller gets the envelope, an object with `id` and `jsonrpc`. A check
# such as `if (status)` then takes an unused script for a used one, and a fee of 0 is no number. Both forks do it.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts \
  @mempool/electrum-client@1.1.9 @lily-technologies/electrum-client@1.1.8

cat > probe.cjs <<'EOF'
const net = require("node:net");

const results = {
  "blockchain.scripthash.subscribe": null,
  "server.ping": null,
  "blockchain.relayfee": 0,
  "server.banner": "",
  "blockchain.estimatefee": -1,
  "blockchain.scripthash.get_history": [],
};
const server = net.createServer((socket) => {
  socket.setEncoding("utf8");
  let rest = "";
  socket.on("data", (chunk) => {
    const lines = (rest + chunk).split("\n");
    rest = lines.pop();
    for (const { id, method } of lines.map((line) => JSON.parse(line))) {
      const result = method === "server.version" ? ["probe", "1.4"] : results[method];
      socket.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\n");
    }
  });
});
server.listen(0, "127.0.0.1", async () => {
  for (const name of ["@mempool/electrum-client", "@lily-technologies/electrum-client"]) {
    console.log(name, require(`./node_modules/${name}/package.json`).version);
    const Client = require(name);
    const client = new Client(server.address().port, "127.0.0.1", "tcp", null, { onLog: () => {} });
    await client.initElectrum({ client: "probe", version: "1.4" });
    for (const method of Object.keys(results)) {
      console.log(" ", method, JSON.stringify(results[method]), "->", JSON.stringify(await client.request(method, [])));
    }
  }
  process.exit(0);
});
EOF
node probe.cjs | tee seen
diff - seen <<'EOF'
@mempool/electrum-client 1.1.9
  blockchain.scripthash.subscribe null -> {"jsonrpc":"2.0","id":2,"result":null}
  server.ping null -> {"jsonrpc":"2.0","id":3,"result":null}
  blockchain.relayfee 0 -> {"jsonrpc":"2.0","id":4,"result":0}
  server.banner "" -> {"jsonrpc":"2.0","id":5,"result":""}
  blockchain.estimatefee -1 -> -1
  blockchain.scripthash.get_history [] -> []
@lily-technologies/electrum-client 1.1.8
  blockchain.scripthash.subscribe null -> {"jsonrpc":"2.0","id":2,"result":null}
  server.ping null -> {"jsonrpc":"2.0","id":3,"result":null}
  blockchain.relayfee 0 -> {"jsonrpc":"2.0","id":4,"result":0}
  server.banner "" -> {"jsonrpc":"2.0","id":5,"result":""}
  blockchain.estimatefee -1 -> -1
  blockchain.scripthash.get_history [] -> []
EOF
echo "as recorded"
