#!/usr/bin/env bash
# A secret message after a Lightning payment (LUD-10): the Python package lnurl encrypts no "Grüße", Alby shows none.
#
# Expected: the `aes` action of LUD-10 has a text of any letters, filled up to blocks of 16 bytes, encrypted with the
# preimage that the payer gets. It is what was bought (a voucher, a link), so a wallet that takes an invoice of such a
# service shows it, or says before the payment that it cannot.
# Seen: `aes_encrypt` counts characters where AES counts bytes. A text with accents raises an error, unless the bytes
# beyond the characters happen to fill whole blocks, so a shop that was tried in English fails with its first other
# customer. Alby's lightning-tools keep only two of the three actions, message and url: the invoice has no sign of the
# third one, and the buyer does not see it. lnurl-pay and js-lnurl read what comes. Encode and fill up before the call.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q lnurl==2.0.2 bitstring==4.3.1
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  @getalby/lightning-tools@9.0.1 lnurl-pay@5.0.2 js-lnurl@0.6.0

cat > probe.py <<'EOF'
import importlib.metadata, json
from lnurl.helpers import aes_decrypt, aes_encrypt

print("lnurl (Python)", importlib.metadata.version("lnurl"))
preimage = bytes([1] * 32)
actions = {}
for text in ["Thank you", "Grüße", "Merci à tous", "ÄÖÜäöüßéèêçñåøæœ"]:
    try:
        ciphertext, iv = aes_encrypt(preimage, text)
        assert aes_decrypt(preimage, ciphertext, iv) == text
        actions[text] = {"tag": "aes", "description": "Your code", "ciphertext": ciphertext, "iv": iv}
        print(f"  {text}: encrypted")
    except ValueError as error:
        print(f"  {text}: {error}")
json.dump(actions, open("actions.json", "w"))
EOF
cat > probe.mjs <<'EOF'
import { createCipheriv } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { LightningAddress } from "@getalby/lightning-tools/lnurl";
import { utils } from "lnurl-pay";

const { decipherAES } = createRequire(import.meta.url)("js-lnurl/lib/helpers");
for (const name of ["lnurl-pay", "js-lnurl", "@getalby/lightning-tools"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const key = Buffer.alloc(32, 1);
const preimage = key.toString("hex");
const iv = Buffer.alloc(16, 2);
const cipher = createCipheriv("aes-256-cbc", key, iv);
const ciphertext = cipher.update("Grüße", "utf8", "base64") + cipher.final("base64");
const ofNode = { tag: "aes", description: "Your code", ciphertext, iv: iv.toString("base64") };
for (const action of [...Object.values(JSON.parse(readFileSync("actions.json"))), ofNode]) {
  console.log("  lnurl-pay:", utils.decipherAES({ successAction: action, preimage }));
  console.log("  js-lnurl:", decipherAES(action, preimage));
}

// From the examples of BOLT 11: 20 mBTC.
const pr =
  "lnbc20m1pvjluezsp5zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zyg3zygspp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqc" +
  "yq5rqwzqfqypqhp58yjmdan79s6qqdhdzgynm4zwqd5d7xmw5fk98klysy043l2ahrqs9qrsgq7ea976txfraylvgzuxs8kgcw23ezlrszfnh8r6q" +
  "tfpr6cxga50aj6txm9rxrydzd06dfeawfk6swupvz4erwnyutnjq7x39ymw6j38gp7ynn44";
const message = { tag: "message", message: "Your code is 7" };
const url = { tag: "url", description: "Your code", url: "https://shop.example/7" };
let successAction;
const server = createServer((_, response) => response.end(JSON.stringify({ pr, routes: [], successAction })));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const callback = `http://127.0.0.1:${server.address().port}/pay`;
for (successAction of [message, url, ofNode]) {
  const shop = new LightningAddress("shop@pay.example", { proxy: false });
  const metadata = '[["text/plain","a code"]]';
  await shop.parseLnUrlPayResponse({ tag: "payRequest", callback, metadata, minSendable: 1000, maxSendable: 1e10 });
  const invoice = await shop.requestInvoice({ satoshi: 2_000_000 });
  console.log(`  Alby's lightning-tools, ${successAction.tag}:`, JSON.stringify(invoice.successAction) ?? "nothing");
}
process.exit();
EOF
{
  venv/bin/python probe.py
  node probe.mjs
} | tee seen
diff - seen <<'EOF'
lnurl (Python) 2.0.2
  Thank you: encrypted
  Grüße: Data must be padded to 16 byte boundary in CBC mode
  Merci à tous: Data must be padded to 16 byte boundary in CBC mode
  ÄÖÜäöüßéèêçñåøæœ: encrypted
lnurl-pay 5.0.2
js-lnurl 0.6.0
@getalby/lightning-tools 9.0.1
  lnurl-pay: Thank you
  js-lnurl: Thank you
  lnurl-pay: ÄÖÜäöüßéèêçñåøæœ
  js-lnurl: ÄÖÜäöüßéèêçñåøæœ
  lnurl-pay: Grüße
  js-lnurl: Grüße
  Alby's lightning-tools, message: {"tag":"message","message":"Your code is 7"}
  Alby's lightning-tools, url: {"tag":"url","description":"Your code","url":"https://shop.example/7"}
  Alby's lightning-tools, aes: null
EOF
echo "as recorded"
