#!/usr/bin/env bash
# A descriptor with a wrong checksum: embit takes it, and derives addresses.
#
# Expected: BIP 380's checksum is there to find one mistyped letter. Without one a parser may be lenient; a wrong one is
# an error, as in Bitcoin Core, bdkpython and the package bip380.
# Seen: embit cuts off what follows `#` and never looks at it. A descriptor in which one step of the path was mistyped
# gives other addresses under the old checksum. The text that embit writes has no checksum at all, and neither
# `importdescriptors` nor `deriveaddresses` of Bitcoin Core takes such a text.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q embit==0.8.0 bdkpython==3.1.1 bip380==0.0.3

cat > probe.py <<'EOF'
import importlib.metadata
import bdkpython as bdk
from bip380.descriptors import Descriptor as Bip380
from embit.descriptor import Descriptor as Embit

# The key of the first test vector of BIP 32, without its private half.
KEY = (
    "xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8"
)


def attempt(name, call):
    try:
        print(" ", name, importlib.metadata.version(name), "accepts:", call())
    except Exception as error:
        print(" ", name, importlib.metadata.version(name), "refuses:", type(error).__name__)


for title, text in [
    ("right checksum", f"wpkh({KEY}/0/*)#wvk84d79"),
    ("path mistyped, old checksum", f"wpkh({KEY}/1/*)#wvk84d79"),
    ("no checksum", f"wpkh({KEY}/0/*)"),
]:
    print(title)
    attempt("embit", lambda: Embit.from_string(text).derive(0).script_pubkey().address())
    kind = bdk.NetworkKind.MAIN
    attempt("bdkpython", lambda: bdk.Descriptor(text, kind).derive_address(0, bdk.Network.BITCOIN))
    attempt("bip380", lambda: "parsed" if Bip380.from_str(text, strict=False) else "")
print("embit writes", Embit.from_string(f"wpkh({KEY}/0/*)#wvk84d79").to_string().replace(KEY, "KEY"))
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
right checksum
  embit 0.8.0 accepts: bc1qp5wfcq48h6d63wyy9qz0awtpfqwwv4sma86mhz
  bdkpython 3.1.1 accepts: bc1qp5wfcq48h6d63wyy9qz0awtpfqwwv4sma86mhz
  bip380 0.0.3 accepts: parsed
path mistyped, old checksum
  embit 0.8.0 accepts: bc1q7zwtzcqsm3k43ha0ac7nl8cz0hqrhckywf6sew
  bdkpython 3.1.1 refuses: InvalidDescriptorChecksum
  bip380 0.0.3 refuses: DescriptorParsingError
no checksum
  embit 0.8.0 accepts: bc1qp5wfcq48h6d63wyy9qz0awtpfqwwv4sma86mhz
  bdkpython 3.1.1 accepts: bc1qp5wfcq48h6d63wyy9qz0awtpfqwwv4sma86mhz
  bip380 0.0.3 accepts: parsed
embit writes wpkh(KEY/0/*)
EOF
echo "as recorded"
