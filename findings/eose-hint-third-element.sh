#!/usr/bin/env bash
# NIP-67's hint in EOSE: three client libraries do not see the end of the stored events any more.
#
# Expected: NIP-67 puts a list such as ["finish"] behind the subscription id of EOSE, and says that older clients
# ignore it, because they read a message by position.
# Seen: five of eight libraries do. nostrify (by its schema) and nostr-fetch ("malformed") throw the whole message away,
# and nostr-relaypool ignores it in silence: the query of each stays open, as if the relay never had answered. Where a
# library has a timeout, every request takes that long.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  nostr-tools@2.25.2 @nostr-dev-kit/ndk@3.0.3 rx-nostr@3.7.5 applesauce-relay@6.2.1 \
  @nostrify/nostrify@0.54.1 nostr-fetch@0.17.0 nostr-relaypool@0.6.30 ws@8.23.0
python3 -m venv venv
venv/bin/pip install -q nostr-sdk==0.45.1

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import WebSocket, { WebSocketServer } from "ws";
globalThis.WebSocket = WebSocket;
console.warn = console.error = () => {};
const { SimplePool } = await import("nostr-tools/pool");
const { default: NDK } = await import("@nostr-dev-kit/ndk");
const { createRxNostr, createRxBackwardReq } = await import("rx-nostr");
const { Relay } = await import("applesauce-relay");
const { NRelay1 } = await import("@nostrify/nostrify");
const { NostrFetcher } = await import("nostr-fetch");
const { RelayPool } = await import("nostr-relaypool");

const serve = async (...hint) => {
  const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
  await new Promise((resolve) => server.on("listening", resolve));
  server.on("connection", (socket) =>
    socket.on("message", (text) => {
      const [verb, id] = JSON.parse(text);
      if (verb === "REQ") socket.send(JSON.stringify(["EOSE", id, ...hint]));
    }),
  );
  return `ws://127.0.0.1:${server.address().port}`;
};
const filter = { kinds: [1] };
const complete = (observable) =>
  new Promise((resolve, reject) => observable.subscribe({ complete: resolve, error: reject }));
// Each resolves at the end of the stored events. nostr-tools gives up by itself after 4.4 seconds, hence the bound.
const queries = {
  "nostr-tools": (url) => new SimplePool().querySync([url], filter),
  "@nostr-dev-kit/ndk": async (url) => {
    const ndk = new NDK({ explicitRelayUrls: [url] });
    await ndk.connect(1000);
    return ndk.fetchEvents(filter);
  },
  "rx-nostr": (url) => {
    const client = createRxNostr({ verifier: async () => true, skipFetchNip11: true, websocketCtor: WebSocket });
    client.setDefaultRelays([url]);
    const request = createRxBackwardReq();
    const end = complete(client.use(request));
    request.emit(filter);
    request.over();
    return end;
  },
  "applesauce-relay": (url) => complete(new Relay(url).request(filter)),
  "@nostrify/nostrify": (url) => new NRelay1(url).query([filter]),
  "nostr-fetch": (url) => NostrFetcher.init().fetchAllEvents([url], filter, { since: 0 }),
  "nostr-relaypool": (url) =>
    new Promise((resolve) => new RelayPool([url]).subscribe([filter], [url], () => {}, undefined, resolve)),
};
const bound = () => new Promise((resolve) => setTimeout(resolve, 4000, "no end within 4 s"));
const plain = await serve();
const hinted = await serve(["finish"]);
for (const [name, query] of Object.entries(queries)) {
  const version = JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version;
  const end = (url) => Promise.race([query(url).then(() => "end seen"), bound()]);
  console.log(`${name} ${version}: EOSE ${await end(plain)}, EOSE with hint ${await end(hinted)}`);
}
process.exit(0);
EOF
cat > probe.py <<'EOF'
import importlib.metadata
from nostr_sdk import RelayMessage

parsed = RelayMessage.from_json('["EOSE","q",["finish"]]').as_json()
print("nostr-sdk", importlib.metadata.version("nostr-sdk") + ": EOSE with hint read as", parsed)
EOF
{ node probe.mjs; venv/bin/python probe.py; } | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2: EOSE end seen, EOSE with hint end seen
@nostr-dev-kit/ndk 3.0.3: EOSE end seen, EOSE with hint end seen
rx-nostr 3.7.5: EOSE end seen, EOSE with hint end seen
applesauce-relay 6.2.1: EOSE end seen, EOSE with hint end seen
@nostrify/nostrify 0.54.1: EOSE end seen, EOSE with hint no end within 4 s
nostr-fetch 0.17.0: EOSE end seen, EOSE with hint no end within 4 s
nostr-relaypool 0.6.30: EOSE end seen, EOSE with hint no end within 4 s
nostr-sdk 0.45.1: EOSE with hint read as ["EOSE","q"]
EOF
echo "as recorded"
