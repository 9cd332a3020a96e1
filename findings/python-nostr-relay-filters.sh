#!/usr/bin/env bash
# Four kinds of filters that the relay `nostr-relay` (Python) answers otherwise than NIP-01 reads.
#
# Expected: `{}` and `{"limit": 2}` give the newest events of all, `until` includes its own second, `limit: 0` gives no
# stored event, and a tag with an empty value is a value like another one.
# Seen: a filter with neither ids, authors, kinds, tags nor since gives nothing; `until` is exclusive, so paging with
# `until` = oldest second loses the rest of that second, and a window of one second is empty; `limit: 0` gives
# everything; a condition on an empty value is dropped, which widens the filter. A tool that mirrors or compares
# relays must not take these answers for the content of the relay.
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
const start = 1_700_000_000;
for (let n = 0; n < 3; n += 1) {
  const note = { kind: 1, created_at: start + n, tags: [["t", "x"]], content: `note ${n}` };
  socket.send(JSON.stringify(["EVENT", finalizeEvent(note, key)]));
  if ((await next())[2] !== true) throw new Error("refused");
}
for (const filter of [
  {},
  { limit: 2 },
  { kinds: [1], limit: 2 },
  { kinds: [1], limit: 0 },
  { since: start + 1 },
  { until: start + 1 },
  { since: start + 1, until: start + 1 },
  { kinds: [1], "#t": ["y"] },
  { kinds: [1], "#t": [""] },
]) {
  const id = JSON.stringify(filter);
  socket.send(JSON.stringify(["REQ", "q", filter]));
  const found = [];
  for (let message = await next(); message[0] !== "EOSE"; message = await next()) found.push(message[2].content);
  socket.send(JSON.stringify(["CLOSE", "q"]));
  console.log(id.replaceAll(String(start + 1), "T+1"), "->", found.join(", ") || "nothing");
}
process.exit(0);
EOF
{
  echo "nostr-relay $(venv/bin/python -c 'import importlib.metadata as m; print(m.version("nostr-relay"))')"
  timeout 60 node probe.mjs "ws://127.0.0.1:$port/"
} | tee seen
diff - seen <<'EOF'
nostr-relay 1.14
{} -> nothing
{"limit":2} -> nothing
{"kinds":[1],"limit":2} -> note 2, note 1
{"kinds":[1],"limit":0} -> note 2, note 1, note 0
{"since":T+1} -> note 2, note 1
{"until":T+1} -> note 0
{"since":T+1,"until":T+1} -> nothing
{"kinds":[1],"#t":["y"]} -> nothing
{"kinds":[1],"#t":[""]} -> note 2, note 1, note 0
EOF
echo "as recorded"
