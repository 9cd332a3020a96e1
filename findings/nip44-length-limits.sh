#!/usr/bin/env bash
# The longest plaintext of NIP-44: nostr-sdk stops at 65408 bytes, nostr-tools does not stop.
#
# Expected: version 2 of NIP-44 says how every length is padded, since 2026 beyond 65535 bytes too (with a longer length
# prefix), so two libraries agree on what they write; at least up to 65535 bytes, which all of its versions have.
# Seen: nostr-sdk encrypts up to 65408 bytes and calls the next 127 lengths too long, yet decrypts them. Beyond 65535
# bytes nostr-tools writes what nostr-sdk cannot read. It does so for an ordinary direct message of 60 kB: seal and wrap
# encrypt twice, and the gift wrap has 131168 characters of content, 96 more than a relay's round bound of 128 KiB.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-tools@2.25.2
python3 -m venv venv
venv/bin/pip install -q nostr-sdk==0.45.1

cat > probe.mjs <<'EOF'
import { nip44, nip59, getPublicKey } from "nostr-tools";

const own = new Uint8Array(32).fill(1);
const peer = getPublicKey(new Uint8Array(32).fill(2));
const shared = nip44.getConversationKey(own, peer);
for (const length of [65408, 65409, 65535, 65536, 100_000]) {
  console.log(length, nip44.encrypt("a".repeat(length), shared));
}
for (const length of [40_000, 60_000]) {
  const message = { kind: 14, created_at: 1_700_000_000, tags: [["p", peer]], content: "a".repeat(length) };
  const wrap = nip59.wrapEvent(message, own, peer);
  console.error(`nostr-tools: message of ${length} bytes, gift wrap of ${wrap.content.length}`);
}
EOF
cat > probe.py <<'EOF'
import importlib.metadata, json, sys
from nostr_sdk import Keys, Nip44Version, nip44_decrypt, nip44_encrypt

version = json.load(open("node_modules/nostr-tools/package.json"))["version"]
print("nostr-tools", version, "nostr-sdk", importlib.metadata.version("nostr-sdk"))
secret, peer = Keys.parse("01" * 32).secret_key(), Keys.parse("02" * 32).public_key()
for line in sys.stdin:
    length, payload = line.split()
    try:
        nip44_encrypt(secret, peer, "a" * int(length), Nip44Version.V2)
        writes = "yes"
    except Exception as error:
        writes = str(error)
    try:
        reads = len(nip44_decrypt(secret, peer, payload)) == int(length)
    except Exception as error:
        reads = str(error)
    print(length, "bytes: nostr-tools writes", len(payload), "| nostr-sdk writes:", writes, "| reads that:", reads)
EOF
node probe.mjs 2>wraps >payloads
{ venv/bin/python probe.py <payloads; cat wraps; } | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2 nostr-sdk 0.45.1
65408 bytes: nostr-tools writes 87472 | nostr-sdk writes: yes | reads that: True
65409 bytes: nostr-tools writes 87472 | nostr-sdk writes: 'message too long' | reads that: True
65535 bytes: nostr-tools writes 87472 | nostr-sdk writes: 'message too long' | reads that: True
65536 bytes: nostr-tools writes 87476 | nostr-sdk writes: 'message too long' | reads that: 'message too long'
100000 bytes: nostr-tools writes 153012 | nostr-sdk writes: 'message too long' | reads that: 'message too long'
nostr-tools: message of 40000 bytes, gift wrap of 76548
nostr-tools: message of 60000 bytes, gift wrap of 131168
EOF
echo "as recorded"
