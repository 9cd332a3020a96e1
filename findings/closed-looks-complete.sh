#!/usr/bin/env bash
# A relay ends a REQ by CLOSED: half an answer looks like a whole one in four libraries, and NDK goes on waiting.
#
# Expected: NIP-01's CLOSED, before EOSE and with a reason such as "rate-limited: ..", is a failure: the call that
# collects stored events fails, or at least tells an incomplete answer from a complete one.
# Seen: `querySync` of nostr-tools, `query` of nostrify and rx-nostr return what came so far as a success. nostr-fetch
# does so too, and logs. applesauce fails with the reason. `fetchEvents` of NDK stays pending: the script waits
# five seconds, and forty were tried. A relay that must stop early is understood by one of six.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  nostr-tools@2.25.2 @nostrify/nostrify@0.54.1 rx-nostr@3.7.5 nostr-fetch@0.17.0 applesauce-relay@6.2.1 \
  @nostr-dev-kit/ndk@3.0.3 ws@8.23.0

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import WebSocket, { WebSocketServer } from "ws";
globalThis.WebSocket = WebSocket;
console.warn = console.error = () => {};
const { finalizeEvent } = await import("nostr-tools/pure");
const { SimplePool } = await import("nostr-tools/pool");
const { NRelay1 } = await import("@nostrify/nostrify");
const { createRxNostr, createRxBackwardReq } = await import("rx-nostr");
const { NostrFetcher } = await import("nostr-fetch");
const { Relay } = await import("applesauce-relay");
const { default: NDK } = await import("@nostr-dev-kit/ndk");

const key = new Uint8Array(32).fill(1);
const note = finalizeEvent({ kind: 1, created_at: 1_700_000_000, tags: [], content: "one of many" }, key);
const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
await new Promise((resolve) => server.on("listening", resolve));
server.on("connection", (socket) =>
  socket.on("message", (text) => {
    const [verb, id] = JSON.parse(text);
    if (verb !== "REQ") return;
    socket.send(JSON.stringify(["EVENT", id, note]));
    socket.send(JSON.stringify(["CLOSED", id, "rate-limited: later"]));
  }),
);
const url = `ws://127.0.0.1:${server.address().port}`;
const filter = { kinds: [1] };
const collect = (observable) =>
  new Promise((resolve, reject) => {
    let count = 0;
    observable.subscribe({ next: () => (count += 1), complete: () => resolve({ length: count }), error: reject });
  });
const calls = {
  "nostr-tools": () => new SimplePool().querySync([url], filter),
  "@nostrify/nostrify": () => new NRelay1(url).query([filter]),
  "rx-nostr": () => {
    const client = createRxNostr({ verifier: async () => true, skipFetchNip11: true, websocketCtor: WebSocket });
    client.setDefaultRelays([url]);
    const request = createRxBackwardReq();
    const answer = collect(client.use(request));
    request.emit(filter);
    request.over();
    return answer;
  },
  "nostr-fetch": () => NostrFetcher.init().fetchAllEvents([url], filter, { since: 1_700_000_000 }),
  "applesauce-relay": () => collect(new Relay(url).request(filter)),
  "@nostr-dev-kit/ndk": async () => {
    const ndk = new NDK({ explicitRelayUrls: [url] });
    await ndk.connect(2000);
    return { length: (await ndk.fetchEvents(filter)).size };
  },
};
const pending = () => new Promise((resolve) => setTimeout(resolve, 5000, "still pending"));
for (const [name, call] of Object.entries(calls)) {
  const version = JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version;
  const end = call().then((events) => `success with ${events.length}`, (error) => `failure: ${error.message}`);
  console.log(name, version, await Promise.race([end, pending()]));
}
process.exit(0);
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2 success with 1
@nostrify/nostrify 0.54.1 success with 1
rx-nostr 3.7.5 success with 1
nostr-fetch 0.17.0 success with 1
applesauce-relay 6.2.1 failure: rate-limited: later
@nostr-dev-kit/ndk 3.0.3 still pending
EOF
echo "as recorded"
