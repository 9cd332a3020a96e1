#!/usr/bin/env bash
# An amount with an unknown unit: bitcoinlib takes 50 uBTC for 50 BTC, and 1000 bits for 1000 BTC.
#
# Expected: `Value`, and all that takes an amount as text, reads "<number> <unit>" and refuses what it does not know.
# Micro is written with a "u" where the keyboard has no Greek letter, and a bit is 100 satoshis.
# Seen: text that begins with a known prefix must end with a known currency, so "100 sats" and "5 satoshi" are refused.
# Any other text is ignored, and the number counts as bitcoins: a millionfold. An output or a fee made of such text has
# that amount. Give integers of satoshis.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q bitcoinlib==0.7.10

cat > probe.py <<'EOF'
import importlib.metadata
from bitcoinlib.transactions import Output
from bitcoinlib.values import value_to_satoshi

print("bitcoinlib", importlib.metadata.version("bitcoinlib"))
for text in ("50 sat", "50 µBTC", "50 uBTC", "50 mBTC", "1000 bits", "1 bitcoin", "20 USD", "100 sats", "5 satoshi"):
    try:
        satoshis = value_to_satoshi(text)
        output = Output(text, address="bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4").value
        print(f"{text}: {satoshis} sat, as an output {output} sat")
    except ValueError as error:
        print(f"{text}: {error}")
EOF
HOME=$dir venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
bitcoinlib 0.7.10
50 sat: 50 sat, as an output 50 sat
50 µBTC: 5000 sat, as an output 5000 sat
50 uBTC: 5000000000 sat, as an output 5000000000 sat
50 mBTC: 5000000 sat, as an output 5000000 sat
1000 bits: 100000000000 sat, as an output 100000000000 sat
1 bitcoin: 100000000 sat, as an output 100000000 sat
20 USD: 2000000000 sat, as an output 2000000000 sat
100 sats: Currency symbol not recognised
5 satoshi: Currency symbol not recognised
EOF
echo "as recorded"
