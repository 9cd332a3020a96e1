// A client that reads its direct messages, for notices.rs.
//
//   node --eval "$(cat notices.js)" <folder of the packages> <URL of the relay> <JSON array of the relays that it reads>
//
// Prints its public key once it is subscribed, then each direct message as a line of JSON. Each filter that it reads from
// standard input is answered by a line with the newest event.
"use strict";
const path = require("path");
const readline = require("readline");
const [, packages, url, reads] = process.argv;
const load = (name) => require(path.join(packages, name));
const tools = load("nostr-tools/lib/cjs/index.js");
const { unwrapEvent } = load("nostr-tools/lib/cjs/nip59.js");
const { Relay, useWebSocketImplementation } = load("nostr-tools/lib/cjs/relay.js");
useWebSocketImplementation(load("ws"));

// By default stored events that take 4.4 s count as complete, and an event without an answer for as long as refused.
const PATIENCE_MS = 600_000;

const print = (value) => console.log(JSON.stringify(value));
const newest = (relay, filter) =>
  new Promise((resolve) => {
    let found = null;
    const subscription = relay.subscribe([filter], {
      onevent: (event) => (found = event),
      oneose: () => (resolve(found), subscription.close()),
    });
  });

async function main() {
  const secret = tools.generateSecretKey();
  const key = tools.getPublicKey(secret);
  const relay = await Relay.connect(url);
  relay.baseEoseTimeout = relay.publishTimeout = PATIENCE_MS;
  const created_at = Math.floor(Date.now() / 1000);
  const tags = JSON.parse(reads).map((name) => ["relay", name]);
  if (tags.length > 0) {
    await relay.publish(tools.finalizeEvent({ kind: 10050, created_at, tags, content: "" }, secret));
  }
  // The challenge comes with the connection, before the outcome of the event at the latest.
  while (!relay.challenge) await new Promise((resolve) => setTimeout(resolve, 10));
  await relay.auth(async (template) => tools.finalizeEvent(template, secret));
  relay.subscribe([{ kinds: [1059], "#p": [key] }], {
    onevent: (wrap) => print(unwrapEvent(wrap, secret)),
    oneose: () => console.log(key),
  });
  readline.createInterface({ input: process.stdin }).on("line", async (line) => print(await newest(relay, JSON.parse(line))));
}
main().catch((error) => (console.error(error), process.exit(1)));
