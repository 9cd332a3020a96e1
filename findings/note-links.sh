#!/usr/bin/env bash
# Mentions in the text of a note, read by five libraries: quotation marks hide them from one, `note1` from another.
#
# Expected: NIP-27 puts `nostr:` URIs of NIP-21 anywhere in a text, of all identifiers of NIP-19 but `nsec`. Schemes of
# URIs can be in capitals (RFC 3986, section 3.1), and bech32 codes too, if all their letters are.
# Seen: applesauce leaves URIs in quotation marks or asterisks as text, for it wants a space, or a space and a bracket,
# before. go-nostr reads all identifiers but `note`. In capitals applesauce alone reads the whole, and nostr-sdk not
# even the code. Of two without a space between them nostr-tools and go-nostr read the second, the others none;
# nostr-sdk gives the first letter of the second to the first, and for welshman the first code is the name of an emoji.
# Who writes mentions should put spaces around them and write `nevent`; who looks for them should go by the tags.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps nostr-tools@2.25.2 \
  applesauce-content@6.2.0 applesauce-core@6.2.0 @welshman/content@0.8.15 @welshman/util@0.8.15 @welshman/lib@0.8.15 \
  @noble/curves@1.9.7
python3 -m venv venv
venv/bin/pip install -q nostr-sdk==0.45.1
mkdir go
(cd go && go mod init probe && go get github.com/nbd-wtf/go-nostr@v0.52.3) 2>go.log

cat > probe.mjs <<'EOF'
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { getParsedContent } from "applesauce-content/text";
import { parse as parseTools } from "nostr-tools/nip27";
import { neventEncode, noteEncode, npubEncode } from "nostr-tools/nip19";
import { parse as parseWelshman } from "@welshman/content";

const codes = {
  NPUB: npubEncode("7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e"),
  NOTE: noteEncode("3".repeat(64)),
  NEVENT: neventEncode({ id: "3".repeat(64) }),
};
const brief = (text) => {
  for (const [name, code] of Object.entries(codes)) text = text.replace(code, name).replace(code.toUpperCase(), name);
  return text;
};
const texts = [
  `by nostr:${codes.NPUB}, see nostr:${codes.NEVENT}`,
  `see nostr:${codes.NOTE} of yesterday`,
  `**nostr:${codes.NPUB}** wrote "nostr:${codes.NEVENT}"`,
  `by ${`nostr:${codes.NPUB}`.toUpperCase()} today`,
  `by nostr:${codes.NPUB.toUpperCase()} today`,
  `nostr:${codes.NPUB}nostr:${codes.NEVENT}`,
];
writeFileSync("texts.json", JSON.stringify(texts));
const welshman = (node) => {
  if (node.type === "text") return node.value;
  return node.type === "emoji" ? `<emoji ${node.raw}>` : `<${node.raw}>`;
};
const found = {
  "nostr-tools": texts.map((text) =>
    [...parseTools(text)].map((block) =>
      block.type === "text" ? block.text : `<${text.slice(block.start, block.end)}>`,
    ),
  ),
  "applesauce-content": texts.map((text) =>
    getParsedContent(text).children.map((node) => (node.type === "text" ? node.value : `<nostr:${node.encoded}>`)),
  ),
  "@welshman/content": texts.map((content) => parseWelshman({ content, tags: [] }).map(welshman)),
  "nostr-sdk": JSON.parse(execFileSync("venv/bin/python", ["probe.py"])),
  "go-nostr": JSON.parse(execFileSync("go/probe")),
};
for (const name of ["nostr-tools", "applesauce-content", "@welshman/content"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
console.log("nostr-sdk", found["nostr-sdk"].pop()[0]);
console.log("go-nostr", found["go-nostr"].pop()[0]);
for (const [index, text] of texts.entries()) {
  const capitals = text.includes(codes.NPUB.toUpperCase()) ? ", the code in capitals" : "";
  console.log(brief(text) + capitals);
  for (const [name, lists] of Object.entries(found)) {
    console.log(`  ${name}:`, lists[index].map(brief).join("|"));
  }
}
EOF
cat > probe.py <<'EOF'
import importlib.metadata, json
from nostr_sdk import NostrParser

def show(token):
    if token.is_text():
        return token.text
    if token.is_whitespace():
        return " "
    uri = token.uri
    identifier = uri.public_key if uri.is_pubkey() else uri.event_id if uri.is_note() else uri.event
    return f"<{identifier.to_nostr_uri()}>"

texts = json.load(open("texts.json"))
lists = [[show(token) for token in NostrParser().parse(text)] for text in texts]
print(json.dumps(lists + [[importlib.metadata.version("nostr-sdk")]]))
EOF
cat > go/main.go <<'EOF'
package main

import (
	"encoding/json"
	"os"
	"runtime/debug"

	"github.com/nbd-wtf/go-nostr/nip27"
)

func main() {
	text, err := os.ReadFile("texts.json")
	if err != nil {
		panic(err)
	}
	texts := []string{}
	if err := json.Unmarshal(text, &texts); err != nil {
		panic(err)
	}
	lists := [][]string{}
	for _, text := range texts {
		list := []string{}
		for block := range nip27.Parse(text) {
			if block.Pointer == nil {
				list = append(list, block.Text)
			} else {
				list = append(list, "<"+block.Text+">")
			}
		}
		lists = append(lists, list)
	}
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/nbd-wtf/go-nostr" {
			lists = append(lists, []string{module.Version})
		}
	}
	json.NewEncoder(os.Stdout).Encode(lists)
}
EOF
(cd go && go mod tidy && go build -o probe .) 2>>go.log
node probe.mjs | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2
applesauce-content 6.2.0
@welshman/content 0.8.15
nostr-sdk 0.45.1
go-nostr v0.52.3
by nostr:NPUB, see nostr:NEVENT
  nostr-tools: by |<nostr:NPUB>|, see |<nostr:NEVENT>
  applesauce-content: by |<nostr:NPUB>|, see |<nostr:NEVENT>
  @welshman/content: by |<nostr:NPUB>|, see |<nostr:NEVENT>
  nostr-sdk: by| |<nostr:NPUB>|, see| |<nostr:NEVENT>
  go-nostr: by |<nostr:NPUB>|, see |<nostr:NEVENT>
