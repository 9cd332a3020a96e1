#!/usr/bin/env bash
# A JSON file on a Blossom server: the Python package python-blossom uploads it, and cannot download it.
#
# Expected: BUD-01 has GET /<sha256> answer with the bytes of the blob, and `Content-Type` its type. JSON is a type as
# any other; `get_blob` returns a `Blob` whose `content` is bytes.
# Seen: an answer of the type application/json is taken for one of the server about itself. An object throws "Expected
# binary blob, got JSON", lines of JSON throw "Invalid JSON in response", and a list arrives as a list of Python,
# without the bytes that the hash is of. Other types arrive, all as application/octet-stream as documented, so `save`
# names a picture `.octet-stream`. blossom-client-sdk reads all. Give such files another type when they are uploaded, or
# download them with any HTTP client.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
npm install --silent --no-audit --no-fund --ignore-scripts blossom-client-sdk@5.1.0
python3 -m venv venv
venv/bin/pip install -q python-blossom==1.1.0

cat > probe.mjs <<'EOF'
import { readFileSync } from "node:fs";
import { Actions } from "blossom-client-sdk";

console.log(JSON.parse(readFileSync("node_modules/blossom-client-sdk/package.json")).version);
const [server, ...hashes] = process.argv.slice(2);
for (const hash of hashes) {
  const response = await Actions.downloadBlob(server, hash);
  console.log(response.headers.get("content-type"), (await response.arrayBuffer()).byteLength);
}
EOF
cat > probe.py <<'EOF'
import hashlib, importlib.metadata, json, subprocess, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from python_blossom import BlossomClient

blobs = {}

class Server(BaseHTTPRequestHandler):
    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        sha256 = hashlib.sha256(body).hexdigest()
        blobs[sha256] = self.headers["Content-Type"], body
        descriptor = {"url": f"{url}/{sha256}", "sha256": sha256, "size": len(body), "type": blobs[sha256][0]}
        self.answer("application/json", json.dumps(descriptor).encode())

    def do_GET(self):
        self.answer(*blobs[self.path.strip("/")])

    def log_message(self, *_):
        pass

server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}"
client = BlossomClient(nsec="01" * 32, default_servers=[url])
files = {
    "object.json": ("application/json", b'{"labels":[]}'),
    "list.json": ("application/json", b"[1,2,3]"),
    "lines.json": ("application/json", b'{"a":1}\n{"a":2}\n'),
    "note.txt": ("text/plain", b"hello"),
    "picture.png": ("image/png", b"\x89PNG\r\n\x1a\n"),
}
hashes = [client.upload_blob(url, data=body, mime_type=kind)["sha256"] for kind, body in files.values()]
print("python-blossom", importlib.metadata.version("python-blossom"))
command = ["node", "probe.mjs", url, *hashes]
version, *others = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
print("blossom-client-sdk", version)
for (name, (kind, body)), sha256, other in zip(files.items(), hashes, others):
    print(f"{name}, {kind}, {len(body)} bytes")
    try:
        blob = client.get_blob(url, sha256)
        print("  get_blob:", blob.mime_type, type(blob.content).__name__, len(blob.content), blob.get_extension())
    except Exception as error:
        print("  get_blob:", type(error).__name__, error)
    print("  blossom-client-sdk:", other)
EOF
venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
python-blossom 1.1.0
blossom-client-sdk 5.1.0
object.json, application/json, 13 bytes
  get_blob: BlossomError Expected binary blob, got JSON
  blossom-client-sdk: application/json 13
list.json, application/json, 7 bytes
  get_blob: application/octet-stream list 3 octet-stream
  blossom-client-sdk: application/json 7
lines.json, application/json, 16 bytes
  get_blob: BlossomError Invalid JSON in response
  blossom-client-sdk: application/json 16
note.txt, text/plain, 5 bytes
  get_blob: application/octet-stream bytes 5 octet-stream
  blossom-client-sdk: text/plain 5
picture.png, image/png, 8 bytes
  get_blob: application/octet-stream bytes 8 octet-stream
  blossom-client-sdk: image/png 8
EOF
echo "as recorded"
