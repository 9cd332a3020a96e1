#!/usr/bin/env bash
# Calendar events (NIP-52) and files (NIP-94) through go-nostr: a picture becomes a title, and no file is an image.
#
# Expected: what a library reads from tags and writes to tags again is the same event: a picture of an appointment, its
# time zone and its `D` tags, of which NIP-52 requires one so that a relay can be asked for a day; the type of a file
# (`m`, which NIP-94 requires) and its previews, `thumb` and `image`.
# Seen: the `image` that is written is the title. Time zone, summary and `D` are gone: a relay that is asked for the day
# by `#D` does not find the appointment any more. The type of a file is not read, so `IsImage` and `IsVideo` are false
# for every file and `DisplayImage` is empty; `thumb` is read as `image`, and `image` not at all. Read and change the
# tags themselves, and use these types for looking only.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
go mod init probe 2>go.log
go get github.com/nbd-wtf/go-nostr@v0.52.3 2>>go.log

cat > main.go <<'EOF'
package main

import (
	"fmt"
	"runtime/debug"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip52"
	"github.com/nbd-wtf/go-nostr/nip94"
)

func compare(title string, before, after nostr.Tags) {
	fmt.Println(title)
	for _, tag := range before {
		found := after.FindWithValue(tag[0], tag[1])
		if found == nil {
			found = after.Find(tag[0])
		}
		switch {
		case found == nil:
			fmt.Println("  lost:", tag)
		case found[1] != tag[1]:
			fmt.Println("  changed:", tag, "to", found)
		default:
			fmt.Println("  kept:", tag)
		}
	}
}

func main() {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/nbd-wtf/go-nostr" {
			fmt.Println("go-nostr", module.Version)
		}
	}
	meeting := nostr.Event{Kind: 31923, Tags: nostr.Tags{
		{"d", "owls"}, {"title", "Owl night"}, {"summary", "Bring a lamp"}, {"image", "https://pictures.example/owl.png"},
		{"start", "1700000000"}, {"end", "1700003600"}, {"start_tzid", "Europe/Zurich"}, {"D", "19675"},
		{"location", "the old tower"}, {"t", "owls"},
	}}
	compare("a calendar event, read and written:", meeting.Tags, nip52.ParseCalendarEvent(meeting).ToHashtags())

	file := nostr.Event{Kind: 1063, Tags: nostr.Tags{
		{"url", "https://files.example/owl.png"}, {"m", "image/png"},
		{"x", "5b0d7b8fd7fa0e5b4a0d5b7a1e1e0c1b1f2a3d4c5b6a798897a6b5c4d3e2f101"}, {"dim", "800x600"},
		{"thumb", "https://files.example/owl-small.png"}, {"image", "https://files.example/owl-middle.png"},
		{"alt", "an owl"},
	}}
	metadata := nip94.ParseFileMetadata(file)
	compare("a file, read and written:", file.Tags, metadata.ToTags())
	fmt.Printf("an image: %t\n", metadata.IsImage())
	metadata = nip94.ParseFileMetadata(nostr.Event{Kind: 1063, Tags: file.Tags[:4]})
	fmt.Printf("without previews, picture to display: %q\n", metadata.DisplayImage())
}
EOF
go mod tidy 2>>go.log
go run . | tee seen
diff - seen <<'EOF'
go-nostr v0.52.3
a calendar event, read and written:
  kept: [d owls]
  kept: [title Owl night]
  lost: [summary Bring a lamp]
  changed: [image https://pictures.example/owl.png] to [image Owl night]
  kept: [start 1700000000]
  kept: [end 1700003600]
  lost: [start_tzid Europe/Zurich]
  lost: [D 19675]
  kept: [location the old tower]
  kept: [t owls]
a file, read and written:
  kept: [url https://files.example/owl.png]
  lost: [m image/png]
  kept: [x 5b0d7b8fd7fa0e5b4a0d5b7a1e1e0c1b1f2a3d4c5b6a798897a6b5c4d3e2f101]
  kept: [dim 800x600]
  lost: [thumb https://files.example/owl-small.png]
  changed: [image https://files.example/owl-middle.png] to [image https://files.example/owl-small.png]
  lost: [alt an owl]
an image: false
without previews, picture to display: ""
EOF
echo "as recorded"
