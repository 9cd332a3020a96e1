#!/usr/bin/env bash
# Zap splits: NDK asks each receiver for NaN millisatoshis; without weights applesauce sees no split at all.
#
# Expected: by Appendix G of NIP-57 a `zap` tag has receiver, relay and weight, in this order. Receivers without any
# weight share equally; if only some have one, the others get nothing.
# Seen: NDK takes the weight from the place of the relay. Its parts are not a number, whatever the tags say, so no
# receiver can be paid. applesauce shares by weight, but drops tags without one: where all lack it, no split is left,
# and a wallet that asks it pays the author alone. Let an editor write the weights, even equal ones.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts --legacy-peer-deps \
  @nostr-dev-kit/ndk@3.0.3 applesauce-common@6.2.0 applesauce-core@6.2.0 nostr-tools@2.25.2

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import NDK, { NDKEvent, NDKZapper } from "@nostr-dev-kit/ndk";
import { getZapSplits } from "applesauce-common/helpers";

for (const name of ["@nostr-dev-kit/ndk", "applesauce-common"]) {
  console.log(name, JSON.parse(readFileSync(`node_modules/${name}/package.json`)).version);
}
const [a, b] = ["a".repeat(64), "b".repeat(64)];
const relay = "wss://relay.example";
const posts = {
  "weights 1 and 3": [["zap", a, relay, "1"], ["zap", b, relay, "3"]],
  "weight 1 and none": [["zap", a, relay, "1"], ["zap", b, relay]],
  "no weights": [["zap", a, relay], ["zap", b, relay]],
};
for (const [title, tags] of Object.entries(posts)) {
  const event = { kind: 1, pubkey: "1".repeat(64), created_at: 1_700_000_000, tags, content: "" };
  const parts = new NDKZapper(new NDKEvent(new NDK(), event), 8000, "msat").getZapSplits();
  const show = (list, part) => list?.map((entry) => `${entry.pubkey[0]} ${part(entry)}`).join(", ");
  console.log(title);
  console.log("  NDK, of 8000 msat:", show(parts, (part) => part.amount));
  console.log("  applesauce:", show(getZapSplits(event), (part) => `${100 * part.percent} %`) ?? "no split");
}
process.exit();
EOF
node probe.mjs | tee seen
diff - seen <<'EOF'
@nostr-dev-kit/ndk 3.0.3
applesauce-common 6.2.0
weights 1 and 3
  NDK, of 8000 msat: a NaN, b NaN
  applesauce: a 25 %, b 75 %
weight 1 and none
  NDK, of 8000 msat: a NaN, b NaN
  applesauce: a 100 %
no weights
  NDK, of 8000 msat: a NaN, b NaN
  applesauce: no split
EOF
echo "as recorded"
