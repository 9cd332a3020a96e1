#!/usr/bin/env bash
# ws-electrumx-client splits messages at spaces, and puts the pieces together without them.
#
# Expected: a message of JSON-RPC is JSON, in which a string keeps its spaces, and white space between tokens means
# nothing (RFC 8259). With `reconnect`, which is on by default, a client outlives a restart of its server.
# Seen: the client reads a WebSocket message as lines that end at "\n", "\r" or a space, and joins pieces until they are
# JSON. Banners, error messages and all other texts arrive without spaces. The client tries once to reconnect, a second
# after the loss; if the server is not back by then, it never tries again, and requests wait for ever.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts ws-electrumx-client@1.0.5 ws@8.18.0

cat > probe.cjs <<'EOF'
const { WebSocketServer } = require("ws");
const { ElectrumWS } = require("ws-electrumx-client");

console.log("ws-electrumx-client", require("./node_modules/ws-electrumx-client/package.json").version);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const banner = "Welcome to my server. Blocks 0 to 100 are here.";
const replies = {
  "server.banner": { result: banner },
  "server.features": { result: { hosts: {}, server_version: "House 1.0 (beta)" } },
  "blockchain.transaction.broadcast": { error: { code: 1, message: "min relay fee not met, 100 < 141" } },
};
let connections = 0;
const listen = (port) =>
  new Promise((done) => {
    const server = new WebSocketServer({ port, host: "127.0.0.1" }, () => done(server));
    server.on("connection", (socket) => {
      connections += 1;
      socket.on("message", (data) => {
        const { id, method } = JSON.parse(data);
        socket.send(JSON.stringify({ jsonrpc: "2.0", id, ...(replies[method] ?? { result: null }) }));
      });
    });
  });

async function main() {
  let server = await listen(0);
  const { port } = server.address();
  const client = new ElectrumWS(`ws://127.0.0.1:${port}`);
  for (const method of Object.keys(replies)) {
    const answer = await client.request(method).catch((error) => error.message);
    console.log(" ", method, JSON.stringify(answer));
  }
  for (const away_ms of [200, 3000]) {
    for (const socket of server.clients) socket.terminate();
    await new Promise((done) => server.close(done));
    connections = 0;
    await sleep(away_ms);
    server = await listen(port);
    await sleep(6000);
    console.log(`  server away for ${away_ms} ms; connections in the next 6 s: ${connections}`);
  }
  const ping = client.request("server.ping").then(() => "answered", (error) => error.message);
  console.log("  server.ping:", await Promise.race([ping, sleep(12000).then(() => "no answer and no error in 12 s")]));
  process.exit(0);
}
main();
EOF
node probe.cjs | tee seen
diff - seen <<'EOF'
ws-electrumx-client 1.0.5
  server.banner "Welcometomyserver.Blocks0to100arehere."
  server.features {"hosts":{},"server_version":"House1.0(beta)"}
  blockchain.transaction.broadcast "minrelayfeenotmet,100<141"
  server away for 200 ms; connections in the next 6 s: 1
  server away for 3000 ms; connections in the next 6 s: 0
  server.ping: no answer and no error in 12 s
EOF
echo "as recorded"
