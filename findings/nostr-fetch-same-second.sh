#!/usr/bin/env bash
# "All events" of nostr-fetch end where a page holds one second only.
#
# Expected: `fetchAllEvents` pages until the relay has nothing older. A relay may cap a page, and the library goes on
# below the oldest event of the page.
# Seen: it goes on *at* the oldest second, so that it misses none of that second. A page that lies in a single second
# comes back unchanged; no new event in it means the end. Older events are never asked for, without a word. Imports and
# bots write hundreds of events with one time. A relay is safe if it never cuts a page inside of a second.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-fetch@0.17.0 nostr-tools@2.25.2 ws@8.23.0

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import WebSocket, { WebSocketServer } from "ws";
globalThis.WebSocket = WebSocket;
const { NostrFetcher } = await import("nostr-fetch");
const { finalizeEvent } = await import("nostr-tools/pure");

console.log("nostr-fetch", JSON.parse(readFileSync("node_modules/nostr-fetch/package.json")).version);
const key = new Uint8Array(32).fill(1);
const note = (created_at, content) => finalizeEvent({ kind: 1, created_at, tags: [], content }, key);
const stored = [];
for (let n = 0; n < 12; n += 1) stored.push(note(1_700_000_000 - Math.floor(n / 4), `note ${n}`));

for (const cap of [3, 4, 5]) {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await new Promise((resolve) => server.on("listening", resolve));
  let requests = 0;
  server.on("connection", (socket) =>
    socket.on("message", (text) => {
      const [verb, id, filter] = JSON.parse(text);
      if (verb !== "REQ") return;
      requests += 1;
      const page = stored.filter((event) => event.created_at <= filter.until && event.created_at >= filter.since);
      for (const event of page.slice(0, Math.min(cap, filter.limit))) socket.send(JSON.stringify(["EVENT", id, event]));
      socket.send(JSON.stringify(["EOSE", id]));
    }),
  );
  const fetcher = NostrFetcher.init();
  const url = `ws://127.0.0.1:${server.address().port}`;
  const events = await fetcher.fetchAllEvents([url], { kinds: [1] }, { since: 0 });
  console.log(`4 notes a second, pages of ${cap}: ${events.length} of ${stored.length} in ${requests} requests`);
}
process.exit(0);
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
nostr-fetch 0.17.0
4 notes a second, pages of 3: 3 of 12 in 2 requests
4 notes a second, pages of 4: 4 of 12 in 2 requests
4 notes a second, pages of 5: 12 of 12 in 4 requests
EOF
echo "as recorded"
