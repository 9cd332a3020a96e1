#!/usr/bin/env bash
# Callbacks of the Python package `electrum-client`: each is called for every script, and reading the height subscribes.
#
# Expected: `subscribe_scripthash(script, callback)` calls back for that script. `get_height()` reads a number, and a
# program may do so often.
# Seen: callbacks are kept by method. With two scripts, each callback runs for each notification, and a wallet that
# trusts the callback updates the wrong one; the script is in the first parameter. `get_height()` sends
# `blockchain.headers.subscribe` each time; from the first one on the server pushes headers that nobody reads.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q electrum-client==0.1.0

cat > probe.py <<'EOF'
import asyncio, importlib.metadata, json
from electrum_client import ElectrumClient

ALICE, BOB = "aa" * 32, "bb" * 32
asked = []


async def serve(reader, writer):
    while line := await reader.readline():
        request = json.loads(line)
        asked.append(request["method"])
        results = {
            "server.version": ["probe", "1.4"],
            "blockchain.headers.subscribe": {"height": 100, "hex": "00" * 80},
        }
        answer = {"jsonrpc": "2.0", "id": request["id"], "result": results.get(request["method"])}
        writer.write(json.dumps(answer).encode() + b"\n")
        if request["method"] == "server.banner":
            note = {"jsonrpc": "2.0", "method": "blockchain.scripthash.subscribe", "params": [BOB, "11" * 32]}
            writer.write(json.dumps(note).encode() + b"\n")


async def main():
    print("electrum-client", importlib.metadata.version("electrum-client"))
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    called = asyncio.Queue()
    names = {ALICE: "alice", BOB: "bob"}
    async with ElectrumClient(f"tcp://127.0.0.1:{port}") as client:
        await client.subscribe_scripthash(ALICE, lambda params: called.put_nowait(("alice", names[params[0]])))
        await client.subscribe_scripthash(BOB, lambda params: called.put_nowait(("bob", names[params[0]])))
        await client.server_banner()
        for _ in range(2):
            print("callback of %s runs for %s" % await asyncio.wait_for(called.get(), 5))
        for _ in range(3):
            await client.get_height()
    print("requests of three get_height():", asked.count("blockchain.headers.subscribe"), "headers.subscribe")


asyncio.run(main())
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
electrum-client 0.1.0
callback of alice runs for bob
callback of bob runs for bob
requests of three get_height(): 3 headers.subscribe
EOF
echo "as recorded"
