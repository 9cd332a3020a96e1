#!/usr/bin/env bash
# An empty list in a filter: nostr-sdk takes it for "no condition" in three of four places.
#
# Expected: NIP-01 gives each list "one or more values", so a list without values matches no event; a user who follows
# nobody and asks for `authors: []` gets nothing. Whatever a library decides, it decides the same for every list.
# Seen: `authors: []`, `kinds: []` and `ids: []` match every event in the matcher of the library; `#t: []` matches
# none. Its own relay answers `authors: []` and `kinds: []` with everything it stores, but `ids: []` with nothing.
# A client that filters again with this matcher lets through what it did not ask for.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q nostr-sdk==0.45.1 websockets==15.0.1

cat > probe.py <<'EOF'
import asyncio, importlib.metadata, json
import websockets
from nostr_sdk import EventBuilder, Filter, Keys, Kind, LocalRelayBuilder, Tag, Timestamp


def note(key, text):
    builder = EventBuilder(Kind(1), text).tags([Tag.parse(["t", "x"])])
    return builder.custom_created_at(Timestamp.from_secs(1_700_000_000)).finalize(Keys.parse(key * 32))


async def main():
    print("nostr-sdk", importlib.metadata.version("nostr-sdk"))
    notes = [note("01", "one"), note("02", "two")]
    relay = LocalRelayBuilder().build()
    await relay.run()
    async with websockets.connect(str(await relay.url())) as socket:
        for event in notes:
            await socket.send('["EVENT",' + event.as_json() + "]")
            assert json.loads(await socket.recv())[2] is True
        for name in ["ids", "authors", "kinds", "#t"]:
            text = json.dumps({name: []})
            await socket.send(json.dumps(["REQ", name, {name: []}]))
            found = 0
            while (message := json.loads(await socket.recv()))[:2] != ["EOSE", name]:
                found += message[:2] == ["EVENT", name]
            print(text, "matcher:", Filter.from_json(text).match_event(notes[0]), "relay:", found, "of", len(notes))
    print("Filter().authors([]) asks for", Filter().authors([]).as_json())
    relay.shutdown()


asyncio.run(main())
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
nostr-sdk 0.45.1
{"ids": []} matcher: True relay: 0 of 2
{"authors": []} matcher: True relay: 2 of 2
{"kinds": []} matcher: True relay: 2 of 2
{"#t": []} matcher: False relay: 0 of 2
Filter().authors([]) asks for {"authors":[]}
EOF
echo "as recorded"
