#!/usr/bin/env bash
# A relay of the Python package monstr: the store in memory and the one in SQLite find different events.
#
# Expected: `since` and `until` include their own second, an older version of a profile does not replace a newer one, of
# two in one second the lower id stays, and each filter of a request has its own `limit` (NIP-01). What a relay with one
# of two stores answers, it answers with the other.
# Seen: in memory both bounds leave out their own second, and the version that arrives last replaces all others, however
# old it is, so a copy from another relay brings an old profile back. In SQLite the bounds are right and the newer one
# stays, but `kinds: []` and `authors: []`, which match nothing, give everything. In both, the highest `limit` cuts the
# joined answer, so "the profile and the last two notes" has no profile; of one second the last or the first to arrive
# stays; and a deletion by address (NIP-09) does nothing. A test against one of them proves little about the other.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q monstr==0.1.9

cat > probe.py <<'EOF'
import importlib.metadata
from monstr.encrypt import Keys
from monstr.event.event import Event
from monstr.event.persist_memory import RelayMemoryEventStore
from monstr.event.persist_sqlite import RelaySQLiteEventStore

print("monstr", importlib.metadata.version("monstr"))
keys = Keys("01" * 32)
author = keys.public_key_hex()
files = 0

def event(kind, created_at, content, *tags):
    made = Event(kind=kind, created_at=created_at, content=content, tags=list(tags), pub_key=author)
    made.sign(keys.private_key_hex())
    return made

def stores():
    global files
    files += 1
    sqlite = RelaySQLiteEventStore(f"{files}.db")
    sqlite.create()
    return {"memory": RelayMemoryEventStore(), "SQLite": sqlite}

def compare(title, events, filters):
    print(title)
    for name, store in stores().items():
        for made in events:
            store.add_event(made)
            if made.kind == Event.KIND_DELETE:
                store.do_delete(made)
        print(f"  {name}: {', '.join(found['content'] for found in store.get_filter(filters)) or 'nothing'}")

notes = [event(1, 1000 + n, f"note {n}") for n in (1, 2, 3)]
compare("since the second of note 2:", notes, {"since": 1002})
compare("until the second of note 2:", notes, {"until": 1002})
compare("no kind:", notes, {"kinds": []})
compare("no author:", notes, {"authors": []})
profile = event(0, 900, "profile")
compare("the profile and two notes:", [profile, *notes], [{"kinds": [0], "limit": 1}, {"kinds": [1], "limit": 2}])
compare("a newer profile, then an older one:", [event(0, 1002, "newer"), event(0, 1001, "older")], {"kinds": [0]})
low, high = sorted((event(0, 1001, text) for text in ("a", "b")), key=lambda made: made.id)
print("lower id:", low.content)
compare("the lower id, then the higher one:", [low, high], {"kinds": [0]})
compare("the higher id, then the lower one:", [high, low], {"kinds": [0]})
article = event(30023, 1001, "article", ["d", "owls"])
deletion = event(5, 1002, "", ["a", f"30023:{author}:owls"])
compare("an article after its deletion by address:", [article, deletion], {"kinds": [30023]})
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
monstr 0.1.9
since the second of note 2:
  memory: note 3
  SQLite: note 3, note 2
until the second of note 2:
  memory: note 1
  SQLite: note 2, note 1
no kind:
  memory: nothing
  SQLite: note 3, note 2, note 1
no author:
  memory: nothing
  SQLite: note 3, note 2, note 1
the profile and two notes:
  memory: note 3, note 2
  SQLite: note 3, note 2
a newer profile, then an older one:
  memory: older
  SQLite: newer
lower id: b
the lower id, then the higher one:
  memory: a
  SQLite: b
the higher id, then the lower one:
  memory: b
  SQLite: a
an article after its deletion by address:
  memory: article
  SQLite: article
EOF
echo "as recorded"
