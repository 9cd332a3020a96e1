#!/usr/bin/env bash
# Seed words: nostr-nsec-seedphrase makes another person of them than NIP-06 does.
#
# Expected: a library of seed phrases for Nostr keys derives the key of NIP-06, so that words written down in one client
# restore the same account in any other.
# Seen: the key is the SHA-256 of the entropy of the words, without BIP 39 and BIP 32. Whoever wrote down words in a
# client of this package and types them elsewhere, or the reverse, finds an empty account. Keep the nsec, not the words.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts \
  nostr-nsec-seedphrase@0.6.9 nostr-tools@2.25.2 esbuild@0.25.0

cat > probe.mjs <<'EOF'
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { mnemonicToEntropy } from "bip39";
import { privateKeyFromSeedWords } from "nostr-tools/nip06";
import { nsecEncode } from "nostr-tools/nip19";
import { seedPhraseToKeyPair } from "nostr-nsec-seedphrase";

async function main() {
  for (const name of ["nostr-nsec-seedphrase", "nostr-tools"]) {
    console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
  }
  const words = "leader monkey parrot ring guide accident before fence cannon height naive bean";
  console.log("NIP-06:               ", "nsec10allq0gjx7fddtzef0ax00mdps9t2kmtrldkyjfs8l5xruwvh2dq0lhhkp");
  console.log("nostr-tools:          ", nsecEncode(privateKeyFromSeedWords(words)));
  console.log("nostr-nsec-seedphrase:", (await seedPhraseToKeyPair(words)).nsec);
  const hash = createHash("sha256").update(Buffer.from(mnemonicToEntropy(words), "hex")).digest();
  console.log("hash of the entropy:  ", nsecEncode(hash));
}
main();
EOF
# The package's own imports have no extensions, so only a bundler can load it.
npx esbuild probe.mjs --bundle --platform=node --format=cjs --outfile=probe.cjs --log-level=error
node probe.cjs | tee seen
diff - seen <<'EOF'
nostr-nsec-seedphrase 0.6.9
nostr-tools 2.25.2
NIP-06:                nsec10allq0gjx7fddtzef0ax00mdps9t2kmtrldkyjfs8l5xruwvh2dq0lhhkp
nostr-tools:           nsec10allq0gjx7fddtzef0ax00mdps9t2kmtrldkyjfs8l5xruwvh2dq0lhhkp
nostr-nsec-seedphrase: nsec1cp0ujglluyx7v9knlfx7jf8gr9srvm5hvnz5fuu42u8ezzycx9tqpd4t0u
hash of the entropy:   nsec1cp0ujglluyx7v9knlfx7jf8gr9srvm5hvnz5fuu42u8ezzycx9tqpd4t0u
EOF
echo "as recorded"
