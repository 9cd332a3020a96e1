#!/usr/bin/env bash
# The `d` tag of a wiki article: nostr-tools and go-nostr make other ones than the examples of NIP-54.
#
# Expected: NIP-54 gives rules and examples, so that articles on one subject meet under one `d` tag: punctuation is
# removed, hyphens are collapsed and trimmed, and letters of all scripts stay.
# Seen: both libraries turn punctuation into hyphens and keep all of these, and the vowel signs of Hindi become hyphens
# too. Who follows a link to "What's Up?" in one client does not find the article that was written in another; ask for
# both names.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts nostr-tools@2.25.2
mkdir go
cat > go/main.go <<'EOF'
package main

import (
	"encoding/json"
	"os"
	"runtime/debug"

	"github.com/nbd-wtf/go-nostr/nip54"
)

func main() {
	names := []string{}
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/nbd-wtf/go-nostr" {
			names = append(names, module.Version)
		}
	}
	for _, title := range os.Args[1:] {
		names = append(names, nip54.NormalizeIdentifier(title))
	}
	if err := json.NewEncoder(os.Stdout).Encode(names); err != nil {
		panic(err)
	}
}
EOF
(cd go && go mod init probe && go get github.com/nbd-wtf/go-nostr@v0.52.3 && go mod tidy) 2>go.log
cat > probe.mjs <<'EOF'
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { normalizeIdentifier } from "nostr-tools/nip54";

console.log("nostr-tools", JSON.parse(readFileSync("node_modules/nostr-tools/package.json")).version);
const examples = {
  "Wiki Article": "wiki-article",
  "What's Up?": "whats-up",
  "  Hello  World  ": "hello-world",
  "Article 1": "article-1",
  "ウィキペディア": "ウィキペディア",
  "Ñoño": "ñoño",
  "日本語 Article": "日本語-article",
};
const titles = { ...examples, "हिन्दी": undefined };
const output = execFileSync("go", ["run", "-C", "go", ".", ...Object.keys(titles)], { encoding: "utf8" });
const [version, ...byGo] = JSON.parse(output);
console.log("go-nostr", version);
for (const [title, name] of Object.entries(titles)) {
  const names = `nostr-tools ${normalizeIdentifier(title)} go-nostr ${byGo.shift()}`;
  console.log(`"${title}": ${names}${name ? ` NIP-54 ${name}` : ""}`);
}
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2
go-nostr v0.52.3
"Wiki Article": nostr-tools wiki-article go-nostr wiki-article NIP-54 wiki-article
"What's Up?": nostr-tools what-s-up- go-nostr what-s-up- NIP-54 whats-up
"  Hello  World  ": nostr-tools hello--world go-nostr hello--world NIP-54 hello-world
"Article 1": nostr-tools article-1 go-nostr article-1 NIP-54 article-1
"ウィキペディア": nostr-tools ウィキペディア go-nostr ウィキペディア NIP-54 ウィキペディア
"Ñoño": nostr-tools ñoño go-nostr ñoño NIP-54 ñoño
"日本語 Article": nostr-tools 日本語-article go-nostr 日本語-article NIP-54 日本語-article
"हिन्दी": nostr-tools ह-न-द- go-nostr ह-न-द-
EOF
echo "as recorded"
