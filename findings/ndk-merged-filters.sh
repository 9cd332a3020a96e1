#!/usr/bin/env bash
# Subscriptions that NDK joins into one REQ: one search is lost, and other filters get wider.
#
# Expected: a library that sends two subscriptions as one REQ asks for the union of both: two filters, or one filter if
# that is the same.
# Seen: of two searches of the same moment NDK sends the later one only, and says to both that all stored events came.
# Two pairs of kind and author become one filter of all four combinations, and so do tags, so the relay reads and sends
# more than anybody asked for. Only a `limit` keeps two filters apart.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @nostr-dev-kit/ndk@3.0.3 nostr-tools@2.25.2 ws@8.23.0

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import WebSocket, { WebSocketServer } from "ws";
globalThis.WebSocket = WebSocket;
const { default: NDK } = await import("@nostr-dev-kit/ndk");

console.log("ndk", JSON.parse(readFileSync("node_modules/@nostr-dev-kit/ndk/package.json")).version);
const [alice, bob] = ["a".repeat(64), "b".repeat(64)];
const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
await new Promise((resolve) => server.on("listening", resolve));
server.on("connection", (socket) =>
  socket.on("message", (text) => {
    const [verb, id, ...filters] = JSON.parse(text);
    if (verb !== "REQ") return;
    console.log("  REQ", JSON.stringify(filters).replaceAll(alice, "ALICE").replaceAll(bob, "BOB"));
    socket.send(JSON.stringify(["EOSE", id]));
  }),
);
const ndk = new NDK({ explicitRelayUrls: [`ws://127.0.0.1:${server.address().port}`] });
await ndk.connect(2000);
const together = async (name, ...filters) => {
  console.log(name);
  const ends = filters.map((filter) => {
    const subscription = ndk.subscribe(filter, { closeOnEose: true });
    return new Promise((resolve) => subscription.on("eose", resolve));
  });
  await Promise.all(ends);
  console.log("  EOSE for", ends.length);
};
await together("two searches", { kinds: [1], search: "owl" }, { kinds: [1], search: "crow" });
await together("two authors and kinds", { kinds: [1], authors: [alice] }, { kinds: [7], authors: [bob] });
await together("two pairs of tags", { "#e": [alice], "#p": [bob] }, { "#e": [bob], "#p": [alice] });
await together("with a limit", { kinds: [1], limit: 9, search: "owl" }, { kinds: [1], limit: 9, search: "crow" });
process.exit(0);
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
ndk 3.0.3
two searches
  REQ [{"kinds":[1],"search":"crow"}]
  EOSE for 2
two authors and kinds
  REQ [{"kinds":[1,7],"authors":["ALICE","BOB"]}]
  EOSE for 2
two pairs of tags
  REQ [{"#e":["ALICE","BOB"],"#p":["BOB","ALICE"]}]
  EOSE for 2
with a limit
  REQ [{"kinds":[1],"limit":9,"search":"owl"},{"kinds":[1],"limit":9,"search":"crow"}]
  EOSE for 2
EOF
echo "as recorded"
