#!/usr/bin/env bash
# A delegation made with pynostr expires a second after it was signed, and holds for twelve hours, not thirty days.
#
# Expected: a delegation of NIP-26 is a string of conditions and a signature of it; whoever has both can use them until
# the time that the conditions name. The default of pynostr is called thirty days.
# Seen: the conditions are built anew at each look, from the clock of that moment. The tag of an event written a second
# after the signature names another time than the signature covers, so whoever checks it by NIP-26 finds that it does
# not fit; only a tag from within the same second does. The thirty days are 30 x 24 x 60 and counted as seconds. Keep
# the tag that was made beside the signature, and check that it fits.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q pynostr==0.7.0 coincurve==21.0.0

cat > probe.py <<'EOF'
import hashlib, importlib.metadata
from unittest.mock import patch
from coincurve import PublicKeyXOnly
from pynostr.delegation import Delegation
from pynostr.key import PrivateKey

print("pynostr", importlib.metadata.version("pynostr"))
owner, writer = PrivateKey(bytes([1] * 32)), PrivateKey(bytes([2] * 32))


def fits(tag):
    # The check of NIP-26: the owner's signature of the token with the conditions that stand in the tag.
    _, public_key, conditions, signature = tag
    token = f"nostr:delegation:{writer.public_key.hex()}:{conditions}"
    digest = hashlib.sha256(token.encode()).digest()
    return PublicKeyXOnly(bytes.fromhex(public_key)).verify(bytes.fromhex(signature), digest)


with patch("time.time", return_value=1_700_000_000.9):
    delegation = Delegation(owner.public_key.hex(), writer.public_key.hex(), event_kind=1)
    owner.sign_delegation(delegation)
    first = delegation.get_tag()
seconds = int(first[2].split("created_at<")[1]) - 1_700_000_000
print("valid for", seconds // 3600, "hours")
print("the tag of the same second fits:", fits(first))
with patch("time.time", return_value=1_700_000_001.1):
    later = delegation.get_tag()
print("a second later: the signature is the same:", later[3] == first[3], "- the conditions:", later[2] == first[2])
print("that tag fits:", fits(later))
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
pynostr 0.7.0
valid for 12 hours
the tag of the same second fits: True
a second later: the signature is the same: True - the conditions: False
that tag fits: False
EOF
echo "as recorded"
