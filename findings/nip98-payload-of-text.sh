#!/usr/bin/env bash
# The `payload` tag of NIP-98: nostr-tools hashes something else than the body if the body is given as text.
#
# Expected: `payload` is the SHA-256 of the request body, and a body that is text already is hashed as it is sent.
# Seen: nostr-tools hashes the JSON encoding of its argument. An object gives the right hash for a body without spaces;
# text is put in quotes first. The hash is that of no body that anybody sends, and a server that checks it (NIP-86
# demands the tag) answers 401. The `method` tag keeps the letters of the caller: "post" stays "post".
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-tools@2.25.2

cat > probe.mjs <<'EOF'
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { nip98 } from "nostr-tools";
import { finalizeEvent } from "nostr-tools/pure";

console.log("nostr-tools", JSON.parse(readFileSync("node_modules/nostr-tools/package.json")).version);
const sha256 = (text) => createHash("sha256").update(text).digest("hex");
const key = new Uint8Array(32).fill(1);
const call = { method: "listbannedpubkeys", params: [] };
const tags = async (payload) => {
  const token = await nip98.getToken("http://127.0.0.1/", "post", (event) => finalizeEvent(event, key), true, payload);
  const event = JSON.parse(Buffer.from(token.replace("Nostr ", ""), "base64").toString());
  return Object.fromEntries(event.tags);
};
const body = JSON.stringify(call);
const ofText = await tags(body);
console.log("object: hash of the body", (await tags(call)).payload === sha256(body));
console.log("text: hash of the body", ofText.payload === sha256(body));
console.log("text: hash of the body in quotes", ofText.payload === sha256(JSON.stringify(body)));
console.log("method", ofText.method);
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2
object: hash of the body true
text: hash of the body false
text: hash of the body in quotes true
method post
EOF
echo "as recorded"
