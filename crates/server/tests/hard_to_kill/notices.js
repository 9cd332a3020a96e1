// A client that reads its direct messages, for notices.rs.
//
//   node --eval "$(cat notices.js)" <folder of the packages> <URL of the relay> <secret key in hexadecimal>
//
// Prints the text of each direct message as a line of JSON, null after those that the relay had stored, and ends with
// the connection.
"use strict";
const path = require("path");
const [, packages, url, hex] = process.argv;
const load = (name) => require(path.join(packages, name));
const tools = load("nostr-tools/lib/cjs/index.js");
const { unwrapEvent } = load("nostr-tools/lib/cjs/nip59.js");
const { Relay, useWebSocketImplementation } = load("nostr-tools/lib/cjs/relay.js");
useWebSocketImplementation(load("ws"));

const print = (value) => console.log(JSON.stringify(value));

async function main() {
  const secret = Uint8Array.from(Buffer.from(hex, "hex"));
  const key = tools.getPublicKey(secret);
  const relay = await Relay.connect(url);
  // By default it gives up a login that takes 4.4 s.
  relay.publishTimeout = 600000;
  relay.onclose = () => process.exit(0);
  while (!relay.challenge) await new Promise((resolve) => setTimeout(resolve, 10));
  await relay.auth(async (template) => tools.finalizeEvent(template, secret));
  relay.subscribe([{ kinds: [1059], "#p": [key] }], {
    onevent: (wrap) => print(unwrapEvent(wrap, secret).content),
    oneose: () => print(null),
    // By default it calls an answer that takes 4.4 s complete.
    eoseTimeout: 600000,
  });
}
main().catch((error) => (console.error(error), process.exit(1)));
