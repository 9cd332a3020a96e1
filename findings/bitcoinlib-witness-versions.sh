#!/usr/bin/env bash
# Paying an address of witness version 2 or 16: bitcoinlib makes an output of version 1.
#
# Expected: the version is the first character of the data of a bech32m address, and the first opcode of the script.
# BIP 350 has the scripts of such addresses among its vectors, so that wallets of today can pay to later versions.
# Seen: bitcoinlib takes every bech32m address for taproot and writes OP_1 in front of the program. The output still
# shows the address that was asked, so nobody notices, but the coins lie at another one, which the payee does not watch
# and no key of his opens. embit refuses such addresses; bdkpython writes what BIP 350 says.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q bitcoinlib==0.7.10 embit==0.8.0 bdkpython==3.1.1

cat > probe.py <<'EOF'
import importlib.metadata
import bdkpython as bdk
from bitcoinlib.transactions import Output
from embit.script import address_to_scriptpubkey


def by_embit(address):
    try:
        return address_to_scriptpubkey(address).data.hex()
    except Exception as error:
        return f"throws: {error}"


for name in ("bitcoinlib", "bdkpython", "embit"):
    print(name, importlib.metadata.version(name))
vectors = {
    "bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs": "5210751e76e8199196d454941c45d1b3a323",
    "bc1sw50qgdz25j": "6002751e",
}
for address, script in vectors.items():
    output = Output(1000, address=address)
    print(address)
    print("  BIP 350:   ", script)
    print("  bitcoinlib:", output.lock_script.hex(), "for", output.address)
    print("  bdkpython: ", bdk.Address(address, bdk.Network.BITCOIN).script_pubkey().to_bytes().hex())
    print("  embit:     ", by_embit(address))
EOF
HOME=$dir venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
bitcoinlib 0.7.10
bdkpython 3.1.1
embit 0.8.0
bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs
  BIP 350:    5210751e76e8199196d454941c45d1b3a323
  bitcoinlib: 5110751e76e8199196d454941c45d1b3a323 for bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs
  bdkpython:  5210751e76e8199196d454941c45d1b3a323
  embit:      throws: Invalid bech32 address
bc1sw50qgdz25j
  BIP 350:    6002751e
  bitcoinlib: 5102751e for bc1sw50qgdz25j
  bdkpython:  6002751e
  embit:      throws: Invalid bech32 address
EOF
echo "as recorded"
