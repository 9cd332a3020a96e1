#!/usr/bin/env bash
# A `d` tag with a colon: nostr-sdk's relay deletes another article than the one that was named.
#
# Expected: an address is `kind:pubkey:d`. Neither kind nor public key holds a colon, so everything after the second
# one is the `d` tag, and a deletion of `30023:PUBKEY:a:b` removes the article "a:b".
# Seen: nostr-sdk reads the `d` tag up to the next colon. A deletion of "a:b" removes the article "a", leaves "a:b",
# and is itself stored, so it spreads with its true meaning to relays that read the address as it stands.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q nostr-sdk==0.45.1 websockets==15.0.1

cat > probe.py <<'EOF'
import asyncio, importlib.metadata, json
import websockets
from nostr_sdk import Coordinate, EventBuilder, Keys, Kind, LocalRelayBuilder, Tag, Timestamp

KEYS = Keys.parse("01" * 32)


def event(kind, tags, seconds):
    builder = EventBuilder(Kind(kind), "").tags([Tag.parse(tag) for tag in tags])
    return builder.custom_created_at(Timestamp.from_secs(seconds)).finalize(KEYS)


async def stored(socket):
    await socket.send(json.dumps(["REQ", "q", {"kinds": [30023]}]))
    found = []
    while (message := json.loads(await socket.recv()))[0] != "EOSE":
        if message[0] == "EVENT":
            found.append(message[2]["tags"][0][1])
    return sorted(found)


async def main():
    print("nostr-sdk", importlib.metadata.version("nostr-sdk"))
    address = f"30023:{KEYS.public_key().to_hex()}:a:b"
    print("parsed `d` of ..:a:b is", Coordinate.parse(address).identifier())
    relay = LocalRelayBuilder().build()
    await relay.run()
    async with websockets.connect(str(await relay.url())) as socket:
        articles = [event(30023, [["d", d]], 1_700_000_000) for d in ["a", "a:b", "c"]]
        for sent in [*articles, event(5, [["a", address], ["k", "30023"]], 1_700_000_100)]:
            if sent.kind().as_u16() == 5:
                print("before", await stored(socket))
            await socket.send('["EVENT",' + sent.as_json() + "]")
            answer = json.loads(await socket.recv())
        print("deletion of a:b", answer[2:])
        print("after ", await stored(socket))
    relay.shutdown()


asyncio.run(main())
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
nostr-sdk 0.45.1
parsed `d` of ..:a:b is a
before ['a', 'a:b', 'c']
deletion of a:b [True, '']
after  ['a:b', 'c']
EOF
echo "as recorded"
