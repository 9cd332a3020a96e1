// What nostr-tools does as an admin and as a member (NIP-43), for members.rs.
//
//   node --eval "$(cat members.js)" <folder of the packages> <URL of the relay>
//
// Prints what it saw as one object of JSON.
"use strict";
const path = require("path");
const [, packages, url] = process.argv;
const load = (name) => require(path.join(packages, name));
const tools = load("nostr-tools/lib/cjs/index.js");
const { Relay, useWebSocketImplementation } = load("nostr-tools/lib/cjs/relay.js");
useWebSocketImplementation(load("ws"));

const PATIENCE_MS = 600_000;
const connected = async (secret) => {
  const relay = Object.assign(await Relay.connect(url), { baseEoseTimeout: PATIENCE_MS, publishTimeout: PATIENCE_MS });
  // The challenge is a message of its own: the connection may be open before it comes.
  while (secret && !relay.challenge) await new Promise((resolve) => setTimeout(resolve, 10));
  if (secret) await relay.auth(async (template) => tools.finalizeEvent(template, secret));
  return relay;
};
const signed = (secret, kind, tags, content = "") =>
  tools.finalizeEvent({ kind, created_at: Math.floor(Date.now() / 1000), tags, content }, secret);

// The stored events of a filter, or why there are none.
const stored = (relay, filter) =>
  new Promise((resolve) => {
    const found = [];
    const subscription = relay.subscribe([filter], {
      onevent: (event) => found.push(event),
      oneose: () => (resolve(found), subscription.close()),
      onclose: (why) => resolve(why),
    });
  });

// An event of a filter, as soon as there is one.
const first = (relay, filter, isWanted) =>
  new Promise((resolve) => {
    const subscription = relay.subscribe([filter], {
      onevent: (event) => isWanted(event) && (resolve(event), subscription.close()),
    });
  });

async function main() {
  const admin = Uint8Array.from({ length: 32 }, (_, at) => (at === 31 ? 1 : 0));
  const newcomer = tools.generateSecretKey();
  const key = tools.getPublicKey(newcomer);
  const seen = {};
  seen.stranger = await stored(await connected(), { kinds: [1] });
  const [host, guest] = [await connected(admin), await connected(newcomer)];
  seen.outsider = await stored(guest, { kinds: [28935] }).then((why) => why);

  const [invite] = await stored(host, { kinds: [28935] });
  const code = invite.tags.find(([name]) => name === "claim")[1];
  seen.invite = [invite.kind, tools.verifyEvent(invite), code.length === 32];
  const join = [["-"], ["claim", code]];
  seen.joined = await guest.publish(signed(newcomer, 28934, join));
  seen.again = await guest.publish(signed(newcomer, 28934, join, "again"));

  const isListed = (event) => event.tags.some(([name, value]) => name === "member" && value === key);
  const list = await first(guest, { kinds: [13534] }, isListed);
  seen.list = [tools.verifyEvent(list), list.pubkey === invite.pubkey];
  const added = await first(guest, { kinds: [8000], "#p": [key] }, () => true);
  seen.added = [tools.verifyEvent(added), added.pubkey === invite.pubkey];
  seen.note = await guest.publish(signed(newcomer, 1, [], "a note"));
  seen.left = await guest.publish(signed(newcomer, 28936, [["-"]]));
  console.log(JSON.stringify(seen));
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
