#!/usr/bin/env bash
# Connection URIs of NIP-46: nostr-sdk refuses the example of the specification, and cannot read what it writes.
#
# Expected: `nostrconnect://` carries relay, secret, perms and name as parameters of a query, percent-encoded as in the
# example of NIP-46. A URI that a library reads and writes again is the same connection.
# Seen: nostr-sdk asks for a parameter `metadata` of JSON, which the NIP does not have, so it refuses the example and
# the URIs of two other libraries. It writes URIs without encoding: a secret with a plus sign (as in base64) is read
# with a space, a relay with two parameters loses the second, and a `#` in a name ends the URI. Whoever stores the text
# of a connection, or shows it as a QR code, then waits for another secret.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  nostr-tools@2.25.2 applesauce-signers@6.2.2 applesauce-core@6.2.0
python3 -m venv venv
venv/bin/pip install -q nostr-sdk==0.45.1

cat > write.mjs <<'EOF'
import { createNostrConnectURI, toBunkerURL } from "nostr-tools/nip46";
import { Helpers } from "applesauce-signers";

const pubkey = "83f3b2ae6aa368e8275397b9c26cf550101d63ebaab900d19dd4a4429f5ad8f5";
const [relays, secret, name] = [["wss://relay.example/?key=abc&a=1"], "q+8/Zg", "Notes"];
const old = (name) =>
  `nostrconnect://${pubkey}?relay=wss%3A%2F%2Frelay.example&secret=0s8j2djs&` +
  `metadata=${encodeURIComponent(JSON.stringify({ name }))}`;
const uris = {
  "example of NIP-46":
    `nostrconnect://${pubkey}?relay=wss%3A%2F%2Frelay1.example.com&perms=nip44_encrypt%2Cnip44_decrypt%2C` +
    "sign_event%3A13%2Csign_event%3A14%2Csign_event%3A1059&name=My+Client&secret=0s8j2djs&" +
    "relay=wss%3A%2F%2Frelay2.example2.com",
  "from nostr-tools": createNostrConnectURI({ clientPubkey: pubkey, relays, secret, name }),
  "from applesauce": Helpers.createNostrConnectURI({ client: pubkey, relays, secret, metadata: { name } }),
  "name in metadata": old("Notes"),
  "name with #": old("Notes #1"),
  "bunker from nostr-tools": toBunkerURL({ pubkey, relays, secret }),
};
console.log(JSON.stringify(uris));
EOF
cat > sdk.py <<'EOF'
import importlib.metadata, json
from nostr_sdk import NostrConnectUri


def written(uri):
    try:
        return str(NostrConnectUri.parse(uri))
    except Exception as error:
        return f"error: {error}"


uris = json.load(open("uris.json"))
once = {name: written(uri) for name, uri in uris.items()}
answers = {name: [uri, written(uri)] for name, uri in once.items()}
json.dump({"version": importlib.metadata.version("nostr-sdk"), "answers": answers}, open("answers.json", "w"))
EOF
cat > show.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { Helpers } from "applesauce-signers";

const json = (file) => JSON.parse(readFileSync(file));
for (const name of ["nostr-tools", "applesauce-signers"]) {
  console.log(name, json(`node_modules/${name}/package.json`).version);
}
const { version, answers } = json("answers.json");
console.log("nostr-sdk", version);
const parts = (uri) => {
  if (uri.startsWith("error")) return { error: uri };
  try {
    return uri.startsWith("bunker") ? Helpers.parseBunkerURI(uri) : Helpers.parseNostrConnectURI(uri);
  } catch (error) {
    return { error: `applesauce: ${error.message}` };
  }
};
const show = (writer, uri) => {
  const { relays, secret, metadata, error } = parts(uri);
  console.log(`  ${writer}:`, error ?? `${relays} secret "${secret}" name ${metadata?.name}`);
};
for (const [title, uri] of Object.entries(json("uris.json"))) {
  console.log(title);
  show("given", uri);
  show("nostr-sdk writes", answers[title][0]);
  if (!answers[title][0].startsWith("error")) show("and again", answers[title][1]);
}
EOF
node write.mjs >uris.json
venv/bin/python sdk.py
node show.mjs | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2
applesauce-signers 6.2.2
nostr-sdk 0.45.1
example of NIP-46
  given: wss://relay1.example.com,wss://relay2.example2.com secret "0s8j2djs" name My Client
  nostr-sdk writes: error: 'invalid URI'
from nostr-tools
  given: wss://relay.example/?key=abc&a=1 secret "q+8/Zg" name Notes
  nostr-sdk writes: error: 'invalid URI'
from applesauce
  given: wss://relay.example/?key=abc&a=1 secret "q+8/Zg" name Notes
  nostr-sdk writes: error: 'invalid URI'
name in metadata
  given: wss://relay.example secret "0s8j2djs" name undefined
  nostr-sdk writes: wss://relay.example secret "0s8j2djs" name undefined
  and again: wss://relay.example secret "0s8j2djs" name undefined
name with #
  given: wss://relay.example secret "0s8j2djs" name undefined
  nostr-sdk writes: applesauce: Invalid nostrconnect URI: missing secret
  and again: error: 'EOF while parsing a string at line 1 column 15'
bunker from nostr-tools
  given: wss://relay.example/?key=abc&a=1 secret "q+8/Zg" name undefined
  nostr-sdk writes: wss://relay.example/?key=abc secret "q 8/Zg" name undefined
  and again: wss://relay.example/?key=abc secret "q 8/Zg" name undefined
EOF
echo "as recorded"
