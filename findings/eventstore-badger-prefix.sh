#!/usr/bin/env bash
# A store in Go takes the value of a tag for a prefix: saving the article "post-1" deletes "post-10".
#
# Expected: a condition on a tag holds for equal values, and an addressable event replaces the one with the same `d` tag
# (NIP-01). Stores with one interface answer alike.
# Seen: eventstore's badger store finds every value that begins with the one asked for: `#t` of "owl" gives "owls". It
# looks for the version to replace in the same way, so an article removes all older ones of its author whose `d` begins
# with its own, and one with an empty `d` removes all. A `d` of more than 100 bytes is not in the index, and its
# versions stay side by side. The store in memory has none of this, so tests with it do not show it. A client that
# numbers its articles, or a tool that copies them to such a relay, finds fewer than it got OK for.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
go mod init probe 2>go.log
go get github.com/fiatjaf/eventstore@v0.17.1 github.com/nbd-wtf/go-nostr@v0.52.3 2>>go.log

cat > main.go <<'EOF'
package main

import (
	"context"
	"fmt"
	"runtime/debug"
	"sort"
	"strings"

	"github.com/fiatjaf/eventstore"
	"github.com/fiatjaf/eventstore/badger"
	"github.com/fiatjaf/eventstore/slicestore"
	"github.com/nbd-wtf/go-nostr"
)

const key = "0101010101010101010101010101010101010101010101010101010101010101"

var seconds nostr.Timestamp

func event(kind int, letter, value, content string) *nostr.Event {
	seconds++
	tags := nostr.Tags{{letter, value}}
	one := nostr.Event{Kind: kind, CreatedAt: 1700000000 + seconds, Tags: tags, Content: content}
	if err := one.Sign(key); err != nil {
		panic(err)
	}
	return &one
}

func run(name string, store eventstore.Store) {
	fmt.Println(name)
	if err := store.Init(); err != nil {
		panic(err)
	}
	defer store.Close()
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	show := func(title string, filter nostr.Filter) {
		events, err := store.QueryEvents(context.Background(), filter)
		must(err)
		found := []string{}
		for one := range events {
			found = append(found, one.Content)
		}
		sort.Strings(found)
		fmt.Printf("  %s: %s\n", title, strings.Join(found, ", "))
	}
	article := func(d, content string) {
		must(store.ReplaceEvent(context.Background(), event(30023, "d", d, content)))
	}
	articles := nostr.Filter{Kinds: []int{30023}}
	for _, bird := range []string{"owl", "owls"} {
		must(store.SaveEvent(context.Background(), event(1, "t", bird, bird)))
	}
	show("notes with t of owl", nostr.Filter{Tags: nostr.TagMap{"t": {"owl"}}})
	for _, d := range []string{"post-2", "post-10", "post-11"} {
		article(d, d)
	}
	show("three articles", articles)
	article("post-1", "post-1")
	show("and post-1", articles)
	article("", "empty d")
	show("and one with an empty d", articles)
	long := strings.Repeat("x", 101)
	article(long, "long d")
	article(long, "long d edited")
	show("and one with a long d, edited", articles)
}

func main() {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/fiatjaf/eventstore" {
			fmt.Println("eventstore", module.Version)
		}
	}
	run("slicestore", &slicestore.SliceStore{})
	run("badger", &badger.BadgerBackend{Path: "badger"})
}
EOF
go mod tidy 2>>go.log
go run . 2>badger.log | tee seen
diff - seen <<'EOF'
eventstore v0.17.1
slicestore
  notes with t of owl: owl
  three articles: post-10, post-11, post-2
  and post-1: post-1, post-10, post-11, post-2
  and one with an empty d: empty d, post-1, post-10, post-11, post-2
  and one with a long d, edited: empty d, long d edited, post-1, post-10, post-11, post-2
badger
  notes with t of owl: owl, owls
  three articles: post-10, post-11, post-2
  and post-1: post-1, post-2
  and one with an empty d: empty d
  and one with a long d, edited: empty d, long d, long d edited
EOF
echo "as recorded"
