#!/usr/bin/env bash
# Block files of a current node: two Python readers find no block in them, and say nothing.
#
# Expected: a reader of blk*.dat finds the blocks of a node, or says why it cannot.
# Seen: since version 28 Bitcoin Core XORs new block files with the eight bytes of xor.dat that lie beside them.
# blockchain-parser, and its fork blockchain-parser-2 of October 2026, look for the magic bytes of mainnet one position
# after another, find none, and end as if the folder were empty; no warning, no look at xor.dat. The same file after the
# XOR with btclib gives the block. Run the node with -blocksxor=0 from its first block on, or undo the XOR first.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv fork
venv/bin/pip install -q blockchain-parser==0.1.6 btclib==2026.10.24
fork/bin/pip install -q blockchain-parser-2==0.1.6

cat > write.py <<'EOF'
import importlib.metadata, os
from btclib.obfuscation import obfuscate

print("btclib", importlib.metadata.version("btclib"))
# The first block of mainnet, as every node stores it.
header = (
    "01000000" + "00" * 32 + "3ba3edfd7a7b12b27ac72c3e67768f617fc81bc3888a51323a9fb8aa4b1e5e4a"
    + "29ab5f49ffff001d1dac2b7c"
)
transaction = (
    "01000000" + "01" + "00" * 32 + "ffffffff4d04ffff001d0104455468652054696d65732030332f4a616e2f32303039204368616e63"
    "656c6c6f72206f6e206272696e6b206f66207365636f6e64206261696c6f757420666f722062616e6b73ffffffff0100f2052a0100000043"
    "4104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b"
    "8d578a4c702b6bf11d5fac00000000"
)
block = bytes.fromhex(header + "01" + transaction)
record = bytes.fromhex("f9beb4d9") + len(block).to_bytes(4, "little") + block
key = bytes.fromhex("8f1c3a5e7092b4d6")
for folder, used in [("plain", bytes(8)), ("xored", key)]:
    os.mkdir(folder)
    open(f"{folder}/xor.dat", "wb").write(used)
    open(f"{folder}/blk00000.dat", "wb").write(obfuscate(record, used))
os.mkdir("undone")
open("undone/blk00000.dat", "wb").write(obfuscate(open("xored/blk00000.dat", "rb").read(), key))
EOF
cat > probe.py <<'EOF'
import importlib.metadata, sys
from blockchain_parser.blockchain import Blockchain

print(sys.argv[1], importlib.metadata.version(sys.argv[1]))
for folder in ["plain", "xored", "undone"]:
    print(" ", folder, [block.hash for block in Blockchain(folder).get_unordered_blocks()])
EOF
{
  venv/bin/python write.py
  venv/bin/python probe.py blockchain-parser
  fork/bin/python probe.py blockchain-parser-2
} | tee seen
diff - seen <<'EOF'
btclib 2026.10.24
blockchain-parser 0.1.6
  plain ['000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f']
  xored []
  undone ['000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f']
blockchain-parser-2 0.1.6
  plain ['000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f']
  xored []
  undone ['000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f']
EOF
echo "as recorded"
