#!/usr/bin/env bash
# A profile and a list of contacts read with pynostr: to look at them changes them.
#
# Expected: an event that was read can be shown, stored and sent on as it is; its id and signature are of exactly its
# bytes (NIP-01). Whoever adds one contact to a list keeps the others with their relays (NIP-02), and the tags that are
# not contacts.
# Seen: `to_dict()` and `str()` of a profile write its JSON anew, with spaces and another order, drop what is empty, and
# then give another id beside the old signature: a relay refuses it, and the object itself no longer verifies. Of a
# link of NIP-39 only what stands before the second colon is kept. `update()` of a list of contacts, which `add_contact`
# needs, loses the relay of each contact that has no pet name, all other tags, and a content that is no JSON.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q pynostr==0.7.0

cat > probe.py <<'EOF'
import importlib.metadata
from pynostr.contact_list import ContactList
from pynostr.event import Event
from pynostr.key import PrivateKey
from pynostr.metadata import Metadata

print("pynostr", importlib.metadata.version("pynostr"))
key = PrivateKey(bytes([1] * 32))


def signed(kind, content, tags):
    event = Event(content=content, kind=kind, tags=tags, pubkey=key.public_key.hex(), created_at=1_700_000_000)
    event.sign(key.hex())
    return event


proof = ["i", "matrix:@owl:example.org", "proof"]
event = signed(0, '{"name":"owl","bot":false,"about":"","website":"https://example.org"}', [proof])
profile = Metadata.from_event(event)
print("profile as read: same id", profile.id == event.id, "- verifies", profile.verify())
text = profile.to_dict()
print("to_dict:", text["content"], text["tags"])
print("same id", text["id"] == event.id, "- same signature", text["sig"] == event.sig, "- verifies", profile.verify())

first, second, third = (PrivateKey(bytes([number] * 32)).public_key.hex() for number in (2, 3, 4))
names = {first: "first", second: "second", third: "third"}
tags = [["p", first, "wss://one.example"], ["p", second, "wss://two.example", "owl"], ["t", "birds"]]
contacts = ContactList.from_event(signed(3, "my list", tags))
contacts.add_contact(third)
contacts.update()
print("contacts:", contacts.content, [[names.get(value, value) for value in tag] for tag in contacts.tags])
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
pynostr 0.7.0
profile as read: same id True - verifies True
to_dict: {"name": "owl", "website": "https://example.org", "bot": false} [['i', 'matrix:@owl', 'proof']]
same id False - same signature True - verifies False
contacts: {} [['p', 'first'], ['p', 'second', 'wss://two.example', 'owl'], ['p', 'third']]
EOF
echo "as recorded"
