#!/usr/bin/env bash
# A PSBT of version 2 whose input requires a lock time: embit signs it, and Caravan converts it, with lock time 0.
#
# Expected: by BIP 370 ("Determining Lock Time") the fallback lock time counts only if no input requires one; else it is
# the highest of those required, of the kind that all inputs accept. The test vectors of the BIP give 10000 and
# 1657048460.
# Seen: embit reads and writes both fields of an input, but its transaction has the fallback, 0. So its signature is of
# another transaction than the one that a program which follows the BIP extracts, and nobody finds out before a node
# refuses it. In @caravan/psbt `nLockTime` follows the BIP, and `toV0()` of the same object does not, so signers of
# version 0 sign a transaction that an output with CHECKLOCKTIMEVERIFY refuses. Set the fallback to the required lock
# time as well.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps @caravan/psbt@2.1.0 \
  @scure/btc-signer@2.4.1 @noble/curves@2.2.0 bitcoinjs-lib@7.0.5
python3 -m venv venv
venv/bin/pip install -q embit==0.8.0

# Of the vectors of BIP 370: what is required of the inputs, and the lock time that follows.
cat > vectors.txt <<'EOF'
nothing: 0
cHNidP8BAgQCAAAAAQQBAQEFAQIB+wQCAAAAAAEOIAsK2SFBnByHGXNdctxzn56p4GONH+TB7vD5lECEgV/IAQ8EAAAAAAABAwgACK8vAAAAAA
EEFgAUxDD2TEdW2jENvRoIVXLvKZkmJywAAQMIi73rCwAAAAABBBYAFE3Rk6yWSlasG54cyoRU/i9HT4UTAA==

a height of 10000 of one input: 10000
cHNidP8BAgQCAAAAAQMEAAAAAAEEAQIBBQEBAfsEAgAAAAABDiAPdY2/vU2nwWyKMwnDyB4RAPVh6mRttbAXUsSF4b3enwEPBAEAAAABEgQQJw
AAAAEOIDobOzyDfWSJ6nox2ObH3VA8ABvvPgaVjnV0gI1oynilAQ8EAAAAAAABAwhPkzV3AAAAAAEEFgAUCxNSys0Dz2qht/PI1jiGcbNKXhEA

heights of 10000 and 9000, one with a time: 10000
cHNidP8BAgQCAAAAAQMEAAAAAAEEAQIBBQEBAfsEAgAAAAABDiAPdY2/vU2nwWyKMwnDyB4RAPVh6mRttbAXUsSF4b3enwEPBAEAAAABEQSLjc
RiARIEECcAAAABDiA6Gzs8g31kiep6Mdjmx91QPAAb7z4GlY51dICNaMp4pQEPBAAAAAABEQSMjcRiARIEKCMAAAABAwhPkzV3AAAAAAEEFgAU
CxNSys0Dz2qht/PI1jiGcbNKXhEA

times of 1657048459 and 1657048460, one with a height: 1657048460
cHNidP8BAgQCAAAAAQMEAAAAAAEEAQIBBQEBAfsEAgAAAAABDiAPdY2/vU2nwWyKMwnDyB4RAPVh6mRttbAXUsSF4b3enwEPBAEAAAABEQSLjc
RiAAEOIDobOzyDfWSJ6nox2ObH3VA8ABvvPgaVjnV0gI1oynilAQ8EAAAAAAERBIyNxGIBEgQoIwAAAAEDCE+TNXcAAAAAAQQWABQLE1LKzQPP
aqG388jWOIZxs0peEQA=
EOF
cat > probe.mjs <<'EOF'
import { readFileSync, writeFileSync } from "node:fs";
import { execFileSync } from "node:child_process";
import { PsbtV2 } from "@caravan/psbt";
import { secp256k1 } from "@noble/curves/secp256k1.js";
import { OutScript, p2wpkh, SigHash, Transaction } from "@scure/btc-signer";
import { Psbt } from "bitcoinjs-lib";

console.warn = () => {};
for (const name of ["@scure/btc-signer", "@caravan/psbt"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const embit = (...args) => execFileSync("venv/bin/python", ["probe.py", ...args]).toString().trim();
console.log("embit", embit("version"));
for (const block of readFileSync("vectors.txt", "utf8").trim().split("\n\n")) {
  const [title, ...lines] = block.split("\n");
  const text = lines.join("");
  console.log(title);
  const caravan = new PsbtV2(text);
  console.log("  @scure/btc-signer", Transaction.fromPSBT(Buffer.from(text, "base64")).lockTime);
  console.log("  embit", embit("locktime", text));
  console.log("  @caravan/psbt", caravan.nLockTime, "in toV0()", Psbt.fromBase64(caravan.toV0("base64")).locktime);
}

const key = new Uint8Array(32).fill(1);
const payment = p2wpkh(secp256k1.getPublicKey(key));
for (const fallback of [0, 10000]) {
  const created = new Transaction({ PSBTVersion: 2, lockTime: fallback });
  created.addInput({
    txid: "11".repeat(32),
    index: 0,
    sequence: 0xfffffffe,
    witnessUtxo: { script: payment.script, amount: 50_000n },
    requiredHeightLocktime: 10000,
  });
  created.addOutput({ script: payment.script, amount: 49_000n });
  const signedText = embit("sign", Buffer.from(created.toPSBT(2)).toString("base64"));
  const signed = Transaction.fromPSBT(Buffer.from(signedText, "base64"));
  const [[, signature]] = signed.getInput(0).partialSig;
  const hash = signed.preimageWitnessV0(0, OutScript.encode({ type: "pkh", hash: payment.hash }), SigHash.ALL, 50_000n);
  const options = { format: "der", prehash: false };
  const valid = secp256k1.verify(signature.slice(0, -1), hash, secp256k1.getPublicKey(key), options);
  console.log(`embit signs, 10000 required, fallback ${fallback}:`);
  console.log(`  lock time ${signed.lockTime}, signature valid: ${valid}`);
}
EOF
cat > probe.py <<'EOF'
import importlib.metadata, sys
from embit.ec import PrivateKey
from embit.psbt import PSBT

command, *texts = sys.argv[1:]
if command == "version":
    print(importlib.metadata.version("embit"))
elif command == "locktime":
    print(PSBT.from_string(texts[0]).tx.locktime)
else:
    psbt = PSBT.from_string(texts[0])
    assert psbt.sign_with(PrivateKey(bytes([1] * 32))) == 1
    print(psbt.to_string())
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
@scure/btc-signer 2.4.1
@caravan/psbt 2.1.0
embit 0.8.0
nothing: 0
  @scure/btc-signer 0
  embit 0
  @caravan/psbt 0 in toV0() 0
a height of 10000 of one input: 10000
  @scure/btc-signer 10000
  embit 0
  @caravan/psbt 10000 in toV0() 0
heights of 10000 and 9000, one with a time: 10000
  @scure/btc-signer 10000
  embit 0
  @caravan/psbt 10000 in toV0() 0
times of 1657048459 and 1657048460, one with a height: 1657048460
  @scure/btc-signer 1657048460
  embit 0
  @caravan/psbt 1657048460 in toV0() 0
embit signs, 10000 required, fallback 0:
  lock time 10000, signature valid: false
embit signs, 10000 required, fallback 10000:
  lock time 10000, signature valid: true
EOF
echo "as recorded"
