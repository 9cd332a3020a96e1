#!/usr/bin/env bash
# A deletion request that nostr-sdk's relay refuses has already deleted.
#
# Expected: `OK` with false means that the relay did nothing. And NIP-09 lets a relay ignore what the author does not
# own, so a request with a foreign `e` tag still counts for the others.
# Seen: the relay answers false with "error: unknown" because of the one foreign event. The own event that the request
# names before it is gone, may not be sent again, and the request itself is not stored: nobody can learn why. With the
# foreign tag in front, nothing is deleted.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q nostr-sdk==0.45.1 websockets==15.0.1

cat > probe.py <<'EOF'
import asyncio, importlib.metadata, json
import websockets
from nostr_sdk import EventBuilder, Keys, Kind, LocalRelayBuilder, Tag, Timestamp


def event(key, kind, tags, text, seconds):
    builder = EventBuilder(Kind(kind), text).tags([Tag.parse(tag) for tag in tags])
    return builder.custom_created_at(Timestamp.from_secs(seconds)).finalize(Keys.parse(key * 32))


async def send(socket, sent):
    await socket.send('["EVENT",' + sent.as_json() + "]")
    return json.loads(await socket.recv())[2:]


async def stored(socket):
    await socket.send(json.dumps(["REQ", "q", {}]))
    found = []
    while (message := json.loads(await socket.recv()))[0] != "EOSE":
        if message[0] == "EVENT":
            found.append(message[2]["content"])
    return sorted(found)


async def trial(own_first):
    relay = LocalRelayBuilder().build()
    await relay.run()
    async with websockets.connect(str(await relay.url())) as socket:
        own = event("01", 1, [], "own", 1_700_000_000)
        foreign = event("02", 1, [], "foreign", 1_700_000_000)
        await send(socket, own)
        await send(socket, foreign)
        named = [own, foreign] if own_first else [foreign, own]
        request = event("01", 5, [["e", each.id().to_hex()] for each in named], "request", 1_700_000_100)
        print("request names", [each.content() for each in named], "->", await send(socket, request))
        print("  stored now", await stored(socket))
        print("  own event again", await send(socket, own))
    relay.shutdown()


async def main():
    print("nostr-sdk", importlib.metadata.version("nostr-sdk"))
    await trial(True)
    await trial(False)


asyncio.run(main())
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
nostr-sdk 0.45.1
request names ['own', 'foreign'] -> [False, 'error: unknown']
  stored now ['foreign']
  own event again [False, 'blocked: this event is deleted']
request names ['foreign', 'own'] -> [False, 'error: unknown']
  stored now ['foreign', 'own']
  own event again [True, 'duplicate: already have this event']
EOF
echo "as recorded"
