#!/usr/bin/env bash
# Private messages of the npm package @unicitylabs/nostr-js-sdk: nobody else can read them, and half come too early.
#
# Expected: a package that names NIP-04, NIP-44 and NIP-17 exchanges messages with others that do. A seal and a gift
# wrap carry a time up to two days in the past (NIP-59), because relays may refuse times ahead.
# Seen: its NIP-44 has the version byte 2, yet another derivation of keys (both public keys are the salt), nonces of 24
# bytes and the tag of Poly1305 instead of an HMAC; the published vectors give another conversation key, and its
# messages cannot be exchanged with nostr-tools in either direction. Its NIP-04 hashes the shared point, and it is not
# compatible either. Times are drawn from two days around now: a relay with a limit for times ahead refuses every other
# gift wrap. Kind 15 is its read receipt, where NIP-17 has a file.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @unicitylabs/nostr-js-sdk@0.6.0 nostr-tools@2.25.2

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { NIP04, NIP44, NostrKeyManager, createGiftWrap, createReadReceipt, unwrap } from "@unicitylabs/nostr-js-sdk";
import * as nip04 from "nostr-tools/nip04";
import * as nip44 from "nostr-tools/nip44";
import { getPublicKey } from "nostr-tools/pure";
import { bytesToHex, hexToBytes } from "nostr-tools/utils";

for (const name of ["@unicitylabs/nostr-js-sdk", "nostr-tools"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}

async function read(name, decrypt) {
  try {
    console.log(name, JSON.stringify(await decrypt()));
  } catch (error) {
    console.log(name, "not readable");
  }
}

// The first conversation key among the valid vectors of NIP-44.
const first = hexToBytes("315e59ff51cb9209768cf7da80791ddcaae56ac9775eb25b6dee1234bc5d2268");
const other = hexToBytes("c2f9d9948dc8c7c38321e4b85c8558872eafa0641cd269db76848a6073e69133");
const expected = "3dfef0ce2a4d80a25e7a328accf73448ef67096f65f79588e358d9a0eb9013f1";
for (const [name, key] of [
  ["nostr-tools", nip44.getConversationKey(first, bytesToHex(other))],
  ["the package", NIP44.deriveConversationKey(first, other)],
]) {
  console.log(`conversation key of ${name}:`, bytesToHex(key) === expected ? "as in NIP-44" : "another");
}

const [secret, peer] = ["1".repeat(64), "2".repeat(64)].map(hexToBytes);
const [author, receiver] = [secret, peer].map((key) => getPublicKey(key));
const key = nip44.getConversationKey(peer, author);
const message = NIP44.encrypt("hello", secret, hexToBytes(receiver));
const usual = nip44.encrypt("hello", key);
for (const [name, text] of [["the package", message], ["nostr-tools", usual]]) {
  const bytes = Buffer.from(text, "base64");
  console.log(`NIP-44 of ${name}: version ${bytes[0]}, ${bytes.length} bytes`);
}
await read("NIP-44, itself:", () => NIP44.decrypt(message, peer, hexToBytes(author)));
await read("NIP-44, package to nostr-tools:", () => nip44.decrypt(message, key));
await read("NIP-44, nostr-tools to package:", () => NIP44.decrypt(usual, peer, hexToBytes(author)));

const old = await NIP04.encrypt("hello", secret, hexToBytes(receiver));
await read("NIP-04, itself:", () => NIP04.decrypt(old, peer, hexToBytes(author)));
await read("NIP-04, package to nostr-tools:", () => nip04.decrypt(peer, author, old));
await read("NIP-04, nostr-tools to package:", () =>
  NIP04.decrypt(nip04.encrypt(secret, receiver, "hello"), peer, hexToBytes(author)));

const [sender, reader] = [secret, peer].map((bytes) => NostrKeyManager.fromPrivateKey(bytes));
const now = Math.floor(Date.now() / 1000);
let ahead = 0;
for (let index = 0; index < 100; index++) {
  if (createGiftWrap(sender, receiver, "hello").created_at > now + 3600) ahead++;
}
console.log("of 100 gift wraps more than an hour ahead:", ahead >= 25 && ahead <= 75 ? "about half" : ahead);
console.log("kind of a read receipt:", unwrap(createReadReceipt(sender, receiver, "0".repeat(64)), reader).kind);
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
@unicitylabs/nostr-js-sdk 0.6.0
nostr-tools 2.25.2
conversation key of nostr-tools: as in NIP-44
conversation key of the package: another
NIP-44 of the package: version 2, 75 bytes
NIP-44 of nostr-tools: version 2, 99 bytes
NIP-44, itself: "hello"
NIP-44, package to nostr-tools: not readable
NIP-44, nostr-tools to package: not readable
NIP-04, itself: "hello"
NIP-04, package to nostr-tools: not readable
NIP-04, nostr-tools to package: not readable
of 100 gift wraps more than an hour ahead: about half
kind of a read receipt: 15
EOF
echo "as recorded"
