#!/usr/bin/env bash
# A zap sent with NDK: welshman does not count it, because of the `lnurl` tag of the request.
#
# Expected: the optional `lnurl` of a request is the payment URL of the receiver, "encoded using bech32 with the prefix
# `lnurl`" (NIP-57), by LUD-01 in letters of either size. Whoever reads the receipt compares the two (Appendix F), and
# counts a zap that was paid.
# Seen: NDK puts the callback into the tag, another URL and not encoded. welshman compares the texts: every zap of a
# client that uses NDK is no zap there, and the sums under a note differ from client to client. One in capitals does not
# count either, though it is the same URL. Without the tag, as nostr-tools makes requests, the zap counts in all. Leave
# the tag out; who reads receipts should not drop a zap for it, since the receipt is signed by the receiver's service.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  @nostr-dev-kit/ndk@3.0.3 @welshman/util@0.8.15 @welshman/lib@0.8.15 \
  applesauce-common@6.2.0 applesauce-core@6.2.0 nostr-tools@2.25.2

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import NDK, { generateZapRequest, NDKEvent, NDKPrivateKeySigner, zapInvoiceFromEvent } from "@nostr-dev-kit/ndk";
import { getLnUrl, zapFromEvent } from "@welshman/util";
import { getZapAmount, isValidZap } from "applesauce-common/helpers";
import { finalizeEvent, getPublicKey } from "nostr-tools";
import { makeZapReceipt, makeZapRequest } from "nostr-tools/nip57";

for (const name of ["@nostr-dev-kit/ndk", "nostr-tools", "@welshman/util", "applesauce-common"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const key = (n) => new Uint8Array(32).fill(n);
const [sender, receiver, service] = [key(1), key(2), key(3)];
// From the examples of BOLT 11: 20 mBTC.
const bolt11 =
  "lnbc20m1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqc" +
  "yq5rqwzqfqypqhp58yjmdan79s6qqdhdzgynm4zwqd5d7xmw5fk98klysy043l2ahrqs9qrsgq7ea976txfraylvgzuxs8kgcw23ezlrszfnh8r6q" +
  "tfpr6cxga50aj6txm9rxrydzd06dfeawfk6swupvz4erwnyutnjq7x39ymw6j38gp7ynn44";
const amount = 2_000_000_000;
const pubkey = getPublicKey(receiver);
const relays = ["wss://relay.example"];
const note = finalizeEvent({ kind: 1, created_at: 1_700_000_000, content: "owls", tags: [] }, receiver);
// What the service of alice@pay.example says, and the LNURL of the same address.
const spec = { callback: "https://pay.example/callback/alice", nostrPubkey: getPublicKey(service), allowsNostr: true };
const lnurl = getLnUrl("alice@pay.example");
const zapper = { ...spec, lnurl, pubkey };

const ndk = new NDK({ signer: new NDKPrivateKeySigner("01".repeat(32)) });
const ofNdk = await generateZapRequest(new NDKEvent(ndk, note), ndk, spec, pubkey, amount, relays);
const plain = makeZapRequest({ event: note, amount, relays });
const withTag = (value) => finalizeEvent({ ...plain, tags: [...plain.tags, ["lnurl", value]] }, sender);
const requests = {
  "of NDK": ofNdk.rawEvent(),
  "of nostr-tools": finalizeEvent(plain, sender),
  "as in NIP-57": withTag(lnurl),
  "in capitals": withTag(lnurl.toUpperCase()),
};
for (const [title, request] of Object.entries(requests)) {
  const paidAt = new Date(1_700_000_100_000);
  const receipt = finalizeEvent(makeZapReceipt({ zapRequest: JSON.stringify(request), bolt11, paidAt }), service);
  console.log(title, `lnurl: ${request.tags.find(([name]) => name === "lnurl")?.[1].slice(0, 40) ?? "none"}`);
  const amounts = {
    welshman: zapFromEvent(receipt, zapper)?.invoiceAmount,
    applesauce: isValidZap(receipt) ? getZapAmount(receipt) : undefined,
    NDK: zapInvoiceFromEvent(new NDKEvent(ndk, receipt))?.amount,
  };
  for (const [name, msats] of Object.entries(amounts)) console.log(`  ${name}: ${msats ?? "no zap"}`);
}
process.exit();
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
@nostr-dev-kit/ndk 3.0.3
nostr-tools 2.25.2
@welshman/util 0.8.15
applesauce-common 6.2.0
of NDK lnurl: https://pay.example/callback/alice
  welshman: no zap
  applesauce: 2000000000
  NDK: 2000000000
of nostr-tools lnurl: none
  welshman: 2000000000
  applesauce: 2000000000
  NDK: 2000000000
as in NIP-57 lnurl: lnurl1dp68gurn8ghj7urp0yhx27rpd4cxcef09e
  welshman: 2000000000
  applesauce: 2000000000
  NDK: 2000000000
in capitals lnurl: LNURL1DP68GURN8GHJ7URP0YHX27RPD4CXCEF09E
  welshman: no zap
  applesauce: 2000000000
  NDK: 2000000000
EOF
echo "as recorded"
