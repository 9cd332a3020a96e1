#!/usr/bin/env bash
# A store in the browser, asked with filters of NIP-01: limits add up wrongly, and an old profile stays.
#
# Expected: nostr-idb takes the filters of a REQ. Several filters are joined by "or", each with a `limit` of its own;
# all conditions of one filter hold together; of a replaceable event the newest version is found.
# Seen: the lowest `limit` of all filters cuts the joined answer, so "the profile, and the last five notes" gives one
# event, and not the profile. With `ids`, every other condition is ignored. `{}` throws. A profile that is replaced
# while the page is open is found in its old version by `query`, and in its new one by `replaceable`. So a client that
# asks this cache in place of a relay sees less, or older, than the relay would send.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  nostr-idb@5.1.0 nostr-tools@2.25.2 fake-indexeddb@6.2.8

cat > probe.mjs <<'EOF'
import "fake-indexeddb/auto";
import { readFileSync } from "node:fs";
import { NostrIDB, openDB } from "nostr-idb";
import { finalizeEvent } from "nostr-tools/pure";

for (const name of ["nostr-idb", "fake-indexeddb"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const key = new Uint8Array(32).fill(1);
const event = (kind, seconds, content) =>
  finalizeEvent({ kind, created_at: 1_700_000_000 + seconds, tags: [], content }, key);
const profile = event(0, 0, "profile");
const notes = [1, 2, 3, 4, 5].map((n) => event(1, n, `note ${n}`));
const database = new NostrIDB(await openDB("events"));
const store = async (...events) => {
  for (const one of events) await database.add(one);
  for (const { id, kind } of events) {
    const written = () => (kind === 0 ? database.replaceable(0, profile.pubkey) : database.event(id));
    while ((await written())?.id !== id) await new Promise((resolve) => setTimeout(resolve, 20));
  }
};
const names = (events) => events.map(({ content }) => content).join(", ") || "nothing";
const ask = async (...filters) => {
  const answer = await database.query(filters).then(names, (error) => `error: ${error.message}`);
  console.log(JSON.stringify(filters).replaceAll(notes[0].id, "NOTE 1"), "->", answer);
};
await store(profile, ...notes);
await ask({ kinds: [0], limit: 1 });
await ask({ kinds: [1], limit: 5 });
await ask({ kinds: [0], limit: 1 }, { kinds: [1], limit: 5 });
await ask({ ids: [notes[0].id], kinds: [7] });
await ask({ kinds: [1], limit: 0 });
await ask({});
await store(event(0, 100, "new profile"));
console.log("after a new profile");
await ask({ kinds: [0] });
console.log("replaceable ->", names([await database.replaceable(0, profile.pubkey)]));
process.exit(0);
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
nostr-idb 5.1.0
fake-indexeddb 6.2.8
[{"kinds":[0],"limit":1}] -> profile
[{"kinds":[1],"limit":5}] -> note 5, note 4, note 3, note 2, note 1
[{"kinds":[0],"limit":1},{"kinds":[1],"limit":5}] -> note 5
[{"ids":["NOTE 1"],"kinds":[7]}] -> note 1
[{"kinds":[1],"limit":0}] -> note 5, note 4, note 3, note 2, note 1
[{}] -> error: Empty filter
after a new profile
[{"kinds":[0]}] -> profile
replaceable -> new profile
EOF
echo "as recorded"
