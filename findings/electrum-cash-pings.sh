#!/usr/bin/env bash
# An idle client of @electrum-cash/network sends a ping every second, and its failed requests succeed.
#
# Expected: a wallet that waits for notifications is silent; clients ping once a minute or less often, because servers
# close a connection after ten minutes of silence. And an error of the server makes the promise of a request fail.
# Seen: the default interval is one second, so an idle client sends 86 400 requests a day. A limit of requests by
# client that was chosen for wallets closes or delays it. An answer with an error *fulfils* the promise, with an `Error`
# as the value. The ids of version and ping are texts, not numbers.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts \
  @electrum-cash/network@4.2.2 @electrum-cash/web-socket@1.2.3 ws@8.23.0

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import WebSocket, { WebSocketServer } from "ws";
globalThis.WebSocket = WebSocket;
const { ElectrumClient } = await import("@electrum-cash/network");
const { ElectrumWebSocket } = await import("@electrum-cash/web-socket");

const name = "@electrum-cash/network";
console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
await new Promise((resolve) => server.on("listening", resolve));
let pings = 0;
server.on("connection", (socket) =>
  socket.on("message", (data) => {
    for (const line of data.toString().trim().split("\n")) {
      const { id, method } = JSON.parse(line);
      if (method === "server.version") console.log("id of server.version is a", typeof id);
      if (method === "server.ping") pings += 1;
      const answer = method === "server.version" ? { result: ["probe", "1.4"] } : { result: null };
      const refusal = { error: { code: 2, message: "no such transaction" } };
      const ending = method === "blockchain.transaction.get" ? refusal : answer;
      socket.send(JSON.stringify({ jsonrpc: "2.0", id, ...ending }));
    }
  }),
);
const socket = new ElectrumWebSocket("127.0.0.1", server.address().port, false);
const client = new ElectrumClient("probe", "1.4", socket);
await client.connect();
const end = await client.request("blockchain.transaction.get", "11".repeat(32)).then(
  (value) => `fulfilled with ${value.constructor.name}: ${value.message}`,
  (error) => `rejected: ${error.message}`,
);
console.log("request that the server refuses:", end);
await new Promise((resolve) => setTimeout(resolve, 5500));
console.log("pings in 5.5 idle seconds: at least four:", pings >= 4);
process.exit(0);
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
@electrum-cash/network 4.2.2
id of server.version is a string
request that the server refuses: fulfilled with Error: no such transaction
pings in 5.5 idle seconds: at least four: true
EOF
echo "as recorded"
