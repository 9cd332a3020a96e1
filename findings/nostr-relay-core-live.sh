#!/usr/bin/env bash
# The relay `@nostr-relay/core`: live events ignore the tags of a filter, and a repeated REQ gets an old answer.
#
# Expected: NIP-01 has one meaning for a filter. What a REQ finds among stored events, it finds among new ones, and a
# note that got OK true is found by the next REQ that asks for it.
# Seen: the stored part matches as usual. New events are matched by ids, authors, kinds and time only: a subscription to
# `#p` of one person, or to one `#t`, gets the notes of everybody. The answer to a filter is kept for a second, so a REQ
# that repeats an earlier one in that time misses what was stored since; `{"limit":1}` more makes it another filter. A
# client must match live events itself, and a tool that writes and reads back must not take the answer for a lost note.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  @nostr-relay/core@0.0.40 @nostr-relay/common@0.0.40 nostr-tools@2.25.2 ws@8.23.0

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import common from "@nostr-relay/common";
import core from "@nostr-relay/core";
import { matchFilter } from "nostr-tools/filter";
import { finalizeEvent } from "nostr-tools/pure";
import WebSocket, { WebSocketServer } from "ws";

for (const name of ["@nostr-relay/core", "@nostr-relay/common"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
class Memory extends common.EventRepository {
  events = [];
  isSearchSupported() {
    return false;
  }
  upsert(event) {
    this.events.unshift(event);
    return { isDuplicate: false };
  }
  find(filter) {
    return this.events.filter((event) => matchFilter(filter, event)).slice(0, filter.limit ?? 100);
  }
  async destroy() {}
}
const relay = new core.NostrRelay(new Memory(), { logLevel: common.LogLevel.ERROR });
const server = new WebSocketServer({ port: 0, host: "127.0.0.1" });
await new Promise((resolve) => server.on("listening", resolve));
server.on("connection", (socket) => {
  relay.handleConnection(socket, "127.0.0.1");
  socket.on("message", (text) => relay.handleMessage(socket, JSON.parse(text)));
});
const socket = new WebSocket(`ws://127.0.0.1:${server.address().port}`);
await new Promise((resolve) => socket.on("open", resolve));
const inbox = [];
let wake = () => {};
socket.on("message", (text) => {
  inbox.push(JSON.parse(text));
  wake();
});
const until = async (verb) => {
  const passed = [];
  for (;;) {
    while (inbox.length === 0) await new Promise((resolve) => (wake = resolve));
    const message = inbox.shift();
    if (message[0] === verb) return passed;
    passed.push(message);
  }
};
const key = new Uint8Array(32).fill(1);
const publish = async (content, tags) => {
  const note = { kind: 1, created_at: 1_700_000_000, tags, content };
  socket.send(JSON.stringify(["EVENT", finalizeEvent(note, key)]));
  return until("OK");
};
const shown = (messages) => messages.map(([, , event]) => event.content).join(", ") || "nothing";
const ask = async (id, filter) => {
  socket.send(JSON.stringify(["REQ", id, filter]));
  console.log("REQ", JSON.stringify(filter), "->", shown(await until("EOSE")));
};
await publish("a stored owl", [["t", "owl"]]);
await publish("a stored crow", [["t", "crow"]]);
await ask("live", { "#t": ["owl"] });
for (const bird of ["owl", "crow"]) console.log(`new ${bird} ->`, shown(await publish(`a new ${bird}`, [["t", bird]])));
socket.send(JSON.stringify(["CLOSE", "live"]));
await ask("again", { "#t": ["owl"] });
await ask("again", { "#t": ["owl"], limit: 100 });
process.exit(0);
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
@nostr-relay/core 0.0.40
@nostr-relay/common 0.0.40
REQ {"#t":["owl"]} -> a stored owl
new owl -> a new owl
new crow -> a new crow
REQ {"#t":["owl"]} -> a stored owl
REQ {"#t":["owl"],"limit":100} -> a new owl, a stored owl
EOF
echo "as recorded"
