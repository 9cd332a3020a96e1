#!/usr/bin/env bash
# Spaces in JSON: nostr-tools takes different events for one if a relay writes `"id" : ..`.
#
# Expected: spaces between the tokens of JSON mean nothing, and neither does the order of an object's fields.
# Seen: the pool of nostr-tools looks for the id in the text of a message before it parses it, as `"id":` without a
# space. If that is missing, it takes 64 characters of the beginning of the message instead. The second event with the
# same beginning is a known one and dropped. A JSON writer that sorts fields and puts spaces around colons (the pretty
# printers of some languages do) loses every note that begins like another one, without an error.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-tools@2.25.2 ws@8.23.0

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import WebSocket, { WebSocketServer } from "ws";
globalThis.WebSocket = WebSocket;
const { SimplePool } = await import("nostr-tools/pool");
const { finalizeEvent } = await import("nostr-tools/pure");

console.log("nostr-tools", JSON.parse(readFileSync("node_modules/nostr-tools/package.json")).version);
const key = new Uint8Array(32).fill(1);
const greeting = "Good morning to everybody who reads this, today from number ";
const stored = [1, 2, 3].map((n) =>
  finalizeEvent({ kind: 1, created_at: 1_700_000_000 + n, tags: [], content: greeting + n }, key),
);
const sorted = (event) => {
  const fields = Object.keys(event).sort().filter((name) => typeof name === "string");
  return Object.fromEntries(fields.map((name) => [name, event[name]]));
};
const writers = {
  "compact": (id, event) => JSON.stringify(["EVENT", id, event]),
  "compact, fields sorted": (id, event) => JSON.stringify(["EVENT", id, sorted(event)]),
  "space after colon": (id, event) => `["EVENT", "${id}", ${JSON.stringify(sorted(event), null, 1)}]`,
  "spaces around colon": (id, event) => {
    const fields = Object.entries(sorted(event)).map(([name, value]) => `"${name}" : ${JSON.stringify(value)}`);
    return `["EVENT", "${id}", { ${fields.join(", ")} }]`;
  },
};
for (const [name, write] of Object.entries(writers)) {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await new Promise((resolve) => server.on("listening", resolve));
  server.on("connection", (socket) =>
    socket.on("message", (text) => {
      const [verb, id] = JSON.parse(text);
      if (verb !== "REQ") return;
      for (const event of stored) socket.send(write(id, event));
      socket.send(JSON.stringify(["EOSE", id]));
    }),
  );
  const events = await new SimplePool().querySync([`ws://127.0.0.1:${server.address().port}`], { kinds: [1] });
  console.log(`${name}: ${events.length} of ${stored.length} notes`);
}
process.exit(0);
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2
compact: 3 of 3 notes
compact, fields sorted: 3 of 3 notes
space after colon: 3 of 3 notes
spaces around colon: 1 of 3 notes
EOF
echo "as recorded"
