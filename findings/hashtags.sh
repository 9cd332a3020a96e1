#!/usr/bin/env bash
# A hashtag in a note: two clients write other `t` tags for it, and two others read other words in the text.
#
# Expected: NIP-24 says that the value of a `t` tag MUST be lowercase, so whoever searches for `#t` "zürich" finds each
# note with that hashtag, in whatever client it was written, and a click on it in the text asks for the same.
# Seen: NDK writes the tag as it was typed: "Zürich" is another value for a relay. applesauce makes it lowercase, but
# leaves out hashtags with a hyphen or before a full stop. Of readers, nostr-tools ends the hashtag before the first
# letter beyond ASCII, and welshman takes the end of "C#sharp" for one. A search has to ask for more than one spelling.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps @nostr-dev-kit/ndk@3.0.3 \
  applesauce-core@6.2.0 nostr-tools@2.25.2 @welshman/content@0.8.15 @welshman/lib@0.8.15

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import NDK, { NDKEvent } from "@nostr-dev-kit/ndk";
import { includeContentHashtags } from "applesauce-core/operations/content";
import { parse as parseByTools } from "nostr-tools/nip27";
import { parse as parseByWelshman } from "@welshman/content";

for (const name of ["@nostr-dev-kit/ndk", "applesauce-core", "nostr-tools", "@welshman/content"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const values = (tags) => JSON.stringify(tags.filter(([name]) => name === "t").map(([, value]) => value));
for (const content of ["#Bitcoin", "in #Zürich", "#日本語", "#node-js", "I like #nostr.", "C#sharp"]) {
  const event = { kind: 1, pubkey: "1".repeat(64), created_at: 1_700_000_000, tags: [], content };
  const { tags } = await new NDKEvent(new NDK(), { ...event }).generateTags();
  const draft = await includeContentHashtags()({ ...event });
  const tools = [...parseByTools(content)].filter(({ type }) => type === "hashtag").map(({ value }) => value);
  const topics = parseByWelshman({ content, tags: [] }).filter(({ type }) => type === "topic");
  const welshman = topics.map(({ value }) => value);
  console.log(content);
  console.log("  written by NDK:", values(tags), "applesauce:", values(draft.tags));
  console.log("  read by nostr-tools:", JSON.stringify(tools), "welshman:", JSON.stringify(welshman));
}
process.exit();
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
@nostr-dev-kit/ndk 3.0.3
applesauce-core 6.2.0
nostr-tools 2.25.2
@welshman/content 0.8.15
#Bitcoin
  written by NDK: ["Bitcoin"] applesauce: ["bitcoin"]
  read by nostr-tools: ["Bitcoin"] welshman: ["Bitcoin"]
in #Zürich
  written by NDK: ["Zürich"] applesauce: ["zürich"]
  read by nostr-tools: ["Z"] welshman: ["Zürich"]
#日本語
  written by NDK: ["日本語"] applesauce: ["日本語"]
  read by nostr-tools: [""] welshman: ["日本語"]
#node-js
  written by NDK: ["node-js"] applesauce: []
  read by nostr-tools: ["node"] welshman: ["node"]
I like #nostr.
  written by NDK: ["nostr"] applesauce: []
  read by nostr-tools: ["nostr"] welshman: ["nostr"]
C#sharp
  written by NDK: [] applesauce: []
  read by nostr-tools: [] welshman: ["sharp"]
EOF
echo "as recorded"
