#!/usr/bin/env bash
# A reply that also names a third note: of five libraries three take that note for the one it replies to.
#
# Expected: by NIP-10 markers let a note mention others without confusing them with root and reply; a tag with "root"
# and none with "reply" is a direct reply to the root; markers are optional, and only where no tag has one do positions
# count: the first is the root, the last the reply, any between are mentions.
# Seen: with a marked root and a tag without marker nostr-tools and go-nostr give the tag without marker as parent, and
# welshman both, or for the other order makes it the root. go-nostr finds the root of a thread in a note that only
# mentions. Without markers NDK knows no root as soon as there is a mention: `getRootEventId` gives the reply, so the
# next answer starts another thread. A mention in a `q` tag, as NIP-10 now has it, leaves the parent the same in all.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps nostr-tools@2.25.2 \
  applesauce-common@6.2.0 applesauce-core@6.2.0 @nostr-dev-kit/ndk@3.0.3 @welshman/util@0.8.15 @welshman/lib@0.8.15 \
  @noble/curves@1.9.7 ws@8.23.0
mkdir go
(cd go && go mod init probe && go get github.com/nbd-wtf/go-nostr@v0.52.3) 2>go.log

cat > notes.json <<'EOF'
{
  "root and reply": [["e", "ROOT", "", "root"], ["e", "PARENT", "", "reply"]],
  "root, then no marker": [["e", "ROOT", "", "root"], ["e", "MENTION"]],
  "no marker, then root": [["e", "MENTION"], ["e", "ROOT", "", "root"]],
  "root, reply, then no marker": [["e", "ROOT", "", "root"], ["e", "PARENT", "", "reply"], ["e", "MENTION"]],
  "a mention only": [["e", "MENTION", "", "mention"]],
  "no markers": [["e", "ROOT"], ["e", "MENTION"], ["e", "PARENT"]],
  "root, then q": [["e", "ROOT", "", "root"], ["q", "MENTION"]]
}
EOF
for name in aROOT bPARENT cMENTION; do
  sed -i "s/\"${name:1}\"/\"$(printf "${name:0:1}%.0s" {1..64})\"/" notes.json
done
cat > probe.mjs <<'EOF'
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import WebSocket from "ws";
globalThis.WebSocket = WebSocket;
const { parse } = await import("nostr-tools/nip10");
const { getNip10References } = await import("applesauce-common/helpers");
const { getEventReplyId, getRootEventId, NDKEvent } = await import("@nostr-dev-kit/ndk");
const { getReplyTagValues } = await import("@welshman/util");

for (const name of ["nostr-tools", "applesauce-common", "@nostr-dev-kit/ndk", "@welshman/util"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const go = JSON.parse(execFileSync("go/probe", ["notes.json"]));
console.log("go-nostr", go.version);
const names = { a: "root", b: "parent", c: "mention" };
const show = (library, roots, parents) => {
  const list = (ids) => ids.filter(Boolean).map((id) => names[id[0]]).join(" and ") || "none";
  console.log(`  ${library}: root ${list(roots)}, parent ${list(parents)}`);
};
for (const [title, tags] of Object.entries(JSON.parse(readFileSync("notes.json")))) {
  console.log(title);
  const note = () => structuredClone({ kind: 1, pubkey: "d".repeat(64), created_at: 1700000000, content: "", tags });
  const tools = parse(note());
  show("nostr-tools", [tools.root?.id], [tools.reply?.id]);
  const applesauce = getNip10References(note());
  show("applesauce", [applesauce.root?.e?.id], [applesauce.reply?.e?.id]);
  const ndk = new NDKEvent(undefined, note());
  show("NDK", [getRootEventId(ndk)], [getEventReplyId(ndk)]);
  const welshman = getReplyTagValues(tags);
  show("welshman", welshman.roots, welshman.replies);
  show("go-nostr", [go.notes[title].Root], [go.notes[title].Parent]);
}
process.exit(0);
EOF
cat > go/main.go <<'EOF'
package main

import (
	"encoding/json"
	"os"
	"runtime/debug"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip10"
)

func id(pointer nostr.Pointer) string {
	if pointer == nil {
		return ""
	}
	return pointer.AsTagReference()
}

func main() {
	text, err := os.ReadFile(os.Args[1])
	if err != nil {
		panic(err)
	}
	notes := map[string]nostr.Tags{}
	if err := json.Unmarshal(text, &notes); err != nil {
		panic(err)
	}
	found := map[string]struct{ Root, Parent string }{}
	for title, tags := range notes {
		found[title] = struct{ Root, Parent string }{id(nip10.GetThreadRoot(tags)), id(nip10.GetImmediateParent(tags))}
	}
	version := ""
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/nbd-wtf/go-nostr" {
			version = module.Version
		}
	}
	json.NewEncoder(os.Stdout).Encode(map[string]any{"version": version, "notes": found})
}
EOF
(cd go && go mod tidy && go build -o probe .) 2>>go.log
node probe.mjs | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2
applesauce-common 6.2.0
@nostr-dev-kit/ndk 3.0.3
@welshman/util 0.8.15
go-nostr v0.52.3
root and reply
  nostr-tools: root root, parent parent
  applesauce: root root, parent parent
  NDK: root root, parent parent
  welshman: root root, parent parent
  go-nostr: root root, parent parent
root, then no marker
  nostr-tools: root root, parent mention
  applesauce: root root, parent root
  NDK: root root, parent root
  welshman: root none, parent root and mention
  go-nostr: root root, parent mention
no marker, then root
  nostr-tools: root root, parent mention
  applesauce: root root, parent root
  NDK: root root, parent root
  welshman: root mention, parent root
  go-nostr: root root, parent root
root, reply, then no marker
  nostr-tools: root root, parent parent
  applesauce: root root, parent parent
  NDK: root root, parent parent
  welshman: root root, parent parent and mention
  go-nostr: root root, parent parent
a mention only
  nostr-tools: root none, parent none
  applesauce: root none, parent none
  NDK: root none, parent none
  welshman: root none, parent none
  go-nostr: root mention, parent none
no markers
  nostr-tools: root root, parent parent
  applesauce: root root, parent parent
  NDK: root parent, parent parent
  welshman: root root, parent parent
  go-nostr: root root, parent parent
root, then q
  nostr-tools: root root, parent root
  applesauce: root root, parent root
  NDK: root root, parent root
  welshman: root none, parent root
  go-nostr: root root, parent root
EOF
echo "as recorded"
