#!/usr/bin/env bash
# Asking for a Lightning invoice at a callback that has a query: three of five libraries lose it or spoil it.
#
# Expected: by LUD-06 the payer asks `<callback><?|&>amount=..`, so what a callback has behind its "?", often the id of
# the receiver, stays. A request for a zap is URI-encoded (NIP-57). LUD-01: the status of an answer has no meaning, its
# JSON has, so the reason of an error reaches the payer.
# Seen: Alby's lightning-tools and the Python package lnurl replace the query by their own: the service does not see
# whom to pay. welshman appends a second "?", so the id gets the amount as its tail, and leaves "&" and "#" of a
# comment as they are, so the event of the zap is cut off there, and with it all parameters behind. lnurl-pay and NDK
# ask as LUD-06 says. An error that comes with status 400 loses its reason in three; welshman passes it on, and NDK has
# the text of the answer in its message. A service should put the id into the path, and answer errors with 200.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q lnurl==2.0.2 bitstring==4.3.1
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  @getalby/lightning-tools@9.0.1 lnurl-pay@5.0.2 @nostr-dev-kit/ndk@3.0.3 \
  @welshman/util@0.8.15 @welshman/lib@0.8.15 nostr-tools@2.25.2

cat > probe.py <<'EOF'
import asyncio, sys
from lnurl import LnurlPayResponse
from lnurl.core import execute_pay_request

callback, msats, comment = sys.argv[1:]
metadata = '[["text/plain","dinner"]]'
service = LnurlPayResponse(
    callback=callback, minSendable=1000, maxSendable=10**10, metadata=metadata, commentAllowed=100
)
try:
    print("got", asyncio.run(execute_pay_request(service, int(msats), comment=comment)).pr[:8])
except Exception as error:
    print(str(error).split(" for url")[0])
EOF
cat > probe.mjs <<'EOF'
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { LightningAddress } from "@getalby/lightning-tools/lnurl";
import NDK, { NDKEvent, NDKZapper } from "@nostr-dev-kit/ndk";
import { requestZap } from "@welshman/util";
import { requestInvoiceWithServiceParams } from "lnurl-pay";
import { finalizeEvent } from "nostr-tools";

for (const name of ["@getalby/lightning-tools", "lnurl-pay", "@nostr-dev-kit/ndk", "@welshman/util"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
// From the examples of BOLT 11: 20 mBTC.
const invoice =
  "lnbc20m1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqc" +
  "yq5rqwzqfqypqhp58yjmdan79s6qqdhdzgynm4zwqd5d7xmw5fk98klysy043l2ahrqs9qrsgq7ea976txfraylvgzuxs8kgcw23ezlrszfnh8r6q" +
  "tfpr6cxga50aj6txm9rxrydzd06dfeawfk6swupvz4erwnyutnjq7x39ymw6j38gp7ynn44";
const sats = 2_000_000;
const msats = 1000 * sats;
const comment = "fish & chips #1";
const tags = [["p", "a".repeat(64)], ["amount", String(msats)], ["relays", "wss://relay.example"]];
const request = { kind: 9734, created_at: 1_700_000_000, content: comment, tags };
const event = finalizeEvent(request, new Uint8Array(32).fill(1));

let fail, seen;
const server = createServer((request, response) => {
  seen = [...new URL(request.url, "http://localhost").searchParams].map(([name, value]) => {
    if (name !== "nostr") return `${name}=${value}`;
    try {
      return `nostr=an event with "${JSON.parse(value).content}"`;
    } catch {
      return `nostr=the first ${value.length} characters`;
    }
  });
  if (fail) response.writeHead(400);
  response.end(JSON.stringify(fail ? { status: "ERROR", reason: "sold out" } : { pr: invoice, routes: [] }));
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const path = `http://127.0.0.1:${server.address().port}/pay`;
const callback = `${path}?id=7`;
const clients = {
  "Alby's lightning-tools": async () => {
    const payee = new LightningAddress("alice@pay.example", { proxy: false });
    const metadata = '[["text/plain","dinner"]]';
    const limits = { minSendable: 1000, maxSendable: 1e10, commentAllowed: 100 };
    await payee.parseLnUrlPayResponse({ tag: "payRequest", callback, metadata, ...limits });
    return (await payee.requestInvoice({ satoshi: sats, comment })).paymentRequest;
  },
  "lnurl-pay": async () => {
    const params = { callback, min: 1, max: 1e7, commentAllowed: 100, metadataHash: "" };
    return (await requestInvoiceWithServiceParams({ params, tokens: sats, comment })).invoice;
  },
  "NDK, zap": async () => {
    const zapper = new NDKZapper(new NDKEvent(new NDK(), { kind: 1, content: "", tags: [] }), msats, "msat");
    return zapper.getLnInvoice(new NDKEvent(new NDK(), event), msats, { callback });
  },
  "welshman, zap": async () => {
    const { invoice, error } = await requestZap({ zapper: { callback, lnurl: "lnurl1" }, event });
    if (error) throw Error(error);
    return invoice;
  },
  "lnurl (Python)": () =>
    new Promise((resolve, reject) =>
      execFile("venv/bin/python", ["probe.py", callback, msats, comment], (error, text) =>
        text.startsWith("got ") ? resolve(text.trim().slice(4)) : reject(error ?? Error(text.trim())),
      ),
    ),
};
for (fail of [false, true]) {
  console.log(fail ? "with an error:" : "with an invoice:");
  for (const [name, ask] of Object.entries(clients)) {
    const end = await ask().then((invoice) => invoice.slice(0, 8), (error) => error.message.replace(path, "URL"));
    console.log(`  ${name}: ${fail ? end : seen.join("; ")}`);
  }
}
process.exit();
EOF
{
  venv/bin/python -c 'import importlib.metadata; print("lnurl (Python)", importlib.metadata.version("lnurl"))'
  node probe.mjs
} | tee seen
diff - seen <<'EOF'
lnurl (Python) 2.0.2
@getalby/lightning-tools 9.0.1
lnurl-pay 5.0.2
@nostr-dev-kit/ndk 3.0.3
@welshman/util 0.8.15
with an invoice:
  Alby's lightning-tools: amount=2000000000; comment=fish & chips #1
  lnurl-pay: id=7; amount=2000000000; comment=fish & chips #1
  NDK, zap: id=7; amount=2000000000; nostr=an event with "fish & chips #1"
  welshman, zap: id=7?amount=2000000000; nostr=the first 53 characters;  chips =
  lnurl (Python): amount=2000000000; comment=fish & chips #1
with an error:
  Alby's lightning-tools: Failed to generate invoice: 400 Bad Request
  lnurl-pay: Request failed with status code 400
  NDK, zap: Unable to fetch zap endpoint URL?id=7: {"status":"ERROR","reason":"sold out"}
  welshman, zap: sold out
  lnurl (Python): Client error '400 Bad Request'
EOF
echo "as recorded"
