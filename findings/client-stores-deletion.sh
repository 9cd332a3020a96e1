#!/usr/bin/env bash
# Deletions of NIP-09 in the stores of two client libraries: some leave the event, some lose it until it comes again.
#
# Expected: an `e` tag deletes the author's event of that id whatever its time; an `a` tag deletes the versions up to
# the time of the deletion, that second included (NIP-09). The order of arrival does not matter, since every relay sends
# in an order of its own. Of two versions of one second, the one with the lower id stays (NIP-01).
# Seen: welshman deletes only what is older than the deletion, so what is deleted in the second of its writing stays. It
# finds both versions of a second by `{}`, and the last to arrive by its kind. applesauce forgets the `e` tag of an
# article, so the next relay that sends the article brings it back; and an `a` tag that arrives late puts its earlier
# time in place of the later one. A program that deletes does well to name the address, and a later second.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  @welshman/net@0.8.15 @welshman/util@0.8.15 @welshman/lib@0.8.15 @noble/curves@1.9.7 ws@8.23.0 \
  applesauce-core@6.2.0 nostr-tools@2.25.2

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { Repository } from "@welshman/net";
import { EventStore } from "applesauce-core";
import { finalizeEvent, getPublicKey } from "nostr-tools/pure";

for (const name of ["@welshman/net", "applesauce-core"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const key = new Uint8Array(32).fill(1);
const event = (kind, seconds, tags, content) =>
  finalizeEvent({ kind, created_at: 1_700_000_000 + seconds, tags, content }, key);
const address = `30023:${getPublicKey(key)}:a`;
const note = event(1, 0, [], "note");
const article = (seconds, content = `article of ${seconds}`) => event(30023, seconds, [["d", "a"]], content);
const byId = ({ id }, seconds) => event(5, seconds, [["e", id]], "");
const byAddress = (seconds) => event(5, seconds, [["a", address]], "");
const versions = [article(0, "one"), article(0, "two")].sort((a, b) => (a.id < b.id ? -1 : 1));
const [lower, higher] = [{ ...versions[0], content: "lower id" }, { ...versions[1], content: "higher id" }];
const cases = {
  "note, deletion of the same second": [note, byId(note, 0)],
  "note, deletion a second later": [note, byId(note, 1)],
  "article, deletion by address of the same second": [article(0), byAddress(0)],
  "article, deletion by id": [article(0), byId(article(0), 1)],
  "article, deletion by id, the article again": [article(0), byId(article(0), 1), article(0)],
  "deletion by address of 200, article of 150": [byAddress(200), article(150)],
  "deletions by address of 200 and 100, article of 150": [byAddress(200), byAddress(100), article(150)],
  "two articles of one second, lower id first": [lower, higher],
  "two articles of one second, lower id last": [higher, lower],
};
const stores = {
  welshman: () => {
    const store = new Repository();
    return { add: (one) => store.publish(one), query: (filter) => store.query([filter]) };
  },
  applesauce: () => {
    const store = new EventStore({ verifyEvent: () => true });
    return { add: (one) => store.add(one), query: (filter) => store.getTimeline([filter]) };
  },
};
for (const [title, events] of Object.entries(cases)) {
  console.log(title);
  for (const [name, open] of Object.entries(stores)) {
    const store = open();
    for (const one of events) store.add({ ...one });
    const found = (filter) =>
      store.query(filter).filter(({ kind }) => kind !== 5).map(({ content }) => content).join(", ") || "nothing";
    console.log(`  ${name}: ${found({ kinds: [1, 30023] })}; with {}: ${found({})}`);
  }
}
process.exit(0);
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
@welshman/net 0.8.15
applesauce-core 6.2.0
note, deletion of the same second
  welshman: note; with {}: note
  applesauce: nothing; with {}: nothing
note, deletion a second later
  welshman: nothing; with {}: nothing
  applesauce: nothing; with {}: nothing
article, deletion by address of the same second
  welshman: article of 0; with {}: article of 0
  applesauce: nothing; with {}: nothing
article, deletion by id
  welshman: nothing; with {}: nothing
  applesauce: nothing; with {}: nothing
article, deletion by id, the article again
  welshman: nothing; with {}: nothing
  applesauce: article of 0; with {}: article of 0
deletion by address of 200, article of 150
  welshman: nothing; with {}: nothing
  applesauce: nothing; with {}: nothing
deletions by address of 200 and 100, article of 150
  welshman: nothing; with {}: nothing
  applesauce: article of 150; with {}: article of 150
two articles of one second, lower id first
  welshman: higher id; with {}: lower id, higher id
  applesauce: lower id; with {}: lower id
two articles of one second, lower id last
  welshman: lower id; with {}: higher id, lower id
  applesauce: lower id; with {}: lower id
EOF
echo "as recorded"
