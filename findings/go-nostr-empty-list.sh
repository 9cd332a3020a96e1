#!/usr/bin/env bash
# An empty list in a filter: go-nostr matches nothing with it, and asks relays for everything.
#
# Expected: the filter that a program matches with and the one that it sends are the same. Whoever follows nobody and
# asks for `Authors: []string{}` gets nothing, or everything, in both places.
# Seen: the matcher of the library takes an empty list for "none". Its JSON leaves the list out, so the relay is asked
# without a condition and sends what it has. A filter that only passes through a program in Go (read from JSON and
# written again, as in a proxy or an import) gets wider. An empty list of a tag stays.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
go mod init probe 2>go.log
go get github.com/nbd-wtf/go-nostr@v0.52.3 2>>go.log

cat > main.go <<'EOF'
package main

import (
	"encoding/json"
	"fmt"
	"runtime/debug"

	"github.com/nbd-wtf/go-nostr"
)

func main() {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/nbd-wtf/go-nostr" {
			fmt.Println("go-nostr", module.Version)
		}
	}
	event := nostr.Event{Kind: 1, CreatedAt: 1700000000, Tags: nostr.Tags{{"t", "x"}}}
	for _, text := range []string{`{"ids":[]}`, `{"authors":[]}`, `{"kinds":[]}`, `{"#t":[]}`} {
		var filter nostr.Filter
		if err := json.Unmarshal([]byte(text), &filter); err != nil {
			panic(err)
		}
		request, _ := json.Marshal(nostr.ReqEnvelope{SubscriptionID: "q", Filters: nostr.Filters{filter}})
		fmt.Println(text, "matches:", filter.Matches(&event), "sent:", string(request))
	}
}
EOF
go mod tidy 2>>go.log
go run . | tee seen
diff - seen <<'EOF'
go-nostr v0.52.3
{"ids":[]} matches: false sent: ["REQ","q",{}]
{"authors":[]} matches: false sent: ["REQ","q",{}]
{"kinds":[]} matches: false sent: ["REQ","q",{}]
{"#t":[]} matches: false sent: ["REQ","q",{"#t":[]}]
EOF
echo "as recorded"
