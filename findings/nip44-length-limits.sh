#!/usr/bin/env bash
# The longest plaintext of NIP-44 differs by library, in both directions.
#
# Expected: version 2 of NIP-44 carries 1 to 65535 bytes, and its padding is fixed, so two libraries agree on every
# length.
# Seen: nostr-sdk encrypts up to 65408 bytes and calls the last 127 lengths too long, yet decrypts them. nostr-tools
# goes on beyond 65535 bytes with a longer length prefix, which nostr-sdk refuses. Such a message is base64 of more than
# 87472 characters, inside of a gift wrap even once more: a relay's bound on content that was derived from NIP-44
# refuses it.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-tools@2.25.2
python3 -m venv venv
venv/bin/pip install -q nostr-sdk==0.45.1

cat > probe.mjs <<'EOF'
import { nip44, getPublicKey } from "nostr-tools";

const shared = nip44.getConversationKey(new Uint8Array(32).fill(1), getPublicKey(new Uint8Array(32).fill(2)));
for (const length of [65408, 65409, 65535, 65536, 100_000]) {
  console.log(length, nip44.encrypt("a".repeat(length), shared));
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
node probe.mjs | venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2 nostr-sdk 0.45.1
65408 bytes: nostr-tools writes 87472 | nostr-sdk writes: yes | reads that: True
65409 bytes: nostr-tools writes 87472 | nostr-sdk writes: 'message too long' | reads that: True
65535 bytes: nostr-tools writes 87472 | nostr-sdk writes: 'message too long' | reads that: True
65536 bytes: nostr-tools writes 87476 | nostr-sdk writes: 'message too long' | reads that: 'message too long'
100000 bytes: nostr-tools writes 153012 | nostr-sdk writes: 'message too long' | reads that: 'message too long'
EOF
echo "as recorded"
