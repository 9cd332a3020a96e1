#!/usr/bin/env bash
# An address in capitals, as a QR code has it: three of eight libraries refuse it.
#
# Expected: BIP 173 says that decoders accept a bech32 address in lowercase and in uppercase, and that QR codes should
# have it in uppercase since that makes them smaller. All libraries make the same script of both.
# Seen: embit and buidl find no address in it. bitcoinlib reads the key hash, but no network, and makes no output of it:
# its list of networks for the address is empty. A payer who scans such a code gets an error, and a watcher who stores
# what was scanned asks its server for nothing. Make the whole text lowercase if it has no lowercase letter.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts bitcoinjs-lib@7.0.5 @scure/btc-signer@2.4.1
python3 -m venv venv
venv/bin/pip install -q bitcoinlib==0.7.10 embit==0.8.0 bdkpython==3.1.1 buidl==0.2.36 python-bitcoinlib==0.12.2 \
  pycoin==0.92718.20260405

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { address } from "bitcoinjs-lib";
import { Address, OutScript } from "@scure/btc-signer";

const version = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version;
const readers = {
  "bitcoinjs-lib": (text) => address.toOutputScript(text),
  "@scure/btc-signer": (text) => OutScript.encode(Address().decode(text)),
};
for (const [name, read] of Object.entries(readers)) {
  console.log(name, version(name));
  for (const text of process.argv.slice(2)) console.log("  ", Buffer.from(read(text)).toString("hex"));
}
EOF
cat > probe.py <<'EOF'
import importlib.metadata, sys
import bdkpython as bdk
from bitcoin.wallet import CBitcoinAddress
from bitcoinlib.transactions import Output
from buidl.script import address_to_script_pubkey
from embit.script import address_to_scriptpubkey
from pycoin.symbols.btc import network

readers = {
    "bdkpython": lambda text: bdk.Address(text, bdk.Network.BITCOIN).script_pubkey().to_bytes(),
    "python-bitcoinlib": lambda text: CBitcoinAddress(text).to_scriptPubKey(),
    "pycoin": lambda text: network.parse.address(text).script(),
    "embit": lambda text: address_to_scriptpubkey(text).data,
    "buidl": lambda text: address_to_script_pubkey(text).raw_serialize(),
    "bitcoinlib": lambda text: Output(1000, address=text).lock_script,
}
for name, read in readers.items():
    print(name, importlib.metadata.version(name))
    for text in sys.argv[1:]:
        try:
            print("  ", read(text).hex())
        except Exception as error:
            print("   throws", type(error).__name__)
EOF
address=bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4
{
  node probe.mjs "$address" "${address^^}"
  HOME=$dir venv/bin/python probe.py "$address" "${address^^}"
} | tee seen
diff - seen <<'EOF'
bitcoinjs-lib 7.0.5
   0014751e76e8199196d454941c45d1b3a323f1433bd6
   0014751e76e8199196d454941c45d1b3a323f1433bd6
@scure/btc-signer 2.4.1
   0014751e76e8199196d454941c45d1b3a323f1433bd6
   0014751e76e8199196d454941c45d1b3a323f1433bd6
bdkpython 3.1.1
   0014751e76e8199196d454941c45d1b3a323f1433bd6
   0014751e76e8199196d454941c45d1b3a323f1433bd6
python-bitcoinlib 0.12.2
   0014751e76e8199196d454941c45d1b3a323f1433bd6
   0014751e76e8199196d454941c45d1b3a323f1433bd6
pycoin 0.92718.20260405
   0014751e76e8199196d454941c45d1b3a323f1433bd6
   0014751e76e8199196d454941c45d1b3a323f1433bd6
embit 0.8.0
   0014751e76e8199196d454941c45d1b3a323f1433bd6
   throws EmbitError
buidl 0.2.36
   0014751e76e8199196d454941c45d1b3a323f1433bd6
   throws RuntimeError
bitcoinlib 0.7.10
   0014751e76e8199196d454941c45d1b3a323f1433bd6
   throws TransactionError
EOF
echo "as recorded"
