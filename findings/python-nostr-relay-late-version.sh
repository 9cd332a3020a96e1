#!/usr/bin/env bash
# A late version of a replaceable event: the relay `nostr-relay` (Python) keeps it beside the newer one.
#
# Expected: of a replaceable kind a relay keeps the newest event of each author; one that arrives late and is older is
# refused or dropped. Versions arrive in any order when relays are mirrored.
# Seen: an event replaces older ones, but an older one that comes afterwards is stored with OK true and served beside
# the newer one. A still newer version then removes one of both, here the newer one, so the stale one stays. A client
# that takes the last event of an answer has a stale list of relays.
set -euo pipefail
dir=$(mktemp -d)
relay=
trap '[ -z "$relay" ] || kill "$relay" && wait "$relay" 2>/dev/null || true; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-tools@2.25.2 ws@8.23.0
python3 -m venv venv
venv/bin/pip install -q nostr-relay==1.14

port=$(venv/bin/python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
cat > relay.yaml <<EOF
storage:
  sqlalchemy.url: sqlite+aiosqlite:///events.sqlite3
  validators: [nostr_relay.validators.is_signed]
gunicorn: {bind: "127.0.0.1:$port", workers: 1, loglevel: warning}
EOF
venv/bin/nostr-relay -c relay.yaml serve >relay.log 2>&1 &
relay=$!

cat > probe.mjs <<'EOF'
import WebSocket from "ws";
import { finalizeEvent } from "nostr-tools/pure";

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
const inbox = [];
let wake = () => {};
socket.on("message", (text) => {
  inbox.push(JSON.parse(text));
  wake();
});
const next = async () => {
  while (inbox.length === 0) await new Promise((resolve) => (wake = resolve));
  return inbox.shift();
};
const key = new Uint8Array(32).fill(1);
for (const [name, created_at] of [
  ["first", 1_700_000_000],
  ["newer", 1_700_000_020],
  ["late", 1_700_000_010],
  ["newest", 1_700_000_030],
]) {
  const event = finalizeEvent({ kind: 10002, created_at, tags: [], content: name }, key);
  socket.send(JSON.stringify(["EVENT", event]));
  const answer = await next();
  socket.send(JSON.stringify(["REQ", "q", { kinds: [10002] }]));
  const found = [];
  for (let message = await next(); message[0] !== "EOSE"; message = await next()) found.push(message[2].content);
  socket.send(JSON.stringify(["CLOSE", "q"]));
  console.log(`${name} (T+${created_at - 1_700_000_000}): OK ${answer[2]}, stored:`, found.join(", "));
}
process.exit(0);
EOF
{
  echo "nostr-relay $(venv/bin/python -c 'import importlib.metadata as m; print(m.version("nostr-relay"))')"
  timeout 60 node probe.mjs "ws://127.0.0.1:$port/"
} | tee seen
diff - seen <<'EOF'
nostr-relay 1.14
first (T+0): OK true, stored: first
newer (T+20): OK true, stored: newer
late (T+10): OK true, stored: newer, late
newest (T+30): OK true, stored: newest, late
EOF
echo "as recorded"
