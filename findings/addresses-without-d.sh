#!/usr/bin/env bash
# The address of a profile, a relay list, or an article with an empty `d`: four libraries disagree.
#
# Expected: NIP-01 writes the address of a replaceable event with an empty third part, and NIP-19 says that an `naddr`
# has an empty identifier then. An addressable event may have an empty `d` as well, and is then one of many.
# Seen: go-nostr writes such an `naddr` and refuses to read it, its own and others'. Its filter for a replaceable event
# asks for `d` = "", which an event without a `d` tag does not match, though `MatchesEvent` of the same pointer says
# that it does. NDK leaves out an empty `d`: right for a relay list, but for an article it asks for all articles of the
# author; welshman does the same. NDK also cuts an address with a second colon there, and refers to a profile
# or relay list by the id of one version, so what was said about it is lost with the next version. nostr-sdk calls the
# address of an article with an empty `d` invalid.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q nostr-sdk==0.45.1
npm install --silent --no-audit --no-fund --ignore-scripts \
  @nostr-dev-kit/ndk@3.0.3 @welshman/util@0.8.15 @welshman/lib@0.8.15 nostr-tools@2.25.2
go mod init probe 2>go.log
go get github.com/nbd-wtf/go-nostr@v0.52.3 2>>go.log

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import NDK, { filterFromId, NDKEvent } from "@nostr-dev-kit/ndk";
import { getIdFilters } from "@welshman/util";
import { decode, naddrEncode } from "nostr-tools/nip19";

for (const name of ["@nostr-dev-kit/ndk", "@welshman/util", "nostr-tools"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const pubkey = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d";
const brief = (value) => JSON.stringify(value).replaceAll(pubkey, "KEY");
for (const [kind, identifier] of [[10002, ""], [30023, ""], [30023, "a:b"]]) {
  const naddr = naddrEncode({ kind, identifier, pubkey });
  const address = `${kind}:${pubkey}:${identifier}`;
  console.log("address", address.replace(pubkey, "KEY"), "is read back:", decode(naddr).data.identifier === identifier);
  console.log("  NDK, naddr:", brief(filterFromId(naddr)));
  console.log("  NDK, address:", brief(filterFromId(address)));
  console.log("  welshman, address:", brief(getIdFilters([address])[0]));
}
const ndk = new NDK();
for (const kind of [0, 10002, 30023]) {
  const event = new NDKEvent(ndk, { kind, pubkey, content: "", tags: [], created_at: 1700000000 });
  event.id = event.getEventHash();
  console.log(`NDK, reference to kind ${kind}:`, event.referenceTags().map((tag) => tag[0]).join(" "));
}
process.exit(0);
EOF
cat > main.go <<'EOF'
package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip19"
)

func main() {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/nbd-wtf/go-nostr" {
			fmt.Println("go-nostr", module.Version)
		}
	}
	key := "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"
	for _, kind := range []int{0, 10002, 30023} {
		naddr, err := nip19.EncodeEntity(key, kind, "", nil)
		if err != nil {
			panic(err)
		}
		_, _, err = nip19.Decode(naddr)
		fmt.Println("naddr of kind", kind, "read again:", err)
	}
	pointer := nostr.EntityPointer{PublicKey: key, Kind: 10002}
	list := nostr.Event{PubKey: key, Kind: 10002}
	filter := pointer.AsFilter()
	fmt.Println("filter:", strings.ReplaceAll(filter.String(), key, "KEY"))
	fmt.Println("a relay list matches the pointer:", pointer.MatchesEvent(list), "- the filter:", filter.Matches(&list))
}
EOF
cat > probe.py <<'EOF'
import importlib.metadata
from nostr_sdk import Coordinate, Kind, PublicKey

print("nostr-sdk", importlib.metadata.version("nostr-sdk"))
key = PublicKey.parse("3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d")
for kind, identifier in [(10002, ""), (30023, "owls"), (30023, "")]:
    print("address of kind", kind, repr(identifier), "valid:", Coordinate(Kind(kind), key, identifier).verify())
EOF
go mod tidy 2>>go.log
{ node probe.mjs; go run .; venv/bin/python probe.py; } | tee seen
diff - seen <<'EOF'
@nostr-dev-kit/ndk 3.0.3
@welshman/util 0.8.15
nostr-tools 2.25.2
address 10002:KEY: is read back: true
  NDK, naddr: {"authors":["KEY"],"kinds":[10002]}
  NDK, address: {"authors":["KEY"],"kinds":[10002]}
  welshman, address: {"kinds":[10002],"authors":["KEY"]}
address 30023:KEY: is read back: true
  NDK, naddr: {"authors":["KEY"],"kinds":[30023]}
  NDK, address: {"authors":["KEY"],"kinds":[30023]}
  welshman, address: {"kinds":[30023],"authors":["KEY"]}
address 30023:KEY:a:b is read back: true
  NDK, naddr: {"authors":["KEY"],"kinds":[30023],"#d":["a:b"]}
  NDK, address: {"authors":["KEY"],"kinds":[30023],"#d":["a"]}
  welshman, address: {"kinds":[30023],"authors":["KEY"],"#d":["a:b"]}
NDK, reference to kind 0: e p
NDK, reference to kind 10002: e p
NDK, reference to kind 30023: a e p
go-nostr v0.52.3
naddr of kind 0 read again: incomplete naddr
naddr of kind 10002 read again: incomplete naddr
naddr of kind 30023 read again: incomplete naddr
filter: {"kinds":[10002],"authors":["KEY"],"#d":[""]}
a relay list matches the pointer: true - the filter: false
nostr-sdk 0.45.1
address of kind 10002 '' valid: True
address of kind 30023 'owls' valid: True
address of kind 30023 '' valid: False
EOF
echo "as recorded"
