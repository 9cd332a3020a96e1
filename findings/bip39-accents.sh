#!/usr/bin/env bash
# A passphrase with an accent: two of six libraries make another wallet of the same words.
#
# Expected: BIP 39 normalizes words and passphrase by NFKD, so "é" means the same whether it was typed as one character
# or as "e" and an accent, and all libraries restore the same wallet.
# Seen: embit and go-bip39 take the bytes as they come. Who typed "é" as one character, as most keyboards do, gets
# another seed there, and a server shows empty histories: the coins look lost. Normalize the passphrase before the call.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts bip39@3.1.2 @scure/bip39@2.4.0
python3 -m venv venv
venv/bin/pip install -q embit==0.8.0 mnemonic==0.21 bdkpython==3.1.1
mkdir go
cat > go/main.go <<'EOF'
package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/tyler-smith/go-bip39"
)

func main() {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/tyler-smith/go-bip39" {
			fmt.Println("go-bip39", module.Version, hex.EncodeToString(bip39.NewSeed(os.Args[1], os.Args[2])))
		}
	}
}
EOF
(cd go && go mod init probe && go get github.com/tyler-smith/go-bip39@v1.1.0 && go mod tidy) 2>go.log
cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import bip39 from "bip39";
import { mnemonicToSeedSync } from "@scure/bip39";

const [words, passphrase] = process.argv.slice(2);
const show = (name, seed) => {
  const { version } = JSON.parse(readFileSync(`node_modules/${name}/package.json`));
  console.log(name, version, Buffer.from(seed).toString("hex"));
};
show("bip39", bip39.mnemonicToSeedSync(words, passphrase));
show("@scure/bip39", mnemonicToSeedSync(words, passphrase));
EOF
cat > probe.py <<'EOF'
import hashlib
import importlib.metadata
import subprocess
import unicodedata
import bdkpython as bdk
from embit import bip32, bip39, script
from mnemonic import Mnemonic

words = "abandon " * 11 + "about"
typed = unicodedata.normalize("NFC", "café")
normalized = unicodedata.normalize("NFKD", typed)


def address(seed):
    key = bip32.HDKey.from_seed(seed).derive("m/84h/0h/0h/0/0")
    return script.p2wpkh(key.to_public()).address()


def address_by_bdk(passphrase):
    kind = bdk.NetworkKind.MAIN
    key = bdk.DescriptorSecretKey(kind, bdk.Mnemonic.from_string(words), passphrase)
    chains = [bdk.Descriptor.new_bip84(key, chain, kind) for chain in bdk.KeychainKind]
    wallet = bdk.Wallet(*chains, bdk.Network.BITCOIN, bdk.Persister.new_in_memory())
    return str(wallet.peek_address(bdk.KeychainKind.EXTERNAL, 0).address)


def wallets(passphrase):
    version = importlib.metadata.version
    yield "bdkpython", version("bdkpython"), address_by_bdk(passphrase)
    yield "mnemonic", version("mnemonic"), address(Mnemonic.to_seed(words, passphrase))
    yield "embit", version("embit"), address(bip39.mnemonic_to_seed(words, passphrase))
    for command in (["node", "probe.mjs"], ["go", "run", "-C", "go", "."]):
        output = subprocess.run([*command, words, passphrase], check=True, capture_output=True, text=True).stdout
        for line in output.splitlines():
            name, number, seed = line.split()
            yield name, number, address(bytes.fromhex(seed))


seed = hashlib.pbkdf2_hmac("sha512", words.encode(), ("mnemonic" + normalized).encode(), 2048)
print("first address by BIP 39:", address(seed))
for text, passphrase in (("one character", typed), ("normalized", normalized)):
    print(f"{text}, {passphrase.encode().hex()}:")
    for wallet in wallets(passphrase):
        print(" ", *wallet)
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
first address by BIP 39: bc1q37qt8rtw02ynhfv8f0m6gdhzvzgnp5ex8xewyc
one character, 636166c3a9:
  bdkpython 3.1.1 bc1q37qt8rtw02ynhfv8f0m6gdhzvzgnp5ex8xewyc
  mnemonic 0.21 bc1q37qt8rtw02ynhfv8f0m6gdhzvzgnp5ex8xewyc
  embit 0.8.0 bc1q6z5r7drzdszz76h8yth0els8xah0n3flp3whev
  bip39 3.1.2 bc1q37qt8rtw02ynhfv8f0m6gdhzvzgnp5ex8xewyc
  @scure/bip39 2.4.0 bc1q37qt8rtw02ynhfv8f0m6gdhzvzgnp5ex8xewyc
  go-bip39 v1.1.0 bc1q6z5r7drzdszz76h8yth0els8xah0n3flp3whev
normalized, 63616665cc81:
  bdkpython 3.1.1 bc1q37qt8rtw02ynhfv8f0m6gdhzvzgnp5ex8xewyc
  mnemonic 0.21 bc1q37qt8rtw02ynhfv8f0m6gdhzvzgnp5ex8xewyc
  embit 0.8.0 bc1q37qt8rtw02ynhfv8f0m6gdhzvzgnp5ex8xewyc
  bip39 3.1.2 bc1q37qt8rtw02ynhfv8f0m6gdhzvzgnp5ex8xewyc
  @scure/bip39 2.4.0 bc1q37qt8rtw02ynhfv8f0m6gdhzvzgnp5ex8xewyc
  go-bip39 v1.1.0 bc1q37qt8rtw02ynhfv8f0m6gdhzvzgnp5ex8xewyc
EOF
echo "as recorded"
