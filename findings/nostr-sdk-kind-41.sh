#!/usr/bin/env bash
# Kind 41 (channel metadata): nostr-sdk's relay keeps one event an author, whichever channel it is about.
#
# Expected: NIP-01 names the replaceable kinds: 0, 3 and 10000 to 19999. Kind 41 is regular. NIP-28 edits a channel by
# further events of kind 41 with an `e` tag of the channel, so an owner of two channels has at least two of them.
# Seen: nostr-sdk calls kind 41 replaceable. Its relay accepts the metadata of the second channel and drops that of the
# first one, and refuses late metadata of a third one for being older.
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


def metadata(channel, seconds):
    tags = [Tag.parse(["e", channel * 64, "", "root"])]
    builder = EventBuilder(Kind(41), json.dumps({"name": channel})).tags(tags)
    return builder.custom_created_at(Timestamp.from_secs(seconds)).finalize(Keys.parse("01" * 32))


async def main():
    print("nostr-sdk", importlib.metadata.version("nostr-sdk"))
    for kind in [40, 41, 42]:
        names = ["regular", "replaceable", "ephemeral", "addressable"]
        print(kind, [name for name in names if getattr(Kind(kind), "is_" + name)()])
    relay = LocalRelayBuilder().build()
    await relay.run()
    async with websockets.connect(str(await relay.url())) as socket:
        for channel, seconds in [("a", 1_700_000_000), ("b", 1_700_000_100), ("c", 1_700_000_050)]:
            await socket.send('["EVENT",' + metadata(channel, seconds).as_json() + "]")
            print("metadata of channel", channel, json.loads(await socket.recv())[2:])
        await socket.send(json.dumps(["REQ", "q", {"kinds": [41]}]))
        while (message := json.loads(await socket.recv()))[0] != "EOSE":
            print("stored", message[2]["content"])
    relay.shutdown()


asyncio.run(main())
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
nostr-sdk 0.45.1
40 ['regular']
41 ['replaceable']
42 ['regular']
metadata of channel a [True, '']
metadata of channel b [True, '']
metadata of channel c [False, 'error: unknown']
stored {"name": "b"}
EOF
echo "as recorded"
