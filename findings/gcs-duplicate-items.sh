#!/usr/bin/env bash
# A filter of BIP 158 over a list with a duplicate: btcutil's two packages disagree.
#
# Expected: BIP 158 filters a *set*; whoever gives each output script of a block to a builder of filters gets the
# filter of the set. A script that is paid twice in a block is ordinary.
# Seen: `gcs.BuildGCSFilter` takes the list as it is: the count in front is that of the list, the range of the hashes
# follows from the count, and so every byte differs from the filter that Bitcoin Core serves. Only `gcs/builder`, one
# level higher, makes a set of it. Both filters match their items, so no test of matches shows it; the header chain
# does.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
go mod init probe 2>go.log
go get github.com/btcsuite/btcd/btcutil@v1.2.0 2>>go.log

cat > main.go <<'EOF'
package main

import (
	"encoding/hex"
	"fmt"
	"runtime/debug"

	"github.com/btcsuite/btcd/btcutil/gcs"
	"github.com/btcsuite/btcd/btcutil/gcs/builder"
)

func show(name string, filter *gcs.Filter, key [gcs.KeySize]byte, item []byte) {
	bytes, err := filter.NBytes()
	if err != nil {
		panic(err)
	}
	match, err := filter.Match(key, item)
	if err != nil {
		panic(err)
	}
	fmt.Println(name, "count:", filter.N(), "matches:", match, "bytes:", hex.EncodeToString(bytes))
}

func main() {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/btcsuite/btcd/btcutil" {
			fmt.Println("btcutil", module.Version)
		}
	}
	var key [gcs.KeySize]byte
	list := [][]byte{[]byte("alice"), []byte("bob"), []byte("alice")}
	for _, items := range [][][]byte{list[:2], list} {
		filter, err := gcs.BuildGCSFilter(builder.DefaultP, builder.DefaultM, key, items)
		if err != nil {
			panic(err)
		}
		show(fmt.Sprintf("gcs, %d items:", len(items)), filter, key, list[0])
	}
	filter, err := builder.WithKeyPM(key, builder.DefaultP, builder.DefaultM).AddEntries(list).Build()
	if err != nil {
		panic(err)
	}
	show("builder, 3 items:", filter, key, list[0])
}
EOF
go mod tidy 2>>go.log
go run . | tee seen
diff - seen <<'EOF'
btcutil v1.2.0
gcs, 2 items: count: 2 matches: true bytes: 02986d8bb7b900
gcs, 3 items: count: 3 matches: true bytes: 03c252240000264e58
builder, 3 items: count: 2 matches: true bytes: 02986d8bb7b900
EOF
echo "as recorded"
