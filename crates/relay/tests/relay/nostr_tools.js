// What nostr-tools publishes, hears, counts, deletes and syncs, for nostr_tools.rs.
//
//   node --eval "$(cat nostr_tools.js)" <folder of the packages> <URL of the relay>
//
// Prints what it saw as one object of JSON.
"use strict";
const path = require("path");
const [, packages, url] = process.argv;
const load = (name) => require(path.join(packages, name));
const tools = load("nostr-tools/lib/cjs/index.js");
const { Relay, useWebSocketImplementation } = load("nostr-tools/lib/cjs/relay.js");
useWebSocketImplementation(load("ws"));
const { NegentropyStorageVector, NegentropySync } = load("nostr-tools/lib/cjs/nip77.js");

// By default stored events that take 4.4 s count as complete, and an event without an answer for as long as refused.
const PATIENCE_MS = 600_000;
const connected = async () =>
  Object.assign(await Relay.connect(url), { baseEoseTimeout: PATIENCE_MS, publishTimeout: PATIENCE_MS });

const seconds = Math.floor(Date.now() / 1000);
const signed = (secret, kind, content, tags = []) =>
  tools.finalizeEvent({ kind, created_at: seconds, tags, content }, secret);

// The contents of stored events, or why there are none.
const stored = (relay, filter, what = (event) => event.content) =>
  new Promise((resolve) => {
    const found = [];
    const subscription = relay.subscribe([filter], {
      onevent: (event) => found.push(what(event)),
      oneose: () => (resolve(found), subscription.close()),
      onclose: (why) => resolve(why),
    });
  });

// Which events of a filter only we have, and which only the relay has.
const compared = (relay, filter, own) =>
  new Promise((resolve, reject) => {
    const storage = new NegentropyStorageVector();
    own.forEach((event) => storage.insert(event.created_at, event.id));
    storage.seal();
    const found = { ours: [], theirs: [] };
    const sync = new NegentropySync(relay, storage, filter, {
      onhave: (id) => found.ours.push(id),
      onneed: (id) => found.theirs.push(id),
      onclose: (why) => (why ? reject(why) : resolve(found)),
    });
    sync.start();
  });

async function main() {
  const [alice, bob] = [tools.generateSecretKey(), tools.generateSecretKey()];
  const person = tools.getPublicKey(bob);
  const [writer, reader] = [await connected(), await connected()];
  const seen = {};

  let isLive, hear;
  const live = new Promise((resolve) => (isLive = resolve));
  const told = new Promise((resolve) => (hear = resolve));
  const follows = [{ kinds: [1], authors: [tools.getPublicKey(alice)] }];
  reader.subscribe(follows, { oneose: isLive, onevent: (event) => hear(event.content) });
  await live;
  const note = signed(alice, 1, "a note", [["t", "birds"]]);
  seen.published = await writer.publish(note);
  seen.told = await told;
  seen.stored = await stored(reader, { "#t": ["birds"] });
  seen.counted = await reader.count([{ kinds: [1] }], {});

  await writer.publish(signed(alice, 4, "a secret", [["p", person]]));
  const letters = { kinds: [4], "#p": [person] };
  seen.stranger = await stored(reader, letters);
  await reader.auth(async (template) => tools.finalizeEvent(template, bob));
  seen.recipient = await stored(reader, letters);

  // Seal and gift wrap encrypt it twice: contents of 131 168 and 153 012 characters.
  const lengths = [60_000, 65_535];
  const wraps = lengths.map((length) =>
    tools.nip59.wrapEvent({ kind: 14, tags: [["p", person]], content: "a".repeat(length) }, alice, person),
  );
  seen.wraps = wraps.map((wrap) => wrap.content.length);
  for (const wrap of wraps) await writer.publish(wrap);
  seen.messages = (await stored(reader, { kinds: [1059], "#p": [person] }, (wrap) => wrap))
    .map((wrap) => tools.nip59.unwrapEvent(wrap, bob).content.length)
    .sort();

  // A request to a signer that is not there (NIP-46): a library takes OK false as a failure.
  const request = signed(alice, 24133, "encrypted", [["p", person]]);
  seen.request = await writer.publish(request).catch((error) => `failed: ${error.message}`);

  const own = signed(bob, 1, "mine alone", [["-"]]);
  seen.protected = await writer.publish(own).catch((error) => error.message);
  seen.author = await reader.publish(own);

  const deletion = signed(alice, 5, "", [["e", note.id]]);
  await writer.publish(deletion);
  seen.deleted = await stored(reader, { "#t": ["birds"] });
  seen.again = await writer.publish(note).catch((error) => error.message);
  const { ours, theirs } = await compared(reader, { kinds: [1, 5] }, [note, own]);
  seen.ours = ours.map((id) => id === note.id);
  seen.theirs = theirs.map((id) => id === deletion.id);
  console.log(JSON.stringify(seen));
}

main().then(
  () => process.exit(0),
  (error) => (console.error(error), process.exit(1)),
);
