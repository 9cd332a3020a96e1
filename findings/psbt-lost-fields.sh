#!/usr/bin/env bash
# The npm package `psbt`: the second signer removes the first one's taproot signature.
#
# Expected: by BIP 174 a signer adds its signatures to a PSBT, and fields that a program does not know are passed on.
# Who signs one input after another program signed the other one returns both signatures.
# Seen: `updatePsbt` and `signPsbt` write only the fields that they know how to set: of taproot inputs the signature and
# the key are gone, and so are fields of other programs, though `decodePsbt` has read them. A taproot derivation is
# written as that of an old input, with a key of 32 bytes, which bitcoinjs-lib refuses to read. The coordinator waits
# for a signature that was given. Combine what `signPsbt` returned with what it was given.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts \
  psbt@6.0.4 bitcoinjs-lib@7.0.5 ecpair@3.0.2 @bitcoinerlab/secp256k1@2.0.0

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import * as ecc from "@bitcoinerlab/secp256k1";
import { crypto, initEccLib, payments, Psbt } from "bitcoinjs-lib";
import { ECPairFactory } from "ecpair";
import psbts from "psbt";

initEccLib(ecc);
for (const name of ["psbt", "bitcoinjs-lib"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const ecp = ECPairFactory(ecc);
const [first, second] = [1, 2].map((byte) => ecp.fromPrivateKey(new Uint8Array(32).fill(byte)));
const internalKey = first.publicKey.slice(1);
const taproot = payments.p2tr({ internalPubkey: internalKey }).output;
const segwit = payments.p2wpkh({ pubkey: second.publicKey }).output;
const derivation = {
  tapBip32Derivation: [
    { masterFingerprint: Buffer.from("73c5da0a", "hex"), path: "m/86'/0'/0'/0/0", pubkey: internalKey, leafHashes: [] },
  ],
};
const signByFirst = (fields) => {
  const psbt = new Psbt();
  const witnessUtxo = { script: taproot, value: 50_000n };
  psbt.addInput({ hash: "11".repeat(32), index: 0, witnessUtxo, tapInternalKey: internalKey, ...fields });
  psbt.addInput({ hash: "22".repeat(32), index: 0, witnessUtxo: { script: segwit, value: 50_000n } });
  psbt.addOutput({ script: segwit, value: 90_000n });
  return psbt.signInput(0, first.tweak(crypto.taggedHash("TapTweak", internalKey))).toHex();
};
const show = (title, hex) => {
  console.log(title);
  try {
    for (const [index, input] of Psbt.fromHex(hex).data.inputs.entries()) {
      console.log(`  input ${index}:`, Object.keys(input).sort().join(" "));
    }
  } catch (error) {
    console.log("  bitcoinjs-lib throws:", error.message.split(" 0x")[0]);
  }
};
const unknownKeyVals = [{ key: Buffer.from("f001", "hex"), value: Buffer.from("from another program") }];
const given = signByFirst({ unknownKeyVals });
show("signed by the first", given);
show("updated by psbt", psbts.updatePsbt({ ecp, psbt: given }).psbt);
const signed = psbts.signPsbt({ ecp, psbt: given, signing_keys: [second.toWIF()] }).psbt;
show("signed by the second with psbt", signed);
show("signed by the second with bitcoinjs-lib", Psbt.fromHex(given).signInput(1, second).toHex());
const both = Psbt.fromHex(given).combine(Psbt.fromHex(signed));
show("combined with what was given", both.toHex());
console.log("finalized:", both.finalizeAllInputs().extractTransaction().ins.length, "inputs");
const derived = signByFirst(derivation);
show("with a derivation, signed by the first", derived);
show("updated by psbt", psbts.updatePsbt({ ecp, psbt: derived }).psbt);
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
psbt 6.0.4
bitcoinjs-lib 7.0.5
signed by the first
  input 0: tapInternalKey tapKeySig unknownKeyVals witnessUtxo
  input 1: witnessUtxo
updated by psbt
  input 0: witnessUtxo
  input 1: witnessUtxo
signed by the second with psbt
  input 0: witnessUtxo
  input 1: partialSig sighashType witnessUtxo
signed by the second with bitcoinjs-lib
  input 0: tapInternalKey tapKeySig unknownKeyVals witnessUtxo
  input 1: partialSig witnessUtxo
combined with what was given
  input 0: tapInternalKey tapKeySig unknownKeyVals witnessUtxo
  input 1: partialSig sighashType witnessUtxo
finalized: 2 inputs
with a derivation, signed by the first
  input 0: tapBip32Derivation tapInternalKey tapKeySig witnessUtxo
  input 1: witnessUtxo
updated by psbt
  bitcoinjs-lib throws: Format Error: invalid pubkey in key
EOF
echo "as recorded"
