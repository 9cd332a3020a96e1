#!/usr/bin/env bash
# A private message to two people: nostr-tools sends each a message of a room of two, and keeps no trace of them.
#
# Expected: by NIP-17 the author and the `p` tags of the inner message are the room. `wrapManyEvents` makes one message
# with all receivers as `p` tags, and a gift wrap of it for each of them and for the sender.
# Seen: it makes a message for each gift wrap, whose only `p` tag is the owner of the wrap. Bob and Carol do not learn
# of each other and answer Alice alone. Alice's copy names Alice: read on another device, all that she sent is a note to
# herself, and nothing tells to whom it went. The ids differ too: a reaction to one message is unknown to the others.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-tools@2.25.2

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { getPublicKey } from "nostr-tools/pure";
import { unwrapEvent, wrapManyEvents } from "nostr-tools/nip17";

console.log("nostr-tools", JSON.parse(readFileSync("node_modules/nostr-tools/package.json")).version);
const names = ["Alice", "Bob", "Carol"];
const secrets = names.map((_, index) => new Uint8Array(32).fill(index + 1));
const keys = secrets.map(getPublicKey);
const name = (key) => names[keys.indexOf(key)];
const receivers = keys.slice(1).map((publicKey) => ({ publicKey }));
const wraps = wrapManyEvents(secrets[0], receivers, "lunch at noon?");
const ids = new Set();
for (const wrap of wraps) {
  const owner = wrap.tags.find(([letter]) => letter === "p")[1];
  const message = unwrapEvent(wrap, secrets[keys.indexOf(owner)]);
  ids.add(message.id);
  const room = message.tags.filter(([letter]) => letter === "p").map(([, key]) => name(key));
  console.log(`${name(owner)} reads: from ${name(message.pubkey)} to ${room.join(", ")}`);
}
console.log("messages:", ids.size);
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2
Alice reads: from Alice to Alice
Bob reads: from Alice to Bob
Carol reads: from Alice to Carol
messages: 3
EOF
echo "as recorded"
