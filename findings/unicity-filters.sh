#!/usr/bin/env bash
# A filter of the npm package @unicitylabs/nostr-js-sdk: what it does not know it drops, and so it asks for everything.
#
# Expected: a tag filter of NIP-01 is any letter with `#`, and a filter that is read from JSON is sent as it was read,
# or refused. A condition less means more events.
# Seen: of the tags only e, p, t, d and h are kept. The comments on one article (`#A`, NIP-22) become all comments of
# everybody; the same holds for `#a`, `#k`, `#q`, capitals, and the words of a search (NIP-50). Empty lists, which
# match nothing, are dropped too. nostr-tools, given the same JSON, keeps to it. Check what `toJSON()` gives before a
# subscription.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts @unicitylabs/nostr-js-sdk@0.6.0 nostr-tools@2.25.2

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { Filter } from "@unicitylabs/nostr-js-sdk";
import { matchFilter } from "nostr-tools/filter";

for (const name of ["@unicitylabs/nostr-js-sdk", "nostr-tools"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const event = { id: "0".repeat(64), pubkey: "1".repeat(64), kind: 1111, tags: [["A", "other"]], content: "" };
event.created_at = 1700000000;
for (const json of [
  '{"kinds":[1111],"#A":["30023:key:owls"]}',
  '{"kinds":[1111],"#a":["30023:key:owls"],"limit":10}',
  '{"kinds":[1111],"#q":["note"],"#e":["root"]}',
  '{"kinds":[1111],"search":"owls"}',
  '{"kinds":[1111],"authors":[]}',
]) {
  const sent = Filter.fromJSON(json).toJSON();
  console.log(json, "is sent as", JSON.stringify(sent));
  const [before, after] = [JSON.parse(json), sent].map((filter) => matchFilter(filter, event));
  if (before !== after) console.log("  another comment matches: before", before, "- as sent", after);
}
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
@unicitylabs/nostr-js-sdk 0.6.0
nostr-tools 2.25.2
{"kinds":[1111],"#A":["30023:key:owls"]} is sent as {"kinds":[1111]}
  another comment matches: before false - as sent true
{"kinds":[1111],"#a":["30023:key:owls"],"limit":10} is sent as {"kinds":[1111],"limit":10}
  another comment matches: before false - as sent true
{"kinds":[1111],"#q":["note"],"#e":["root"]} is sent as {"kinds":[1111],"#e":["root"]}
{"kinds":[1111],"search":"owls"} is sent as {"kinds":[1111]}
{"kinds":[1111],"authors":[]} is sent as {"kinds":[1111]}
  another comment matches: before false - as sent true
EOF
echo "as recorded"
