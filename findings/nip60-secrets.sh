#!/usr/bin/env bash
# A Cashu wallet on relays (NIP-60): sixty-nuts changes the secrets and the unit of what another client stored there.
#
# Expected: by NIP-60 a wallet follows its owner from client to client: a token event holds proofs "in the default
# cashu format", in which the secret is a text (NUT-00 recommends 64 hex digits) that the mint gets as it stands, and
# `unit` behind `mint` says what the amounts are, satoshis if it is missing.
# Seen: the Python package writes hex digits as base64, and reads every text as base64, whatever it is: 64 hex digits
# are valid base64 too. In both directions the secret becomes another one, to which the mint's signature does not
# belong, so the money cannot be spent there, and nothing says so before the mint refuses it. The unit is neither
# written nor read where it belongs: two dollar cents are two satoshis. Secrets that are JSON (P2PK) stay whole.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q sixty-nuts==0.1.4
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  applesauce-wallet@6.2.0 applesauce-core@6.2.0 applesauce-common@6.2.0 @cashu/cashu-ts@4.8.0 nostr-tools@2.25.2

cat > proofs.json <<'EOF'
[{ "id": "009a1f293253e41e", "amount": 2,
   "secret": "407915bc212be61a77e3e6d2aeb4c727980bda51cd06a6afc29e2861768a7837",
   "C": "02bc9097997d81afb2cc7346b5e4345a9346bd2a506eb7958598a72f0cf85163ea" },
 { "id": "009a1f293253e41e", "amount": 8,
   "secret": "[\"P2PK\",{\"nonce\":\"b00bdd0467b0\",\"data\":\"02eaee89\"}]",
   "C": "029e8e5050b890a7d6c0968db16bc1d5d5fa040ea1de284f6ec69d61299f671059" }]
EOF
cat > signer.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { finalizeEvent, getPublicKey, nip44 } from "nostr-tools";

const key = new Uint8Array(32).fill(1);
const conversation = (pubkey) => nip44.getConversationKey(key, pubkey);
export const signer = {
  getPublicKey: async () => getPublicKey(key),
  signEvent: async (template) => finalizeEvent(template, key),
  nip44: {
    encrypt: async (pubkey, text) => nip44.encrypt(text, conversation(pubkey)),
    decrypt: async (pubkey, text) => nip44.decrypt(text, conversation(pubkey)),
  },
};
export const version = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version;
export const show = ({ amount, secret }, unit) => `${amount} ${unit} ${secret.slice(0, 24)} (${secret.length})`;
EOF
cat > write.mjs <<'EOF'
import { readFileSync, writeFileSync } from "node:fs";
import { WalletTokenFactory } from "applesauce-wallet/factories";
import { show, signer, version } from "./signer.mjs";

console.log("applesauce-wallet", version("applesauce-wallet"), "writes:");
const proofs = JSON.parse(readFileSync("proofs.json"));
for (const proof of proofs) console.log(" ", show(proof, "usd"));
const token = { mint: "https://mint.example", unit: "usd", proofs };
writeFileSync("written.json", JSON.stringify(await WalletTokenFactory.create(token).as(signer).sign()));
EOF
cat > probe.py <<'EOF'
import asyncio, importlib.metadata, json
from sixty_nuts.wallet import Wallet

def show(proof):
    return f"{proof['amount']} {proof['unit']} {proof['secret'][:24]} ({len(proof['secret'])})"

async def main():
    wallet = Wallet("01" * 32, mint_urls=["https://mint.example"], relay_urls=["wss://relay.example"])

    # Instead of a relay: what is published goes to a file, and what is asked for comes from one.
    async def publish(event, **_):
        json.dump(dict(event, pubkey=wallet.pubkey, id="0" * 64, sig="0" * 128), open("published.json", "w"))
        return "0" * 64

    async def fetch(_):
        return [json.load(open("written.json"))]

    wallet.relay_manager.publish_to_relays = publish
    wallet.relay_manager.fetch_wallet_events = fetch
    print("sixty-nuts", importlib.metadata.version("sixty-nuts"), "reads:")
    state = await wallet.fetch_wallet_state(check_proofs=False, check_local_backups=False)
    for proof in state.proofs:
        print(" ", show(proof))
    mine = [dict(proof, mint="https://mint.example", unit="usd") for proof in json.load(open("proofs.json"))]
    await wallet.event_manager.publish_token_event(mine)
    print("sixty-nuts writes:")
    for proof in mine:
        print(" ", show(proof))

asyncio.run(main())
EOF
cat > read.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { unlockTokenContent } from "applesauce-wallet/helpers/tokens";
import { show, signer } from "./signer.mjs";

const { unit, proofs } = await unlockTokenContent(JSON.parse(readFileSync("published.json")), signer);
console.log("applesauce-wallet reads:");
for (const proof of proofs) console.log(" ", show(proof, unit));
EOF
{
  node write.mjs
  venv/bin/python probe.py
  node read.mjs
} | tee seen
diff - seen <<'EOF'
applesauce-wallet 6.2.0 writes:
  2 usd 407915bc212be61a77e3e6d2 (64)
  8 usd ["P2PK",{"nonce":"b00bdd (51)
sixty-nuts 0.1.4 reads:
  2 sat e34efdd796dcdb5d9b7bad5a (96)
  8 sat ["P2PK",{"nonce":"b00bdd (51)
sixty-nuts writes:
  2 usd 407915bc212be61a77e3e6d2 (64)
  8 usd ["P2PK",{"nonce":"b00bdd (51)
applesauce-wallet reads:
  2 undefined QHkVvCEr5hp34+bSrrTHJ5gL (44)
  8 undefined ["P2PK",{"nonce":"b00bdd (51)
EOF
echo "as recorded"
