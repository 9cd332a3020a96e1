#!/usr/bin/env bash
# An `naddr` of a long `d` tag: nostr-tools encodes what it cannot decode.
#
# Expected: a `d` tag is any text. NIP-19 gives the length of a value one byte, so a `d` tag of more than 255 bytes has
# no `naddr`, and a library says so, as nostr-sdk does.
# Seen: nostr-tools keeps the lowest eight bits of the length and writes all bytes behind it. The result has a valid
# checksum, and people can paste it. A decoder takes the rest of the text for the next record. nostr-tools then throws
# or, when the text happens to hold something like records, gives an address without any sign of damage. The same goes
# for the address of a relay.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-tools@2.25.2
python3 -m venv venv
venv/bin/pip install -q nostr-sdk==0.45.1

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { nip19 } from "nostr-tools";

const version = JSON.parse(readFileSync("node_modules/nostr-tools/package.json")).version;
console.log("nostr-tools", version);
const pubkey = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798";
const trip = (name, address) => {
  const text = nip19.naddrEncode({ pubkey, kind: 30023, relays: [], ...address });
  try {
    const { data } = nip19.decode(text);
    console.log(name, "-> d of", data.identifier.length, "bytes, relays", JSON.stringify(data.relays));
  } catch (error) {
    console.log(name, "-> throws:", error.message);
  }
};
trip("d of 255 bytes", { identifier: "d".repeat(255) });
trip("d of 300 bytes", { identifier: "d".repeat(300) });
trip("d of 256 tildes", { identifier: "~".repeat(256) });
trip("relay of 300 bytes", { identifier: "x", relays: ["wss://relay.example/" + "r".repeat(280)] });
EOF
cat > probe.py <<'EOF'
import importlib.metadata
from nostr_sdk import Coordinate, Keys, Kind, Nip19Coordinate

print("nostr-sdk", importlib.metadata.version("nostr-sdk"))
key = Keys.parse("01" * 32).public_key()
try:
    print(Nip19Coordinate(Coordinate(Kind(30023), key, "d" * 300), []).to_bech32())
except Exception as error:
    print("d of 300 bytes ->", error)
EOF
{ node probe.mjs; venv/bin/python probe.py; } | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2
d of 255 bytes -> d of 255 bytes, relays []
d of 300 bytes -> throws: not enough data to read on TLV 100
d of 256 tildes -> d of 0 bytes, relays []
relay of 300 bytes -> throws: not enough data to read on TLV 114
nostr-sdk 0.45.1
d of 300 bytes -> 'TLV value too long'
EOF
echo "as recorded"
