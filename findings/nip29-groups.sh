#!/usr/bin/env bash
# Groups of NIP-29 as five libraries read them: a second role makes the group invalid, and who was removed stays.
#
# Expected: the relay signs the events about a group with the key that NIP-11 calls `self`; a list of admins has roles
# of any name behind each key; of the tags private, restricted, hidden and closed, each absent one means the opposite.
# Each new event replaces the one before. A list of members may be absent, and a link may end in `?invite=CODE`.
# Seen: nostr-tools asks for events by the key of the relay's operator, `pubkey`; takes the first role for a label and
# refuses all further ones but names of its own, and with them the example of the NIP; has no group where the members
# are not public, and reads no link with an invitation. applesauce and NDK look for tags "public" and "open", so a group
# without tags is neither public nor private; NDK never finds "private". go-nostr adds each newer event to what it has:
# the removed member, the former admin and "private" stay. nostr-tools and welshman read the metadata as the NIP has
# them. A relay does well to have one key for `self` and `pubkey`, and one role for each admin.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  nostr-tools@2.25.2 applesauce-common@6.2.0 applesauce-core@6.2.0 @nostr-dev-kit/ndk@3.0.3 \
  @welshman/util@0.8.15 @welshman/lib@0.8.15 ws@8.23.0
go mod init probe 2>go.log
go get github.com/nbd-wtf/go-nostr@v0.52.3 2>>go.log

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import WebSocket, { WebSocketServer } from "ws";
globalThis.WebSocket = WebSocket;
const { finalizeEvent, getPublicKey, matchFilters, nip19, SimplePool } = await import("nostr-tools");
const nip29 = await import("nostr-tools/nip29");
const { getGroupMetadata } = await import("applesauce-common/helpers");
const { NDKEvent, NDKSimpleGroupMetadata } = await import("@nostr-dev-kit/ndk");
const { readRoomMeta } = await import("@welshman/util");

