#!/usr/bin/env bash
# Uploads to a Blossom server of khatru: the length of the message decides whether blossom-client-sdk is let in.
#
# Expected: BUD-11 has the authorization as Base64url without padding, and the server's domain as the value of a
# `server` tag. A client and a server that speak Blossom agree on both, or never.
# Seen: the client writes what BUD-11 says; khatru reads Base64 with padding. They agree when the event's JSON has a
# multiple of three bytes, so of three descriptions one works, always the same one, and a client with a fixed text works
# everywhere or nowhere. A download with a token for the server is refused whatever its length: khatru compares the
# whole URL with the domain. Accept both alphabets, padded or not, and both values of the tag.
set -euo pipefail
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts blossom-client-sdk@5.1.0 nostr-tools@2.25.2
mkdir go
cat > go/main.go <<'EOF'
package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime/debug"

	"github.com/fiatjaf/eventstore/slicestore"
	"github.com/fiatjaf/khatru"
	"github.com/fiatjaf/khatru/blossom"
)

func main() {
	build, _ := debug.ReadBuildInfo()
	for _, module := range build.Deps {
		if module.Path == "github.com/fiatjaf/khatru" {
			fmt.Println("khatru", module.Version)
		}
	}
	store := &slicestore.SliceStore{}
	if err := store.Init(); err != nil {
		panic(err)
	}
	relay := khatru.NewRelay()
	server := httptest.NewServer(relay)
	defer server.Close()
	files := blossom.New(relay, server.URL)
	files.Store = blossom.EventStoreBlobIndexWrapper{Store: store, ServiceURL: server.URL}
	blobs := map[string][]byte{}
	files.StoreBlob = append(files.StoreBlob, func(_ context.Context, hash, _ string, body []byte) error {
		blobs[hash] = body
		return nil
	})
	files.LoadBlob = append(files.LoadBlob, func(_ context.Context, hash, _ string) (io.ReadSeeker, error) {
		return bytes.NewReader(blobs[hash]), nil
	})
	client := exec.Command("node", "../client.mjs", server.URL)
	client.Stdout, client.Stderr = os.Stdout, os.Stderr
	if err := client.Run(); err != nil {
		panic(err)
	}
}
EOF
cat > client.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { Actions, createDownloadAuth, createUploadAuth } from "blossom-client-sdk";
import { finalizeEvent } from "nostr-tools/pure";

const manifest = new URL("node_modules/blossom-client-sdk/package.json", import.meta.url);
console.log("blossom-client-sdk", JSON.parse(readFileSync(manifest)).version);
const server = process.argv[2];
const signer = async (draft) => finalizeEvent({ ...draft }, new Uint8Array(32).fill(1));
const blob = new Blob(["hello"], { type: "text/plain" });
const attempt = async (title, call) => {
  try {
    console.log(`${title}:`, await call());
  } catch (error) {
    console.log(`${title}: throws ${error.message}`);
  }
};
const lengthen = (length) => {
  let message = "Upload";
  return async (sign) => {
    for (;;) {
      const token = await sign(message);
      if (new TextEncoder().encode(JSON.stringify(token)).length % 3 === length) return token;
      message += "!";
    }
  };
};
for (const length of [1, 2, 0]) {
  const auth = await lengthen(length)((message) => createUploadAuth(signer, blob, { message }));
  const upload = async () => (await Actions.uploadBlob(server, blob, { onAuth: async () => auth })).size;
  await attempt(`upload, length of JSON is ${length} modulo 3`, upload);
}
const hash = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
for (const scope of [hash, server]) {
  const auth = await lengthen(0)((message) => createDownloadAuth(signer, scope, { message }));
  const download = async () => (await Actions.downloadBlob(server, hash, { auth })).text();
  await attempt(`download with a token for the ${scope === hash ? "blob" : "server"}`, download);
}
EOF
(
  cd go
  go mod init probe
  go get github.com/fiatjaf/khatru@v0.19.1 github.com/fiatjaf/eventstore@v0.17.1 github.com/nbd-wtf/go-nostr@v0.52.3
  go mod tidy
) 2>go.log
(cd go && go run .) | tee seen
diff - seen <<'EOF'
khatru v0.19.1
blossom-client-sdk 5.1.0
upload, length of JSON is 1 modulo 3: throws invalid "Authorization": invalid base64 token
upload, length of JSON is 2 modulo 3: throws invalid "Authorization": invalid base64 token
upload, length of JSON is 0 modulo 3: 5
download with a token for the blob: hello
download with a token for the server: throws invalid "Authorization" event "x" or "server" tag
EOF
echo "as recorded"
