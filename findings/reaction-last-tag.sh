#!/usr/bin/env bash
# A like of a reply: written by nostr-tools, applesauce reads it as a like of the first note of the thread.
#
# Expected: NIP-25 says that of several `e` and `p` tags of a reaction the last ones are the event that it is about, and
# its author. Libraries on both sides of a relay count a reaction for the same event.
# Seen: nostr-tools copies all `e` and `p` tags of the note, as the NIP once asked, and appends its own. applesauce
# takes the first of each: the reply gets no like, the note above it gets one too many, and that note's author is named
# as the one who was liked. A relay finds the reaction for each event of the thread, so counts by `#e` are too high as
# well. Whoever writes a reaction does best with a single `e` and `p` tag.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  nostr-tools@2.25.2 applesauce-common@6.2.0 applesauce-core@6.2.0

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { getReactionEventPointer } from "applesauce-common/helpers";
import { matchFilter } from "nostr-tools/filter";
import { finishReactionEvent, getReactedEventPointer } from "nostr-tools/nip25";
import { finalizeEvent, getPublicKey } from "nostr-tools/pure";

for (const name of ["nostr-tools", "applesauce-common"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const people = ["Alice", "Bob", "Carol"];
const secrets = Object.fromEntries(people.map((name, index) => [name, new Uint8Array(32).fill(index + 1)]));
const authors = Object.fromEntries(Object.entries(secrets).map(([name, secret]) => [getPublicKey(secret), name]));
const write = (name, tags, content) =>
  finalizeEvent({ kind: 1, created_at: 1_700_000_000, tags, content }, secrets[name]);
const note = write("Alice", [], "a question");
const reply = write("Bob", [["e", note.id, "", "root"], ["p", note.pubkey]], "an answer");
const like = finishReactionEvent({ created_at: 1_700_000_001 }, reply, secrets.Carol);
const names = { [note.id]: "the note", [reply.id]: "the reply" };
console.log("tags:", like.tags.map(([name, value]) => `${name} ${names[value] ?? authors[value]}`).join(", "));
for (const [reader, pointer] of [
  ["nostr-tools", getReactedEventPointer(like)],
  ["applesauce", getReactionEventPointer(like)],
]) {
  console.log(`${reader}: Carol likes ${names[pointer.id]} of ${authors[pointer.author]}`);
}
for (const event of [note, reply]) {
  console.log(`found for #e of ${names[event.id]}:`, matchFilter({ kinds: [7], "#e": [event.id] }, like));
}
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2
applesauce-common 6.2.0
tags: e the note, p Alice, e the reply, p Bob
nostr-tools: Carol likes the reply of Bob
applesauce: Carol likes the note of Alice
found for #e of the note: true
found for #e of the reply: true
EOF
echo "as recorded"
