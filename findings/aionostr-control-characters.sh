#!/usr/bin/env bash
# A note with a control character: aionostr computes another id once a second package is installed.
#
# Expected: the id is the hash of one text. NIP-01 names seven characters that are escaped; libraries write the other
# ones below U+0020 as JSON requires, ESC as `\u001b`, and agree on the id of a note with the colours of a terminal.
# Seen: nostr-tools, nostr-sdk and go-nostr agree, and so does aionostr until python-rapidjson is there. It then writes
# `\u001B`, so a note with one of nine characters (those whose code has a letter) gets an id that nobody else computes.
# The relay `nostr-relay` requires both packages, and refuses every such note as badly signed.
set -euo pipefail
dir=$(mktemp -d)
relay=
trap '[ -z "$relay" ] || kill "$relay" && wait "$relay" 2>/dev/null || true; chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-tools@2.25.2 ws@8.23.0
python3 -m venv alone
alone/bin/pip install -q aionostr==0.20.0 nostr-sdk==0.45.1
python3 -m venv relay
relay/bin/pip install -q nostr-relay==1.14 aionostr==0.20.0 python-rapidjson==1.25
go mod init probe 2>go.log
go get github.com/nbd-wtf/go-nostr@v0.52.3 2>>go.log

cat > notes.mjs <<'EOF'
import { readFileSync, writeFileSync } from "node:fs";
import { finalizeEvent } from "nostr-tools/pure";

const notes = Array.from({ length: 32 }, (_, code) => {
  const note = { kind: 1, created_at: 1_700_000_000, tags: [], content: `a${String.fromCharCode(code)}b` };
  return finalizeEvent(note, new Uint8Array(32).fill(1));
});
writeFileSync("notes.json", JSON.stringify(notes));
console.log("nostr-tools", JSON.parse(readFileSync("node_modules/nostr-tools/package.json")).version, "signs 32 notes");
EOF
cat > sdk.py <<'EOF'
import importlib.metadata, json
from nostr_sdk import Event

notes = [Event.from_json(json.dumps(note)) for note in json.load(open("notes.json"))]
print("nostr-sdk", importlib.metadata.version("nostr-sdk"), "verifies", sum(note.verify() for note in notes))
EOF
cat > main.go <<'EOF'
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"

	"github.com/nbd-wtf/go-nostr"
)

func main() {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/nbd-wtf/go-nostr" {
			fmt.Print("go-nostr ", module.Version)
		}
	}
	text, _ := os.ReadFile("notes.json")
	var notes []nostr.Event
	if err := json.Unmarshal(text, &notes); err != nil {
		panic(err)
	}
	verified := 0
	for _, note := range notes {
		if valid, _ := note.CheckSignature(); valid {
			verified++
		}
	}
	fmt.Println(" verifies", verified)
}
EOF
cat > aio.py <<'EOF'
import importlib.metadata, json, sys
from aionostr.event import Event

other = []
for note in json.load(open("notes.json")):
    fields = {name: note[name] for name in ["pubkey", "content", "created_at", "kind", "tags"]}
    if Event(**fields).id != note["id"]:
        other.append(f"{ord(note['content'][1]):02x}")
version = importlib.metadata.version("aionostr")
print("aionostr", version, sys.argv[1], "has other ids for", " ".join(other) or "none")
EOF
cat > send.mjs <<'EOF'
import { readFileSync } from "node:fs";
import WebSocket from "ws";

const connect = async (url) => {
  for (;;) {
    const socket = new WebSocket(url);
    const open = await new Promise((resolve) => {
      socket.on("open", () => resolve(true));
      socket.on("error", () => resolve(false));
    });
    if (open) return socket;
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
};
const socket = await connect(process.argv[2]);
const notes = JSON.parse(readFileSync("notes.json"));
for (const code of [0x19, 0x1b]) {
  const answer = new Promise((resolve) => socket.once("message", (text) => resolve(JSON.parse(text))));
  socket.send(JSON.stringify(["EVENT", notes[code]]));
  const [verb, , accepted, reason] = await answer;
  console.log(" ", code.toString(16), verb, accepted, JSON.stringify(reason));
}
process.exit(0);
EOF
go mod tidy 2>>go.log
port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat > relay.yaml <<EOF
storage:
  sqlalchemy.url: sqlite+aiosqlite:///events.sqlite3
  validators: [nostr_relay.validators.is_signed]
gunicorn: {bind: "127.0.0.1:$port", workers: 1, loglevel: warning}
EOF
relay/bin/nostr-relay -c relay.yaml serve >relay.log 2>&1 &
relay=$!

{
  node notes.mjs
  alone/bin/python sdk.py
  go run .
  alone/bin/python aio.py alone
  relay/bin/python aio.py "with python-rapidjson $(relay/bin/pip show python-rapidjson | sed -n 's/^Version: //p')"
  echo "nostr-relay $(relay/bin/pip show nostr-relay | sed -n 's/^Version: //p')"
  timeout 60 node send.mjs "ws://127.0.0.1:$port/"
} | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2 signs 32 notes
nostr-sdk 0.45.1 verifies 32
go-nostr v0.52.3 verifies 32
aionostr 0.20.0 alone has other ids for none
aionostr 0.20.0 with python-rapidjson 1.25 has other ids for 0b 0e 0f 1a 1b 1c 1d 1e 1f
nostr-relay 1.14
  19 OK true ""
  1b OK false "invalid: Bad signature"
EOF
echo "as recorded"
