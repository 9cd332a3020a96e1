#!/usr/bin/env bash
# A descriptor of one fixed path in embit: its address is not the one that the path leads to.
#
# Expected: by BIP 380 the steps after an extended key are taken, so a descriptor without `*` has one script, and with
# `*` there is none before an index is chosen. BIP 381, 382 and 383 have vectors of both.
# Seen: `script_pubkey()`, `address()` and what is made of them leave the steps out: they use the extended key itself,
# which no other program watches. `derive(0)` takes the steps, fixed ones as well, though `is_wildcard` is false and
# there is nothing to choose. The same for `*` and for `<0;1>` of BIP 389: without `derive` no error, but the address of
# the extended key, where bdk and bitcoinerlab demand an index. Whatever the descriptor, call `derive` first.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps @bitcoinerlab/descriptors@3.2.0
python3 -m venv venv
venv/bin/pip install -q embit==0.8.0 bdkpython==3.1.1

# Descriptors of BIP 381, 382 (twice) and 383, the first script that the BIP gives, and one descriptor of BIP 389.
cat > vectors.txt <<'EOF'
pkh([bd16bee5/2147483647h]
xpub69H7F5dQzmVd3vPuLKtcXJziMEQByuDidnX3YdwgtNsecY5HRGtAAQC5mXTt4dsv9RzyjgDjAQs9VGVV6ydYCHnprc9vvaA5YtqWyL6hyds
/0)
76a914ebdc90806a9c4356c1c88e42216611e1cb4c1c1788ac

wpkh([ffffffff/13']
xprv9vHkqa6EV4sPZHYqZznhT2NPtPCjKuDKGY38FBWLvgaDx45zo9WQRUT3dKYnjwih2yJD9mkrocEZXo1ex8G81dwSM1fwqWpWkeS3v86pgKt
/1/2/0)
0014326b2249e3a25d5dc60935f044ee835d090ba859

wpkh([ffffffff/13']
xpub69H7F5d8KSRgmmdJg2KhpAK8SR3DjMwAdkxj3ZuxV27CprR9LgpeyGmXUbC6wb7ERfvrnKZjXoUmmDznezpbZb7ap6r1D3tgFxHmwMkQTPH
/1/2/*)
0014326b2249e3a25d5dc60935f044ee835d090ba859

sh(multi(2,[00000000/111'/222]
xprvA1RpRA33e1JQ7ifknakTFpgNXPmW2YvmhqLQYMmrj4xJXXWYpDPS3xz7iAxn8L39njGVyuoseXzU6rcxFLJ8HFsTjSyQbLYnMpCqE2VbFWc
,
xprv9uPDJpEQgRQfDcW7BkF7eTya6RPxXeJCqCJGHuCJ4GiRVLzkTXBAJMu2qaMWPrS7AANYqdq6vcBcBUdJCVVFceUvJFjaPdGZ2y9WACViL4L
/0))
a91445a9a622a8b0a1269944be477640eedc447bbd8487

wpkh([ffffffff/13h]
xpub69H7F5d8KSRgmmdJg2KhpAK8SR3DjMwAdkxj3ZuxV27CprR9LgpeyGmXUbC6wb7ERfvrnKZjXoUmmDznezpbZb7ap6r1D3tgFxHmwMkQTPH
/<1;3>/2/*)
0014326b2249e3a25d5dc60935f044ee835d090ba859
EOF
cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import bitcoinerlab from "@bitcoinerlab/descriptors";

for (const descriptor of process.argv.slice(2)) {
  try {
    console.log(Buffer.from(new bitcoinerlab.Output({ descriptor }).getScriptPubKey()).toString("hex"));
  } catch (error) {
    console.log(`throws: ${error.message.split(":").at(-1).trim()}`);
  }
}
console.log(JSON.parse(readFileSync("node_modules/@bitcoinerlab/descriptors/package.json")).version);
EOF
cat > probe.py <<'EOF'
import importlib.metadata, re, subprocess
import bdkpython as bdk
from embit.descriptor import Descriptor

def bdk_at_0(text):
    descriptor = bdk.Descriptor(text, bdk.NetworkKind.MAIN)
    if descriptor.is_multipath():
        descriptor = descriptor.to_single_descriptors()[0]
    return descriptor.derive_address(0, bdk.Network.BITCOIN).script_pubkey().to_bytes().hex()

blocks = [block.split("\n") for block in open("vectors.txt").read().strip().split("\n\n")]
vectors = [("".join(lines), script) for *lines, script in blocks]
command = ["node", "probe.mjs", *(text for text, _ in vectors)]
*bitcoinerlab, version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
for name in ("embit", "bdkpython"):
    print(name, importlib.metadata.version(name))
print("@bitcoinerlab/descriptors", version)
for (text, script), other in zip(vectors, bitcoinerlab):
    descriptor = Descriptor.from_string(text)
    without_steps = Descriptor.from_string(re.sub(r"(?<=\w{100})/[^),]*", "", text)).script_pubkey()
    names = {script: "as in the BIP", without_steps.data.hex(): "of the extended key itself"}
    print(re.sub(r"(x\w{3})\w{100,}", r"\1..", text), "is_wildcard", descriptor.is_wildcard)
    print("  embit:", names[descriptor.script_pubkey().data.hex()])
    print("  embit after derive(0):", names[descriptor.derive(0).script_pubkey().data.hex()])
    print("  bdk at index 0:", names[bdk_at_0(text)])
    print("  bitcoinerlab without an index:", names.get(other, other))
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
embit 0.8.0
bdkpython 3.1.1
@bitcoinerlab/descriptors 3.2.0
pkh([bd16bee5/2147483647h]xpub../0) is_wildcard False
  embit: of the extended key itself
  embit after derive(0): as in the BIP
  bdk at index 0: as in the BIP
  bitcoinerlab without an index: as in the BIP
wpkh([ffffffff/13']xprv../1/2/0) is_wildcard False
  embit: of the extended key itself
  embit after derive(0): as in the BIP
  bdk at index 0: as in the BIP
  bitcoinerlab without an index: as in the BIP
wpkh([ffffffff/13']xpub../1/2/*) is_wildcard True
  embit: of the extended key itself
  embit after derive(0): as in the BIP
  bdk at index 0: as in the BIP
  bitcoinerlab without an index: throws: index was not provided for ranged descriptor
sh(multi(2,[00000000/111'/222]xprv..,xprv../0)) is_wildcard False
  embit: of the extended key itself
  embit after derive(0): as in the BIP
  bdk at index 0: as in the BIP
  bitcoinerlab without an index: as in the BIP
wpkh([ffffffff/13h]xpub../<1;3>/2/*) is_wildcard True
  embit: of the extended key itself
  embit after derive(0): as in the BIP
  bdk at index 0: as in the BIP
  bitcoinerlab without an index: throws: change was not provided for multipath descriptor
EOF
echo "as recorded"
