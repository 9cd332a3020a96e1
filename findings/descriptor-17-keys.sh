#!/usr/bin/env bash
# A multisig of 17 keys: one of five libraries gives an address that nobody can spend from, and one has no such script.
#
# Expected: P2WSH takes up to 20 keys in `multi` (BIP 383, which has vectors of 20). The script names the number of keys
# by an opcode up to OP_16, and above that by a byte that is pushed.
# Seen: @blockchainofthings/btc-output-descriptor, through the bitcoinjs-lib of its time, adds 0x50 to the number
# whatever it is: the number of 17 keys is OP_NOP (61), that of 20 OP_NOTIF (64). The descriptor is accepted without a
# word, but the address is not that of other programs, and since no number of keys stands there, no set of signatures
# opens it. embit, bip380 and the present bitcoinjs-lib agree with each other; @scure/btc-signer refuses more than 16.
# Up to 16 keys all agree, so a test with three keys says nothing. Compare an address with a second library before coins
# go there.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q embit==0.8.0 bip380==0.0.3
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  @blockchainofthings/btc-output-descriptor@1.0.1 bitcoinjs-lib@5.2.0 present@npm:bitcoinjs-lib@7.0.5 \
  @scure/btc-signer@2.4.1

cat > probe.py <<'EOF'
import importlib.metadata
from bip380.descriptors import Descriptor as OfBip380
from embit.descriptor import Descriptor as OfEmbit
from embit.ec import PrivateKey

for name in ["embit", "bip380"]:
    print(name, importlib.metadata.version(name))
keys = [PrivateKey(bytes([n]) * 32).get_public_key().sec().hex() for n in range(1, 21)]
with open("descriptors", "w") as file:
    for count in (15, 16, 17, 20):
        text = f"wsh(multi(2,{','.join(keys[:count])}))"
        descriptor = OfEmbit.from_string(text)
        script = descriptor.script_pubkey().data.hex()
        print(f"  embit, {count} keys: {script[:20]}.., script ends in {descriptor.witness_script().data.hex()[-6:]}")
        print(f"  bip380, {count} keys: {OfBip380.from_str(text).script_pubkey.hex()[:20]}..")
        print(text, file=file)
EOF
cat > probe.cjs <<'EOF'
const { readFileSync } = require("node:fs");
const { parse } = require("@blockchainofthings/btc-output-descriptor");

async function main() {
  const { payments } = await import("present");
  const { p2ms, p2wsh } = await import("@scure/btc-signer");
  for (const name of ["@blockchainofthings/btc-output-descriptor", "bitcoinjs-lib", "present", "@scure/btc-signer"]) {
    console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
  }
  const brief = (script) => `${Buffer.from(script).toString("hex").slice(0, 20)}..`;
  for (const text of readFileSync("descriptors", "utf8").trim().split("\n")) {
    const pubkeys = text.slice(12, -2).split(",").map((key) => Uint8Array.from(Buffer.from(key, "hex")));
    const count = `${pubkeys.length} keys`;
    const descriptor = parse(text, "main");
    const inner = descriptor.children[0].outputScripts[0].toString("hex");
    const outer = brief(descriptor.outputScripts[0]);
    console.log(`  btc-output-descriptor, ${count}: ${outer}, script ends in ${inner.slice(-6)}`);
    const { output } = payments.p2wsh({ redeem: payments.p2ms({ m: 2, pubkeys }) });
    console.log(`  bitcoinjs-lib of the present, ${count}: ${brief(output)}`);
    let end;
    try {
      end = brief(p2wsh(p2ms(2, pubkeys)).script);
    } catch (error) {
      end = error.message;
    }
    console.log(`  @scure/btc-signer, ${count}: ${end}`);
  }
}
main();
EOF
{
  venv/bin/python probe.py
  node probe.cjs
} | tee seen
diff - seen <<'EOF'
embit 0.8.0
bip380 0.0.3
  embit, 15 keys: 0020768fd53ac3e8270e.., script ends in 745fae
  bip380, 15 keys: 0020768fd53ac3e8270e..
  embit, 16 keys: 0020157c6c2958dda72b.., script ends in 3d60ae
  bip380, 16 keys: 0020157c6c2958dda72b..
  embit, 17 keys: 00202cd610dc4f6f6dd1.., script ends in 0111ae
  bip380, 17 keys: 00202cd610dc4f6f6dd1..
  embit, 20 keys: 002027855bda8d216571.., script ends in 0114ae
  bip380, 20 keys: 002027855bda8d216571..
@blockchainofthings/btc-output-descriptor 1.0.1
bitcoinjs-lib 5.2.0
present 7.0.5
@scure/btc-signer 2.4.1
  btc-output-descriptor, 15 keys: 0020768fd53ac3e8270e.., script ends in 745fae
  bitcoinjs-lib of the present, 15 keys: 0020768fd53ac3e8270e..
  @scure/btc-signer, 15 keys: 0020768fd53ac3e8270e..
  btc-output-descriptor, 16 keys: 0020157c6c2958dda72b.., script ends in 3d60ae
  bitcoinjs-lib of the present, 16 keys: 0020157c6c2958dda72b..
  @scure/btc-signer, 16 keys: 0020157c6c2958dda72b..
  btc-output-descriptor, 17 keys: 0020ccb24cf98c971f14.., script ends in aa61ae
  bitcoinjs-lib of the present, 17 keys: 00202cd610dc4f6f6dd1..
  @scure/btc-signer, 17 keys: Writer(): OutScript/multisig: invalid params
  btc-output-descriptor, 20 keys: 0020186283ded27fc8ea.., script ends in 9964ae
  bitcoinjs-lib of the present, 20 keys: 002027855bda8d216571..
  @scure/btc-signer, 20 keys: Writer(): OutScript/multisig: invalid params
EOF
echo "as recorded"
