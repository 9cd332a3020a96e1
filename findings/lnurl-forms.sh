#!/usr/bin/env bash
# The forms of an LNURL in five libraries: one reads no LNURL of ordinary length, two turn the path into small letters.
#
# Expected: LUD-01 has an LNURL in capitals or small letters, behind `lightning:` in a link (LUD-06), and as the
# parameter `lightning` of an ordinary URL; LUD-17 has `lnurlp://` instead of `https://`. Path and query are taken as
# they stand: letters of both sizes differ in all but the host (RFC 3986), and keys are often written with both.
# Seen: applesauce keeps to the 90 characters of an address, so it finds nothing even in the example of LUD-01.
# lnurl-pay turns all letters of an `lnurlp:` link into small ones, and welshman those of each URL: the service is asked
# for "alice" with the key "abc", which it does not know. js-lnurl and welshman find nothing behind `lightning:`, and
# the Python package lnurl nothing behind `LIGHTNING:`, as a QR code in capitals has it. Where an LNURL is a parameter,
# welshman and the Python package take the web page around it for the service. Take off `lightning:` in letters of any
# size, look for the parameter, and check the URL against what was scanned.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q lnurl==2.0.2 bitstring==4.3.1
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  lnurl-pay@5.0.2 js-lnurl@0.6.0 applesauce-common@6.2.0 applesauce-core@6.2.0 \
  @welshman/util@0.8.15 @welshman/lib@0.8.15 nostr-tools@2.25.2 @noble/curves@1.9.7 @scure/base@1.2.6

# The example of LUD-01.
lnurl=LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0V9CXJ0M385EKVCENXC6R2C35XVUKXEFCV5MKVV34X5EKZD3EV56NYD3HXQURZEPEXEJXXEPNXSCR
lnurl+=VWFNV9NXZCN9XQ6XYEFHVGCXXCMYXYMNSERXFQ5FNS
cat > forms <<EOF
$lnurl
lightning:$lnurl
LIGHTNING:$lnurl
https://service.com/giftcard/redeem?id=123&lightning=$lnurl
lnurlp://pay.example/Alice?key=AbC
https://pay.example/Alice?key=AbC
EOF
cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { bech32 } from "@scure/base";
import { parseLNURLOrAddress } from "applesauce-common/helpers/lnurl";
import { getLnUrl } from "@welshman/util";
import { utils } from "lnurl-pay";

const { decodelnurl } = createRequire(import.meta.url)("js-lnurl/lib/helpers");
const version = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version;
const decode = (lnurl) => new TextDecoder().decode(bech32.fromWords(bech32.decode(lnurl, false).words));
const libraries = {
  "lnurl-pay": utils.decodeUrlOrAddress,
  "js-lnurl": decodelnurl,
  "applesauce-common": parseLNURLOrAddress,
  "@welshman/util": (text) => {
    const lnurl = getLnUrl(text);
    return lnurl && decode(lnurl);
  },
};
const brief = (url) => url.replace(/^(.{48}).*?(.{6})$/, "$1..$2");
for (const [name, read] of Object.entries(libraries)) {
  console.log(name, version(name));
  for (const form of readFileSync("forms", "utf8").trim().split("\n")) {
    let url;
    try {
      url = read(form)?.toString();
    } catch {
      url = "refused";
    }
    console.log(`  ${brief(form)}: ${brief(url ?? "nothing")}`);
  }
}
EOF
cat > probe.py <<'EOF'
import importlib.metadata, re
from lnurl import decode

def brief(url):
    return re.sub(r"^(.{48}).*?(.{6})$", r"\1..\2", str(url))

print("lnurl (Python)", importlib.metadata.version("lnurl"))
for form in open("forms").read().split():
    try:
        url = decode(form).url
    except Exception:
        url = "refused"
    print(f"  {brief(form)}: {brief(url)}")
EOF
{
  node probe.mjs
  venv/bin/python probe.py
} | tee seen
diff - seen <<'EOF'
lnurl-pay 5.0.2
  LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0V9CXJ0M385..FQ5FNS: https://service.com/api?q=3fc3645b439ce8e7f2553a..d178df
  lightning:LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0..FQ5FNS: https://service.com/api?q=3fc3645b439ce8e7f2553a..d178df
  LIGHTNING:LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0..FQ5FNS: https://service.com/api?q=3fc3645b439ce8e7f2553a..d178df
  https://service.com/giftcard/redeem?id=123&light..FQ5FNS: https://service.com/api?q=3fc3645b439ce8e7f2553a..d178df
  lnurlp://pay.example/Alice?key=AbC: https://pay.example/alice?key=abc
  https://pay.example/Alice?key=AbC: nothing
js-lnurl 0.6.0
  LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0V9CXJ0M385..FQ5FNS: https://service.com/api?q=3fc3645b439ce8e7f2553a..d178df
  lightning:LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0..FQ5FNS: refused
  LIGHTNING:LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0..FQ5FNS: refused
  https://service.com/giftcard/redeem?id=123&light..FQ5FNS: https://service.com/api?q=3fc3645b439ce8e7f2553a..d178df
  lnurlp://pay.example/Alice?key=AbC: https://pay.example/Alice?key=AbC
  https://pay.example/Alice?key=AbC: https://pay.example/Alice?key=AbC
applesauce-common 6.2.0
  LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0V9CXJ0M385..FQ5FNS: nothing
  lightning:LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0..FQ5FNS: nothing
  LIGHTNING:LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0..FQ5FNS: nothing
  https://service.com/giftcard/redeem?id=123&light..FQ5FNS: nothing
  lnurlp://pay.example/Alice?key=AbC: nothing
  https://pay.example/Alice?key=AbC: nothing
@welshman/util 0.8.15
  LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0V9CXJ0M385..FQ5FNS: https://service.com/api?q=3fc3645b439ce8e7f2553a..d178df
  lightning:LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0..FQ5FNS: nothing
  LIGHTNING:LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0..FQ5FNS: nothing
  https://service.com/giftcard/redeem?id=123&light..FQ5FNS: https://service.com/giftcard/redeem?id=123&light..fq5fns
  lnurlp://pay.example/Alice?key=AbC: lnurlp://pay.example/alice?key=abc
  https://pay.example/Alice?key=AbC: https://pay.example/alice?key=abc
lnurl (Python) 2.0.2
  LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0V9CXJ0M385..FQ5FNS: https://service.com/api?q=3fc3645b439ce8e7f2553a..d178df
  lightning:LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0..FQ5FNS: https://service.com/api?q=3fc3645b439ce8e7f2553a..d178df
  LIGHTNING:LNURL1DP68GURN8GHJ7UM9WFMXJCM99E3K7MF0..FQ5FNS: refused
  https://service.com/giftcard/redeem?id=123&light..FQ5FNS: https://service.com/giftcard/redeem?id=123&light..FQ5FNS
  lnurlp://pay.example/Alice?key=AbC: https://pay.example/Alice?key=AbC
  https://pay.example/Alice?key=AbC: https://pay.example/Alice?key=AbC
EOF
echo "as recorded"
