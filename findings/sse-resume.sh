#!/usr/bin/env bash
# Where a client of server-sent events goes on after a cut: of eight, one does what the HTML standard says.
#
# Expected: HTML, "Server-sent events": an event counts, with its id, when its empty line has arrived; what is cut off
# is discarded. An id without data counts too, so a server can move the cursor without an event. The client comes back
# with the header `Last-Event-ID`, but never after a status other than 200.
# Seen: four clients forget an id without data. extended-eventsource counts the id of an event that was cut off, and so
# loses the event; sseclient joins the half event and its repetition; aiohttp-sse-client2 throws when a connection is
# lost. event-source-polyfill sends the id in the query, as `lastEventId`, and no header. launchdarkly-eventsource takes
# five silent seconds for a lost connection, since Node's agent has that timeout. After a status 503 three give up as
# the standard has it, three come back, two throw. So a server writes `id` behind `data`, reads both names of the
# cursor, sends a comment every few seconds, and ends a stream rather than refusing it.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts eventsource@5.1.5 eventsource-client@1.2.0 \
  event-source-plus@0.1.15 extended-eventsource@2.1.0 event-source-polyfill@1.0.31 launchdarkly-eventsource@2.2.0
python3 -m venv venv
venv/bin/pip install -q sseclient==0.0.27 requests==2.32.5 aiohttp-sse-client2==0.3.0 aiohttp==3.14.5

cat > probe.mjs <<'EOF'
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import http from "node:http";
import { createInterface } from "node:readline";
import { EventSource } from "eventsource";
import { createEventSource } from "eventsource-client";
import { EventSourcePlus } from "event-source-plus";
import { EventSource as ExtendedEventSource } from "extended-eventsource";
import polyfill from "event-source-polyfill";
import launchdarkly from "launchdarkly-eventsource";

console.error = console.warn = console.info = console.debug = () => {};
process.on("unhandledRejection", () => {});
// First answers of four servers. Further answers stay open, with a comment a second, but for the silent server's.
const servers = {
  "id without data": ["id: 1\ndata: one\n\nid: 2\n\n"],
  "cut event": ["id: 1\ndata: one\n\nid: 2\ndata: two\n"],
  "status 503": ["id: 1\ndata: one\n\n", 503],
  silence: [],
};
const seen = {};
const requests = {};
const server = http.createServer((request, response) => {
  const url = new URL(request.url, "http://localhost");
  const key = decodeURIComponent(url.pathname);
  const number = (requests[key] ??= []).length;
  const header = request.headers["last-event-id"];
  const query = url.searchParams.get("lastEventId");
  const cursor = header ?? query ?? "nothing";
  requests[key].push(query === null ? cursor : `${cursor} in the query`);
  const name = key.split("/")[2];
  const after = { nothing: "id: 1\ndata: one\n\n", 1: "id: 2\ndata: two\n\n", 2: "id: 3\ndata: three\n\n" };
  const answer = servers[name][number] ?? after[cursor] ?? ": alive\n\n";
  if (typeof answer === "number") return response.writeHead(answer).end();
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  response.write(number ? answer : `retry: 100\n\n${answer}`);
  if (name === "silence") return;
  if (number >= servers[name].length) setInterval(() => response.write(": alive\n\n"), 1000);
  else setTimeout(() => (name === "cut event" ? response.destroy() : response.end()), 100);
});
const npm = {
  eventsource: (url, take) => (new EventSource(url).onmessage = take),
  "eventsource-client": (url, onMessage) => createEventSource({ url, onMessage }),
  "event-source-plus": (url, onMessage) => new EventSourcePlus(url).listen({ onMessage }),
  "extended-eventsource": (url, take) => (new ExtendedEventSource(url).onmessage = (it) => it.data && take(it)),
  "event-source-polyfill": (url, take) => (new polyfill.EventSourcePolyfill(url).onmessage = take),
  "launchdarkly-eventsource": (url, take) => {
    const agent = url.endsWith("silence") ? http.globalAgent : new http.Agent();
    const source = new launchdarkly.EventSource(url, { initialRetryDelayMillis: 100, agent });
    source.onmessage = take;
    source.onerror = () => {};
  },
};
server.listen(0, "127.0.0.1", () => {
  const base = `http://127.0.0.1:${server.address().port}`;
  const clients = Object.keys(npm).concat(["sseclient", "aiohttp-sse-client2"]);
  for (const client of clients) {
    for (const name of Object.keys(servers)) {
      const key = `/${client}/${name}`;
      seen[key] = [];
      const take = ({ data }) => seen[key].push(data.replace("\n", "+"));
      if (npm[client]) npm[client](base + encodeURI(key), take);
      else {
        const stdio = ["ignore", "pipe", "ignore"];
        const child = spawn("venv/bin/python", ["probe.py", client, base + encodeURI(key)], { stdio });
        createInterface(child.stdout).on("line", (data) => take({ data }));
        child.unref();
        process.on("exit", () => child.kill());
      }
    }
  }
  const begun = () => Object.keys(seen).every((key) => requests[key]);
  const report = () => {
    for (const client of clients) {
      const version = npm[client] && JSON.parse(readFileSync(`node_modules/${client}/package.json`)).version;
      console.log(client, version ?? readFileSync(`${client}.version`, "utf8"));
      for (const name of Object.keys(servers)) {
        const key = `/${client}/${name}`;
        if (name === "silence") {
          console.log(`  ${name}: ${requests[key]?.length === 1 ? "stays" : "asks again"}`);
          continue;
        }
        const asked = (requests[key] ?? []).slice(1, 3).map((cursor) => `asks after ${cursor}`);
        console.log(`  ${name}: ${[...asked, `has ${seen[key].join(" ")}`].join(", ")}`);
      }
    }
    process.exit(0);
  };
  const wait = (seconds) => (begun() || !seconds ? setTimeout(report, 25000) : setTimeout(wait, 1000, seconds - 1));
  wait(300);
});
EOF
cat > probe.py <<'EOF'
import asyncio
import importlib.metadata
import sys
import sseclient
from aiohttp_sse_client2.client import EventSource

