#!/usr/bin/env bash
# The address of a pay-to-anchor output: two libraries have it, two say that there is none.
#
# Expected: a witness program of version 1 and two bytes is valid by BIP 141 and 350 (2 to 40 bytes), so every library
# with bech32m gives it an address, and Bitcoin Core, which calls the type "anchor", does (bc1pfeessrawgf).
# Seen: bdkpython and @scure/btc-signer translate in both directions. bitcoinjs-lib accepts unknown programs of versions
# 2 to 16, but of version 1 only 32 bytes; embit knows 32 bytes only. A client that turns each output of a transaction
# into an address, or each address that a server sent into a script, throws at every transaction with an anchor.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts bitcoinjs-lib@7.0.5 @scure/btc-signer@2.4.1
python3 -m venv venv
venv/bin/pip install -q embit==0.8.0 bdkpython==3.1.1

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { address } from "bitcoinjs-lib";
import { Address, OutScript } from "@scure/btc-signer";

console.warn = () => {};
const script = Buffer.from("51024e73", "hex");
const unknown = Buffer.from("52024e73", "hex");
const attempt = (name, call) => {
  try {
    console.log(" ", name, call());
  } catch (error) {
    console.log(" ", name, "throws:", error.message);
  }
};
const version = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version;
console.log("bitcoinjs-lib", version("bitcoinjs-lib"));
attempt("from script", () => address.fromOutputScript(script));
attempt("to script", () => Buffer.from(address.toOutputScript("bc1pfeessrawgf")).toString("hex"));
attempt("from script of version 2", () => address.fromOutputScript(unknown));
console.log("@scure/btc-signer", version("@scure/btc-signer"));
attempt("from script", () => Address().encode(OutScript.decode(script)));
attempt("to script", () => Buffer.from(OutScript.encode(Address().decode("bc1pfeessrawgf"))).toString("hex"));
EOF
cat > probe.py <<'EOF'
import importlib.metadata
import bdkpython as bdk
from embit.script import Script, address_to_scriptpubkey


def attempt(name, call):
    try:
        print(" ", name, call())
    except Exception as error:
        print(" ", name, "throws:", error)


raw = bytes.fromhex("51024e73")
print("embit", importlib.metadata.version("embit"))
attempt("from script", lambda: Script(raw).address())
attempt("to script", lambda: address_to_scriptpubkey("bc1pfeessrawgf").data.hex())
print("bdkpython", importlib.metadata.version("bdkpython"))
attempt("from script", lambda: bdk.Address.from_script(bdk.Script(raw), bdk.Network.BITCOIN))
attempt("to script", lambda: bdk.Address("bc1pfeessrawgf", bdk.Network.BITCOIN).script_pubkey().to_bytes().hex())
EOF
{ node probe.mjs; venv/bin/python probe.py; } | tee seen
diff - seen <<'EOF'
bitcoinjs-lib 7.0.5
  from script throws: OP_1 4e73 has no matching Address
  to script throws: bc1pfeessrawgf has no matching Script
  from script of version 2 bc1zfeesuqhy82
@scure/btc-signer 2.4.1
  from script bc1pfeessrawgf
  to script 51024e73
embit 0.8.0
  from script throws: This type of script doesn't have address representation
  to script throws: Invalid bech32 address
bdkpython 3.1.1
  from script bc1pfeessrawgf
  to script 51024e73
EOF
echo "as recorded"