see nostr:NOTE of yesterday
  nostr-tools: see |<nostr:NOTE>| of yesterday
  applesauce-content: see |<nostr:NOTE>| of yesterday
  @welshman/content: see |<nostr:NOTE>| of yesterday
  nostr-sdk: see| |<nostr:NOTE>| |of yesterday
  go-nostr: see nostr:NOTE of yesterday
**nostr:NPUB** wrote "nostr:NEVENT"
  nostr-tools: **|<nostr:NPUB>|** wrote "|<nostr:NEVENT>|"
  applesauce-content: **nostr:NPUB** wrote "nostr:NEVENT"
  @welshman/content: **|<nostr:NPUB>|** wrote "|<nostr:NEVENT>|"
  nostr-sdk: **|<nostr:NPUB>|** wrote "|<nostr:NEVENT>|"
  go-nostr: **|<nostr:NPUB>|** wrote "|<nostr:NEVENT>|"
by NOSTR:NPUB today, the code in capitals
  nostr-tools: by NOSTR:NPUB today
  applesauce-content: by |<nostr:NPUB>| today
  @welshman/content: by NOSTR:NPUB today
  nostr-sdk: by NOSTR:NPUB today
  go-nostr: by NOSTR:NPUB today
by nostr:NPUB today, the code in capitals
  nostr-tools: by |<nostr:NPUB>| today
  applesauce-content: by |<nostr:NPUB>| today
  @welshman/content: by |<nostr:NPUB>| today
  nostr-sdk: by nostr:NPUB today
  go-nostr: by |<nostr:NPUB>| today
nostr:NPUBnostr:NEVENT
  nostr-tools: nostr:NPUB|<nostr:NEVENT>
  applesauce-content: nostr:NPUBnostr:NEVENT
  @welshman/content: nostr|<emoji :NPUBnostr:>|NEVENT
  nostr-sdk: nostr:NPUBn|ostr:NEVENT
  go-nostr: nostr:NPUB|<nostr:NEVENT>
EOF
echo "as recorded"