client, url = sys.argv[1:]
with open(f"{client}.version", "w") as file:
    file.write(importlib.metadata.version(client))


def show(event):
    if event.data:
        print(event.data.replace("\n", "+"), file=out, flush=True)


async def follow():
    async with EventSource(url) as events:
        async for event in events:
            show(event)


out, sys.stdout = sys.stdout, sys.stderr  # a client prints its errors
try:
    if client == "sseclient":
        for event in sseclient.SSEClient(url):
            show(event)
    else:
        asyncio.run(follow())
except Exception as error:
    print("throws", file=out, flush=True)
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
eventsource 5.1.5
  id without data: asks after 2, has one three
  cut event: asks after 1, has one two
  status 503: asks after 1, has one
  silence: stays
eventsource-client 1.2.0
  id without data: asks after 1, has one two
  cut event: asks after 1, has one two
  status 503: asks after 1, asks after 1, has one two
  silence: stays
event-source-plus 0.1.15
  id without data: asks after 1, has one two
  cut event: asks after 1, has one two
  status 503: asks after 1, asks after 1, has one two
  silence: stays
extended-eventsource 2.1.0
  id without data: asks after 2, has one three
  cut event: asks after 2, has one three
  status 503: asks after 1, has one
  silence: stays
event-source-polyfill 1.0.31
  id without data: asks after 1 in the query, has one two
  cut event: asks after 1 in the query, has one two
  status 503: asks after 1 in the query, has one
  silence: stays
launchdarkly-eventsource 2.2.0
  id without data: asks after 1, has one two
  cut event: asks after 1, has one two
  status 503: asks after 1, asks after 1, has one two
  silence: asks again
sseclient 0.0.27
  id without data: asks after 2, has one three
  cut event: asks after 1, has one two+two
  status 503: asks after 1, has one throws
  silence: stays
aiohttp-sse-client2 0.3.0
  id without data: asks after 2, has one three
  cut event: has one throws
  status 503: asks after 1, has one throws
  silence: stays
EOF
echo "as recorded"
