#!/usr/bin/env bash
# A filter that pynostr reads from JSON matches nothing.
#
# Expected: `Filters.from_dict(filter)` is the filter: it matches the same events, and written again it asks for the
# same ones.
# Seen: without `ids` in the JSON the object holds an empty text as its ids. It matches no event, and it is written as
# `"ids": ""`, which is no list; a relay may refuse it or answer nothing. Conditions on tags are lost on the way.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q pynostr==0.7.0

cat > probe.py <<'EOF'
import importlib.metadata, json
from pynostr.event import Event
from pynostr.filters import Filters
from pynostr.key import PrivateKey

print("pynostr", importlib.metadata.version("pynostr"))
note = Event(content="hello", kind=1, created_at=1_700_000_000, tags=[["t", "x"], ["p", "b" * 64]])
note.sign(PrivateKey(bytes([1] * 32)).hex())
for asked in [{"kinds": [1]}, {"ids": [note.id], "#t": ["y"]}, {"ids": [note.id], "#p": ["c" * 64]}]:
    shown = json.dumps(asked).replace(note.id, "ID").replace("c" * 64, "KEY")
    filters = Filters.from_dict(asked)
    written = json.dumps(filters.to_dict()).replace(note.id, "ID").replace("c" * 64, "KEY")
    print(shown, "written", written, "matches", filters.matches(note))
print("constructor matches", Filters(kinds=[1]).matches(note))
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
pynostr 0.7.0
{"kinds": [1]} written {"ids": "", "kinds": [1]} matches False
{"ids": ["ID"], "#t": ["y"]} written {"ids": ["ID"]} matches True
{"ids": ["ID"], "#p": ["KEY"]} written {"ids": ["ID"]} matches True
constructor matches True
EOF
echo "as recorded"
