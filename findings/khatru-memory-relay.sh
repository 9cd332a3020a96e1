#!/usr/bin/env bash
# A relay of khatru with eventstore's store in memory: `since` leaves out its own second, and lists are not deleted.
#
# Expected: an event matches if `since <= created_at <= until` (NIP-01), and COUNT has the number that REQ sends. The
# address of a replaceable event ends in a colon, as `10002:PUBKEY:`, and a deletion of it works as for an article.
# Seen: the store starts after the second of `since`, so a client that goes on from the time of its newest event misses
# the others of that second, and a window of one second is empty; COUNT of the same filter includes them. khatru looks
# for a `d` tag with an empty value, which lists and profiles do not have: the deletion gets OK true, and the list
# stays. The pair makes a relay for tests in a few lines, and a client that passes there may fail elsewhere.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
go mod init probe 2>go.log
go get github.com/fiatjaf/khatru@v0.19.1 github.com/fiatjaf/eventstore@v0.17.1 \
  github.com/nbd-wtf/go-nostr@v0.52.3 2>>go.log

cat > main.go <<'EOF'
package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"runtime/debug"
	"sort"
	"strings"

	"github.com/fiatjaf/eventstore/slicestore"
	"github.com/fiatjaf/khatru"
	"github.com/nbd-wtf/go-nostr"
)

const key = "0101010101010101010101010101010101010101010101010101010101010101"

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if strings.HasPrefix(module.Path, "github.com/fiatjaf/") {
			fmt.Println(strings.TrimPrefix(module.Path, "github.com/fiatjaf/"), module.Version)
		}
	}
	store := slicestore.SliceStore{}
	must(store.Init())
	relay := khatru.NewRelay()
	relay.StoreEvent = append(relay.StoreEvent, store.SaveEvent)
	relay.ReplaceEvent = append(relay.ReplaceEvent, store.ReplaceEvent)
	relay.DeleteEvent = append(relay.DeleteEvent, store.DeleteEvent)
	relay.QueryEvents = append(relay.QueryEvents, store.QueryEvents)
	relay.CountEvents = append(relay.CountEvents, store.CountEvents)
	server := httptest.NewServer(relay)
	defer server.Close()
	ctx := context.Background()
	client, err := nostr.RelayConnect(ctx, strings.Replace(server.URL, "http", "ws", 1))
	must(err)
	publish := func(kind int, seconds nostr.Timestamp, content string, tags nostr.Tags) error {
		event := nostr.Event{Kind: kind, CreatedAt: 1700000000 + seconds, Content: content, Tags: tags}
		must(event.Sign(key))
		return client.Publish(ctx, event)
	}
	show := func(title string, filter nostr.Filter) {
		events, err := client.QuerySync(ctx, filter)
		must(err)
		found := []string{}
		for _, event := range events {
			found = append(found, event.Content)
		}
		sort.Strings(found)
		count, _, err := client.Count(ctx, nostr.Filters{filter})
		must(err)
		fmt.Printf("%s: REQ %s; COUNT %d\n", title, strings.Join(found, ", "), count)
	}
	for seconds, content := range []string{"note of 0", "note of 1", "note of 2"} {
		must(publish(1, nostr.Timestamp(seconds), content, nil))
	}
	one := nostr.Timestamp(1700000001)
	notes := []int{1}
	show("since 1", nostr.Filter{Kinds: notes, Since: &one})
	show("until 1", nostr.Filter{Kinds: notes, Until: &one})
	show("from 1 to 1", nostr.Filter{Kinds: notes, Since: &one, Until: &one})

	author, err := nostr.GetPublicKey(key)
	must(err)
	must(publish(0, 0, "profile", nil))
	must(publish(10002, 0, "relays", nostr.Tags{{"r", "wss://relay.example"}}))
	must(publish(30023, 0, "article", nostr.Tags{{"d", "a"}}))
	addressed := nostr.Filter{Kinds: []int{0, 10002, 30023}}
	show("before the deletion", addressed)
	for _, address := range []string{"0:" + author + ":", "10002:" + author + ":", "30023:" + author + ":a"} {
		must(publish(5, 100, "", nostr.Tags{{"a", address}}))
		fmt.Println("deletion of", strings.Replace(address, author, "PUBKEY", 1), "got OK true")
	}
	show("after", addressed)
}
EOF
go mod tidy 2>>go.log
go run . 2>relay.log | tee seen
diff - seen <<'EOF'
eventstore v0.17.1
khatru v0.19.1
since 1: REQ note of 2; COUNT 2
until 1: REQ note of 0, note of 1; COUNT 2
from 1 to 1: REQ ; COUNT 1
before the deletion: REQ article, profile, relays; COUNT 3
deletion of 0:PUBKEY: got OK true
deletion of 10002:PUBKEY: got OK true
deletion of 30023:PUBKEY:a got OK true
after: REQ profile, relays; COUNT 2
EOF
echo "as recorded"
