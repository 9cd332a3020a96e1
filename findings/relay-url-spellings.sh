#!/usr/bin/env bash
# One URL of a relay has another name in each of four libraries, and NDK connects to another URL than it was given.
#
# Expected: normal forms differ in harmless ways (a slash at the root, the default port, letters of the host), so two
# names of one relay can be told to be equal by RFC 3986.
# Seen: NDK puts a slash behind the query, and asks the relay for `?key=abc/`: a relay that reads a key or a name from
# the query gets another value. nostr-tools sorts the parameters of the query and joins double slashes; welshman
# turns the path to lower case, so two relays of one host become one; nostr-sdk changes host and port only. The
# `relay` tag of NIP-42 and the lists of NIP-65 carry these names.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  @nostr-dev-kit/ndk@3.0.3 @welshman/util@0.8.15 @welshman/lib@0.8.15 nostr-tools@2.25.2 ws@8.23.0
python3 -m venv venv
venv/bin/pip install -q nostr-sdk==0.45.1

cat > urls <<'EOF'
wss://Relay.Example/Inbox
wss://relay.example:443//a
wss://relay.example/?key=abc&a=1
EOF
cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import WebSocket, { WebSocketServer } from "ws";
globalThis.WebSocket = WebSocket;
const { default: NDK, normalizeRelayUrl } = await import("@nostr-dev-kit/ndk");
const { normalizeRelayUrl: welshman } = await import("@welshman/util");
const { utils } = await import("nostr-tools");

for (const name of ["@nostr-dev-kit/ndk", "@welshman/util", "nostr-tools"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
for (const url of readFileSync("urls", "utf8").trim().split("\n")) {
  console.log(url);
  console.log("  ndk        ", normalizeRelayUrl(url));
  console.log("  welshman   ", welshman(url));
  console.log("  nostr-tools", utils.normalizeURL(url));
}
const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
await new Promise((resolve) => server.on("listening", resolve));
const asked = new Promise((resolve) => server.on("connection", (_, request) => resolve(request.url)));
new NDK({ explicitRelayUrls: [`ws://127.0.0.1:${server.address().port}/?key=abc`] }).connect();
console.log("NDK, given /?key=abc, connects to", await asked);
process.exit(0);
EOF
cat > probe.py <<'EOF'
import importlib.metadata
from nostr_sdk import RelayUrl

print("nostr-sdk", importlib.metadata.version("nostr-sdk"))
for url in open("urls").read().split():
    print("  nostr-sdk  ", RelayUrl.parse(url))
EOF
{ node probe.mjs; venv/bin/python probe.py; } | tee seen
diff - seen <<'EOF'
@nostr-dev-kit/ndk 3.0.3
@welshman/util 0.8.15
nostr-tools 2.25.2
wss://Relay.Example/Inbox
  ndk         wss://Relay.Example/Inbox/
  welshman    wss://relay.example/inbox
  nostr-tools wss://relay.example/Inbox
wss://relay.example:443//a
  ndk         wss://relay.example:443//a/
  welshman    wss://relay.example:443//a
  nostr-tools wss://relay.example/a
wss://relay.example/?key=abc&a=1
  ndk         wss://relay.example/?key=abc&a=1/
  welshman    wss://relay.example/?key=abc&a=1
  nostr-tools wss://relay.example/?a=1&key=abc
NDK, given /?key=abc, connects to /?key=abc/
nostr-sdk 0.45.1
  nostr-sdk   wss://relay.example/Inbox
  nostr-sdk   wss://relay.example//a
  nostr-sdk   wss://relay.example/?key=abc&a=1
EOF
echo "as recorded"
