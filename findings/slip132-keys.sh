#!/usr/bin/env bash
# A ypub and three libraries: each gives another address than the wallet that exported the key.
#
# Expected: SLIP-132 keys say by their first letters which addresses they are for: ypub for nested segwit (3...), zpub
# for native segwit (bc1q...). Who takes them, and does not refuse them, heeds that. A descriptor has xpub only
# (BIP 380).
# Seen: @swan-bitcoin/xpub-lib turns each key into native segwit unless asked otherwise, and names the path m/84' for a
# key that its own `getPurposeFromExtPubKey` knows to be of m/49', or of m/44'. hdwallet makes a pay-to-pubkey-hash
# address of all of them. embit takes ypub and zpub inside any descriptor and writes them out again; bdk refuses what it
# wrote. Nothing warns, and what is received at such an address is not seen by the owner's wallet. PyPI's bip32 refuses
# both. Ask for the purpose first, and convert to xpub before a descriptor is made.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q embit==0.8.0 hdwallet==3.6.1 bip32==5.0.0 bdkpython==3.1.1
npm install --silent --no-audit --no-fund --ignore-scripts @swan-bitcoin/xpub-lib@0.3.0

# The account keys m/44', m/49' and m/84' of the seed words "abandon ... about" (BIP 84 has the last one).
cat > keys.json <<'EOF'
["xpub6BosfCnifzxcFwrSzQiqu2DBVTshkCXacvNsWGYJVVhhawA7d4R5WSWGFNbi8Aw6ZRc1brxMyWMzG3DSSSSoekkudhUd9yLb6qx39T9nMdj",
"ypub6Ww3ibxVfGzLrAH1PNcjyAWenMTbbAosGNB6VvmSEgytSER9azLDWCxoJwW7Ke7icmizBMXrzBx9979FfaHxHcrArf3zbeJJJUZPf663zsP",
"zpub6rFR7y4Q2AijBEqTUquhVz398htDFrtymD9xYYfG1m4wAcvPhXNfE3EfH1r1ADqtfSdVCToUG868RvUUkgDKf31mGDtKsAYz2oz2AGutZYs"]
EOF
cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import swan from "@swan-bitcoin/xpub-lib";

const { version } = JSON.parse(readFileSync("node_modules/@swan-bitcoin/xpub-lib/package.json"));
console.log("@swan-bitcoin/xpub-lib", version);
for (const extPubKey of JSON.parse(readFileSync("keys.json"))) {
  const purpose = swan.getPurposeFromExtPubKey(extPubKey);
  const usual = swan.addressFromExtPubKey({ extPubKey, network: "mainnet" });
  const asked = swan.addressFromExtPubKey({ extPubKey, network: "mainnet", purpose });
  console.log(extPubKey.slice(0, 4), `purpose ${purpose}: ${usual.path} ${usual.address}`);
  console.log("  asked for the purpose:", asked.address);
}
EOF
cat > probe.py <<'EOF'
import importlib.metadata, json
import bdkpython
from bip32 import BIP32
from embit.descriptor import Descriptor
from hdwallet import HDWallet
from hdwallet.cryptocurrencies import Bitcoin
from hdwallet.derivations import CustomDerivation
from hdwallet.hds import BIP32HD

for name in ["hdwallet", "embit", "bdkpython", "bip32"]:
    print(name, importlib.metadata.version(name))


def hdwallet(key):
    wallet = HDWallet(cryptocurrency=Bitcoin, hd=BIP32HD)
    wallet.from_xpublic_key(key, strict=False)
    wallet.from_derivation(CustomDerivation(path="m/0/0"))
    return wallet.address()


def embit(key):
    return Descriptor.from_string(f"wpkh({key}/0/*)").derive(0).address()


def bdk(key):
    text = Descriptor.from_string(f"wpkh({key}/0/*)").to_string()
    return str(bdkpython.Descriptor(text, bdkpython.NetworkKind.MAIN))[:9]


def bip32(key):
    return BIP32.from_xpub(key).get_xpub()[:4]


for read in [hdwallet, embit, bdk, bip32]:
    for key in json.load(open("keys.json")):
        try:
            print(read.__name__, key[:4], read(key))
        except Exception as error:
            print(read.__name__, key[:4], "refused:", type(error).__name__)
EOF
{ node probe.mjs; venv/bin/python probe.py; } | tee seen
diff - seen <<'EOF'
@swan-bitcoin/xpub-lib 0.3.0
xpub purpose 44: m/84'/0'/0'/0/0 bc1qmxrw6qdh5g3ztfcwm0et5l8mvws4eva24kmp8m
  asked for the purpose: 1LqBGSKuX5yYUonjxT5qGfpUsXKYYWeabA
ypub purpose 49: m/84'/0'/0'/0/0 bc1qlxgx0xk2lcjuyas4xua5p0ezg3kjfl6yd3h8y6
  asked for the purpose: 37VucYSaXLCAsxYyAPfbSi9eh4iEcbShgf
zpub purpose 84: m/84'/0'/0'/0/0 bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu
  asked for the purpose: bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu
hdwallet 3.6.1
embit 0.8.0
bdkpython 3.1.1
bip32 5.0.0
hdwallet xpub 1LqBGSKuX5yYUonjxT5qGfpUsXKYYWeabA
hdwallet ypub 1PkaFBUcyAccDp2Xo2K8MqduVMgMB792r2
hdwallet zpub 1JaUQDVNRdhfNsVncGkXedaPSM5Gc54Hso
embit xpub bc1qmxrw6qdh5g3ztfcwm0et5l8mvws4eva24kmp8m
embit ypub bc1qlxgx0xk2lcjuyas4xua5p0ezg3kjfl6yd3h8y6
embit zpub bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu
bdk xpub wpkh(xpub
bdk ypub refused: Miniscript
bdk zpub refused: Miniscript
bip32 xpub xpub
bip32 ypub refused: ParsingError
bip32 zpub refused: ParsingError
EOF
echo "as recorded"
