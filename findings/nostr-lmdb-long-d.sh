#!/usr/bin/env bash
# Two bookmarks whose long URLs differ at the end: nostr-sdk's LMDB store takes the second for an edit of the first.
#
# Expected: an addressable event is replaced by a newer one of the same kind, author and `d` tag (NIP-01). NIP-B0 puts
# the URL of a bookmark into `d`, without a bound; URLs of one site may share their first 200 characters.
# Seen: the store compares the first 182 bytes of `d`. A newer bookmark of another URL with that beginning removes the
# first one, an older one is refused as replaced, and a deletion of one by its address removes the other. Filters tell
# them apart, and so does the store in memory of the same package: a test with that one does not show it.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q nostr-sdk==0.45.1 websockets==15.0.1

cat > probe.py <<'EOF'
import asyncio, importlib.metadata, json
import websockets
from nostr_sdk import EventBuilder, Filter, Keys, Kind, LocalRelayBuilder, NostrLmdb, Tag, Timestamp

KEYS = Keys.parse("01" * 32)
AUTHOR = KEYS.public_key().to_hex()


def event(kind, tag, seconds, content):
    builder = EventBuilder(Kind(kind), content).tags([Tag.parse(tag)])
    return builder.custom_created_at(Timestamp.from_secs(1_700_000_000 + seconds)).finalize(KEYS)


def url(end, length):
    return "shop.example/".ljust(length - 1, "x") + end


def bookmark(end, length, seconds):
    return event(39701, ["d", url(end, length)], seconds, end)


class Lmdb:
    async def save(self, sent):
        status = await self.store.save_event(sent)
        return "saved" if status.is_success() else status.rejection_reason().name

    async def found(self):
        return [one.content() for one in await self.store.query(Filter().kind(Kind(39701)))]


class Memory:
    async def save(self, sent):
        await self.socket.send('["EVENT",' + sent.as_json() + "]")
        _, _, accepted, reason = json.loads(await self.socket.recv())
        return "saved" if accepted else reason

    async def found(self):
        await self.socket.send(json.dumps(["REQ", "q", {"kinds": [39701]}]))
        contents = []
        while (message := json.loads(await self.socket.recv()))[0] != "EOSE":
            contents.append(message[2]["content"])
        return contents


async def run(name, store, *events):
    statuses = [await store.save(sent) for sent in events]
    print(f"  {name}:", ", ".join(statuses), "->", *sorted(await store.found()))


async def main():
    print("nostr-sdk", importlib.metadata.version("nostr-sdk"))
    for length in [182, 183]:
        deletion = event(5, ["a", f"39701:{AUTHOR}:{url('a', length)}"], 9, "")
        for title, events in {
            "a, then b": [bookmark("a", length, 0), bookmark("b", length, 1)],
            "b, then an older a": [bookmark("b", length, 1), bookmark("a", length, 0)],
            "b, then a deletion of a": [bookmark("b", length, 1), deletion],
        }.items():
            print(f"{length} bytes: {title}")
            lmdb = Lmdb()
            lmdb.store = await NostrLmdb.open(f"{length} {title}")
            await run("LMDB", lmdb, *events)
            relay = LocalRelayBuilder().build()
            await relay.run()
            memory = Memory()
            async with websockets.connect(str(await relay.url())) as memory.socket:
                await run("memory", memory, *events)
            relay.shutdown()


asyncio.run(main())
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
nostr-sdk 0.45.1
182 bytes: a, then b
  LMDB: saved, saved -> a b
  memory: saved, saved -> a b
182 bytes: b, then an older a
  LMDB: saved, saved -> a b
  memory: saved, saved -> a b
182 bytes: b, then a deletion of a
  LMDB: saved, saved -> b
  memory: saved, saved -> b
183 bytes: a, then b
  LMDB: saved, saved -> b
  memory: saved, saved -> a b
183 bytes: b, then an older a
  LMDB: saved, REPLACED -> b
  memory: saved, saved -> a b
183 bytes: b, then a deletion of a
  LMDB: saved, saved ->
  memory: saved, saved -> b
EOF
echo "as recorded"
