#!/usr/bin/env bash
# A transaction with an old and a segwit input: bitcoin-utils reads it and writes one that nobody else can read.
#
# Expected: by BIP 144 each input has a witness, an empty one (a zero byte) if it needs none. Reading and writing again
# gives the same bytes. The first example of BIP 143 has such a pair of inputs.
# Seen: it drops empty witnesses, and writes a list shorter than that of the inputs. The witness moves from the second
# input to the first, the lock time is read as part of it, and size and weight are a byte short. The txid does not
# cover witnesses, so it stays the same, and nothing looks wrong until the node refuses the broadcast.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q bitcoin-utils==0.8.8 python-bitcoinlib==0.12.2 embit==0.8.0

cat > probe.py <<'EOF'
import importlib.metadata
from bitcoin.core import CTransaction
from bitcoinutils.transactions import Transaction
from embit.transaction import Transaction as EmbitTransaction

for name in ("bitcoin-utils", "python-bitcoinlib", "embit"):
    print(name, importlib.metadata.version(name))
example = "".join(open("example").read().split())
read = Transaction.from_raw(example)
written = read.serialize()
print("txid is kept:", read.get_txid() == CTransaction.deserialize(bytes.fromhex(example)).GetTxid()[::-1].hex())
print("bytes given:", len(example) // 2, "get_size:", read.get_size(), "bytes written:", len(written) // 2)
print("witnesses of", len(read.inputs), "inputs:", len(read.witnesses))
readers = {
    "python-bitcoinlib": lambda text: CTransaction.deserialize(bytes.fromhex(text)).serialize().hex(),
    "embit": lambda text: EmbitTransaction.from_string(text).serialize().hex(),
    "bitcoin-utils": lambda text: Transaction.from_raw(text).serialize(),
}
for name, reader in readers.items():
    for title, text in (("example", example), ("written", written)):
        try:
            print(f"{name} reads the {title}:", "same bytes" if reader(text) == text else "other bytes")
        except Exception as error:
            print(f"{name} reads the {title}: throws", type(error).__name__)
EOF
# The signed transaction of BIP 143, native P2WPKH: a P2PK and a P2WPKH input.
cat > example <<'EOF'
01000000000102fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f00000000494830450221008b9d1dc26ba6a9cb62
127b02742fa9d754cd3bebf337f7a55d114c8e5cdd30be022040529b194ba3f9281a99f2b1c0a19c0489bc22ede944ccf4ecbab4cc618ef3ed01ee
ffffffef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a0100000000ffffffff02202cb206000000001976a9148280
b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d000000001976a9143bde42dbee7e4dbe6a21b2d50ce2f0167faa815988ac0002473044
02203609e17b84f6a7d30c80bfa610b5b4542f32a8a0d5447a12fb1366d7f01cc44a0220573a954c4518331561406f90300e8f3358f51928d43c21
2a8caed02de67eebee0121025476c2e83188368da1ff3e292e7acafcdb3566bb0ad253f62fc70f07aeee635711000000
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
bitcoin-utils 0.8.8
python-bitcoinlib 0.12.2
embit 0.8.0
txid is kept: True
bytes given: 343 get_size: 342 bytes written: 342
witnesses of 2 inputs: 1
python-bitcoinlib reads the example: same bytes
python-bitcoinlib reads the written: throws SerializationTruncationError
embit reads the example: same bytes
embit reads the written: throws RuntimeError
bitcoin-utils reads the example: other bytes
bitcoin-utils reads the written: throws IndexError
EOF
echo "as recorded"
