// What NDK's sync gets from a relay with an array of filters, for ndk.rs.
//
//   node --eval "$(cat ndk.js)" <folder of the packages> <URL of the relay>
//
// Prints the ids that it needs and those of the events that it fetched, as one object of JSON.
"use strict";
const path = require("path");
const [, packages, url] = process.argv;
const load = (name) => require(path.join(packages, name));
global.WebSocket = load("ws");
const NDK = load("@nostr-dev-kit/ndk").default;
const { NDKSync } = load("@nostr-dev-kit/sync");

// An empty cache: NDK syncs into one.
const cacheAdapter = { locking: false, query: () => [], setEvent: async () => {} };

(async () => {
  // No outbox model: it would wait for relays of the internet.
  const ndk = new NDK({ explicitRelayUrls: [url], cacheAdapter, enableOutboxModel: false });
  // After this time it goes on without a connection.
  await ndk.connect(600_000);
  const failures = [];
  const onRelayError = (_, error) => failures.push(String(error));
  const { need, events } = await NDKSync.sync(ndk, [{ kinds: [1] }, { kinds: [1, 7] }], { onRelayError });
  const seen = { need: [...need].sort(), events: events.map((event) => event.id).sort(), failures };
  process.stdout.write(JSON.stringify(seen), () => process.exit(0));
})().catch((error) => (console.error(error), process.exit(1)));
