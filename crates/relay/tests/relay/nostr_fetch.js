// The stored events that nostr-fetch gets, for nostr_fetch.rs.
//
//   node --eval "$(cat nostr_fetch.js)" <folder of the packages> <URL of the relay>
//
// Prints their ids as one array of JSON. nostr-fetch throws away messages that are not exactly as it expects them.
"use strict";
const path = require("path");
const [, packages, url] = process.argv;
globalThis.WebSocket = require(path.join(packages, "ws"));
const { NostrFetcher } = require(path.join(packages, "nostr-fetch"));

// Without an end of the stored events, the library would take what came so far for all of them.
const abortSubBeforeEoseTimeoutMs = 2 ** 31 - 1;

async function main() {
  const fetcher = NostrFetcher.init();
  const events = await fetcher.fetchAllEvents([url], { kinds: [1] }, { since: 0 }, { abortSubBeforeEoseTimeoutMs });
  console.log(JSON.stringify(events.map((event) => event.id)));
}

// Far longer than any answer takes.
setTimeout(() => (console.error("no end of the stored events"), process.exit(1)), 20_000);
main().then(
  () => process.exit(0),
  (error) => (console.error(error), process.exit(1)),
);