for (const name of ["nostr-tools", "applesauce-common", "@nostr-dev-kit/ndk", "@welshman/util"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const key = new Uint8Array(32).fill(1);
const self = getPublicKey(key);
const operator = "b".repeat(64);
const template = (kind, tags) => ({ kind, created_at: 1_700_000_000, content: "", tags });
const event = (kind, ...tags) => finalizeEvent(template(kind, tags), key);

for (const flags of [[], ["private", "closed"], ["restricted", "hidden"]]) {
  const metadata = event(39000, ["d", "pizza"], ["name", "Pizza Lovers"], ...flags.map((flag) => [flag]));
  const flag = (name, value) => (/^(is|scope|access|$)/.test(name) ? value : undefined);
  const show = (about) => JSON.stringify(about, flag);
  const ndk = NDKSimpleGroupMetadata.from(new NDKEvent(undefined, metadata));
  console.log("tags:", flags.join(", ") || "none");
  console.log("  nostr-tools", show(nip29.parseGroupMetadataEvent(metadata)));
  console.log("  applesauce", show(getGroupMetadata(metadata)));
  console.log("  welshman", show(readRoomMeta(metadata)));
  console.log("  NDK", show({ scope: ndk.scope, access: ndk.access }));
}

const attempt = async (name, action) => {
  try {
    console.log(name, JSON.stringify(await action()));
  } catch (error) {
    console.log(name, error.message.replace(/ws:.*/, "URL"));
  }
};
const [first, second] = ["1".repeat(64), "2".repeat(64)];
const one = event(39001, ["d", "pizza"], ["p", first, "ceo"]);
const two = event(39001, ["d", "pizza"], ["p", first, "ceo"], ["p", second, "secretary", "gardener"]);
const brief = (admins) => admins.map(({ pubkey, ...rest }) => ({ pubkey: pubkey[0], ...rest }));
await attempt("nostr-tools, one role:", () => brief(nip29.parseGroupAdminsEvent(one)));
await attempt("nostr-tools, the admins of the NIP:", () => brief(nip29.parseGroupAdminsEvent(two)));

const link = nip19.naddrEncode({ kind: 39000, pubkey: self, identifier: "pizza", relays: ["wss://groups.example"] });
await attempt("nostr-tools, link:", () => nip29.parseGroupCode(link));
await attempt("nostr-tools, link with an invitation:", () => nip29.parseGroupCode(`${link}?invite=abc`));

let information, events;
const server = createServer((_, response) => response.end(JSON.stringify(information)));
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
new WebSocketServer({ server }).on("connection", (socket) =>
  socket.on("message", (data) => {
    const [verb, id, ...filters] = JSON.parse(data);
    if (verb !== "REQ") return;
    for (const event of events.filter((event) => matchFilters(filters, event))) {
      socket.send(JSON.stringify(["EVENT", id, event]));
    }
    socket.send(JSON.stringify(["EOSE", id]));
  }),
);
const host = `ws://127.0.0.1:${server.address().port}`;
const metadata = event(39000, ["d", "pizza"], ["name", "Pizza Lovers"]);
const members = event(39002, ["d", "pizza"], ["p", first]);
const groupReference = { host, id: "pizza" };
const load = async () => (await nip29.loadGroup({ pool: new SimplePool(), groupReference })).metadata.name;
information = { pubkey: operator, self };
events = [metadata, one, members];
await attempt("nostr-tools, relay with a key of its own:", load);
information = { pubkey: self, self };
await attempt("nostr-tools, the same key for both:", load);
events = [metadata, one];
await attempt("nostr-tools, members not public:", load);
process.exit();
EOF
cat > main.go <<'EOF'
package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip29"
)

func show(title string, group nip29.Group) {
	for _, member := range []string{"1", "2"} {
		roles, found := group.Members[strings.Repeat(member, 64)]
		names := []string{}
		for _, role := range roles {
			names = append(names, role.Name)
		}
		fmt.Printf("go-nostr, %s: %s is a member: %t, roles %q\n", title, member, found, names)
	}
	fmt.Printf("go-nostr, %s: private %t\n", title, group.Private)
}

func main() {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/nbd-wtf/go-nostr" {
			fmt.Println("go-nostr", module.Version)
		}
	}
	event := func(kind int, at int, tags ...nostr.Tag) *nostr.Event {
		tags = append(nostr.Tags{{"d", "pizza"}}, tags...)
		return &nostr.Event{Kind: kind, CreatedAt: nostr.Timestamp(1700000000 + at), Tags: tags}
	}
	first, second := strings.Repeat("1", 64), strings.Repeat("2", 64)
	group, _ := nip29.NewGroupFromMetadataEvent("wss://groups.example", event(39000, 0, nostr.Tag{"private"}))
	group.MergeInAdminsEvent(event(39001, 0, nostr.Tag{"p", first, "ceo"}, nostr.Tag{"p", second, "ceo"}))
	group.MergeInMembersEvent(event(39002, 0, nostr.Tag{"p", first}, nostr.Tag{"p", second}))
	show("before", group)
	group.MergeInMetadataEvent(event(39000, 1))
	group.MergeInAdminsEvent(event(39001, 1, nostr.Tag{"p", first, "ceo"}))
	group.MergeInMembersEvent(event(39002, 1, nostr.Tag{"p", first}))
	show("after 2 was removed and the group opened", group)
}
EOF
go mod tidy 2>>go.log
{
  node probe.mjs
  go run .
} | tee seen
diff - seen <<'EOF'
nostr-tools 2.25.2
applesauce-common 6.2.0
@nostr-dev-kit/ndk 3.0.3
@welshman/util 0.8.15
tags: none
  nostr-tools {}
  applesauce {"isPublic":false,"isPrivate":false,"isOpen":false,"isClosed":false}
  welshman {"isClosed":false,"isHidden":false,"isPrivate":false,"isRestricted":false}
  NDK {}
tags: private, closed
  nostr-tools {"isPrivate":true,"isClosed":true}
  applesauce {"isPublic":false,"isPrivate":true,"isOpen":false,"isClosed":true}
  welshman {"isClosed":true,"isHidden":false,"isPrivate":true,"isRestricted":false}
  NDK {"access":"closed"}
tags: restricted, hidden
  nostr-tools {"isRestricted":true,"isHidden":true}
  applesauce {"isPublic":false,"isPrivate":false,"isOpen":false,"isClosed":false}
  welshman {"isClosed":false,"isHidden":true,"isPrivate":false,"isRestricted":true}
  NDK {}
nostr-tools, one role: [{"pubkey":"1","label":"ceo","permissions":[]}]
nostr-tools, the admins of the NIP: invalid group admins event
nostr-tools, link: {"host":"groups.example","id":"pizza"}
nostr-tools, link with an invitation: null
nostr-tools, relay with a key of its own: group 'pizza' not found on URL
nostr-tools, the same key for both: "Pizza Lovers"
nostr-tools, members not public: members for group 'pizza' not found on URL
go-nostr v0.52.3
go-nostr, before: 1 is a member: true, roles ["ceo"]
go-nostr, before: 2 is a member: true, roles ["ceo"]
go-nostr, before: private true
go-nostr, after 2 was removed and the group opened: 1 is a member: true, roles ["ceo" "ceo"]
go-nostr, after 2 was removed and the group opened: 2 is a member: true, roles ["ceo"]
go-nostr, after 2 was removed and the group opened: private true
EOF
echo "as recorded"
