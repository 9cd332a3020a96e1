#!/usr/bin/env bash
# Signing a webhook in Python with a time that has a zone: no receiver accepts it, outside of UTC.
#
# Expected: Standard Webhooks signs the header `webhook-timestamp`, the seconds since 1970 of the attempt. `sign` takes
# a datetime: one with a zone is an instant whatever the zone, and one without is local time (documentation of Python,
# datetime.timestamp), as `datetime.now()` gives it.
# Seen: the packages standardwebhooks and svix set the zone to UTC and leave the hour as it is, so noon at +02:00 is
# signed as noon in UTC, two hours later than the header says. On a machine whose clock shows UTC all is well; elsewhere
# every call is refused as one without a matching signature, which looks like a wrong secret. The package for
# JavaScript takes the instant. Give `datetime.now(timezone.utc)`, or `datetime.fromtimestamp(seconds, timezone.utc)`.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts standardwebhooks@1.1.1
python3 -m venv venv
venv/bin/pip install -q standardwebhooks==1.1.0 svix==2.9.1

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { Webhook } from "standardwebhooks";

const version = JSON.parse(readFileSync("node_modules/standardwebhooks/package.json")).version;
const [secret, headers, body] = process.argv.slice(2);
try {
  new Webhook(secret).verify(body, JSON.parse(headers));
  console.log(`standardwebhooks (npm) ${version} accepts`);
} catch (error) {
  console.log(`standardwebhooks (npm) ${version}: ${error.message}`);
}
EOF
cat > probe.py <<'EOF'
import importlib.metadata, json, subprocess, time
from datetime import datetime, timedelta, timezone
import standardwebhooks, svix.webhooks

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = '{"height":840000}'

def send(library, title, moment):
    signature = library.Webhook(SECRET).sign("msg_1", moment, BODY)
    stamp = str(int(moment.timestamp()))
    headers = {"webhook-id": "msg_1", "webhook-timestamp": stamp, "webhook-signature": signature}
    answer = subprocess.run(["node", "probe.mjs", SECRET, json.dumps(headers), BODY], capture_output=True, text=True)
    print(f"  {title}: {answer.stdout.strip()}")
    try:
        library.Webhook(SECRET).verify(BODY, headers)
        print("    itself accepts")
    except standardwebhooks.WebhookVerificationError as error:
        print("    itself:", error)

now = datetime.now(timezone.utc)
for name, library in {"standardwebhooks": standardwebhooks, "svix": svix.webhooks}.items():
    print(name, "(Python)", importlib.metadata.version(name))
    send(library, "now in UTC", now)
    send(library, "the same instant at +02:00", now.astimezone(timezone(timedelta(hours=2))))
    send(library, f"datetime.now() where the clock is {time.strftime('%Z')}", datetime.now())
EOF
{ TZ=UTC0 venv/bin/python probe.py; TZ=JST-9 venv/bin/python probe.py; } | tee seen
diff - seen <<'EOF'
standardwebhooks (Python) 1.1.0
  now in UTC: standardwebhooks (npm) 1.1.1 accepts
    itself accepts
  the same instant at +02:00: standardwebhooks (npm) 1.1.1: No matching signature found
    itself: No matching signature found
  datetime.now() where the clock is UTC: standardwebhooks (npm) 1.1.1 accepts
    itself accepts
svix (Python) 2.9.1
  now in UTC: standardwebhooks (npm) 1.1.1 accepts
    itself accepts
  the same instant at +02:00: standardwebhooks (npm) 1.1.1: No matching signature found
    itself: No matching signature found
  datetime.now() where the clock is UTC: standardwebhooks (npm) 1.1.1 accepts
    itself accepts
standardwebhooks (Python) 1.1.0
  now in UTC: standardwebhooks (npm) 1.1.1 accepts
    itself accepts
  the same instant at +02:00: standardwebhooks (npm) 1.1.1: No matching signature found
    itself: No matching signature found
  datetime.now() where the clock is JST: standardwebhooks (npm) 1.1.1: No matching signature found
    itself: No matching signature found
svix (Python) 2.9.1
  now in UTC: standardwebhooks (npm) 1.1.1 accepts
    itself accepts
  the same instant at +02:00: standardwebhooks (npm) 1.1.1: No matching signature found
    itself: No matching signature found
  datetime.now() where the clock is JST: standardwebhooks (npm) 1.1.1: No matching signature found
    itself: No matching signature found
EOF
echo "as recorded"
