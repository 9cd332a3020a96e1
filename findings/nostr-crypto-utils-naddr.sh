#!/usr/bin/env bash
# Addresses of articles: nostr-crypto-utils writes an `naddr` that nobody reads, and reads others with a wrong author.
#
# Expected: in an `naddr` of NIP-19, entry 0 is the identifier, 2 the author, 3 the kind. Two libraries that implement
# NIP-19 read each other's addresses.
# Seen: it writes the author as entry 0 and the identifier as entry 4, which NIP-19 does not have, and reads that back.
# An address of another library is refused, unless its identifier has 32 bytes, as a hash or a title may: then these
# bytes are its `data`, where its own addresses have the author, and whoever looks up that author finds nothing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-crypto-utils@0.5.3 nostr-tools@2.25.2

cat > probe.cjs <<'EOF'
const { readFileSync } = require("node:fs");
const tools = require("nostr-tools/nip19");
const utils = require("nostr-crypto-utils").nip19;

for (const name of ["nostr-crypto-utils", "nostr-tools"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const pubkey = "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e";
const names = { [pubkey]: "the key", "612d7469746c652d6f662d7468697274792d74776f2d63686172616374657273": "the title" };
const name = (value) => names[value] ?? value;
const attempt = (title, read, address) => {
  try {
    console.log(`  ${title}:`, read(address));
  } catch (error) {
    console.log(`  ${title}: throws:`, error.message);
  }
};
const readByTools = (address) => {
  const { pubkey, identifier } = tools.decode(address).data;
  return `pubkey is ${name(pubkey)}, identifier is "${identifier}"`;
};
const readByUtils = (address) => {
  const { data, author, identifier } = utils.decode(address);
  return `data is ${name(data)}, author is ${name(author)}, identifier is "${identifier}"`;
};
for (const identifier of ["post", "a-title-of-thirty-two-characters"]) {
  console.log(identifier);
  const address = utils.naddrEncode(pubkey, 30023, identifier);
  attempt("utils reads its own", readByUtils, address);
  attempt("tools reads that", readByTools, address);
  const other = tools.naddrEncode({ identifier, pubkey, kind: 30023, relays: [] });
  attempt("tools reads its own", readByTools, other);
  attempt("utils reads that", readByUtils, other);
}
EOF
node probe.cjs | tee seen
diff - seen <<'EOF'
nostr-crypto-utils 0.5.3
nostr-tools 2.25.2
post
  utils reads its own: data is the key, author is undefined, identifier is "post"
  tools reads that: throws: missing TLV 2 for naddr
  tools reads its own: pubkey is the key, identifier is "post"
  utils reads that: throws: Invalid hex string length (expected 64)
a-title-of-thirty-two-characters
  utils reads its own: data is the key, author is undefined, identifier is "a-title-of-thirty-two-characters"
  tools reads that: throws: missing TLV 2 for naddr
  tools reads its own: pubkey is the key, identifier is "a-title-of-thirty-two-characters"
  utils reads that: data is the title, author is the key, identifier is "undefined"
EOF
echo "as recorded"
