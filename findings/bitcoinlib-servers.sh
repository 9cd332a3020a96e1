#!/usr/bin/env bash
# bitcoinlib's clients of Electrum, Esplora and mempool.space: what waits in the mempool costs the history or all of it.
#
# Expected: by Esplora's API `/address/:address/txs` has up to 50 unconfirmed transactions, then 25 confirmed ones, and
# `/txs/chain/:last_seen` the next 25. An Electrum server gives height 0 to an output that waits, and the node leaves
# `confirmations` out of a transaction that waits. A client of these shows all transactions of an address.
# Seen: both clients of Esplora ask on only after exactly 25: with one unconfirmed transaction the list ends at 26. That
# of mempool.space then asks for `/txs/:last_seen`, which servers do not have. That of Blockstream cannot sort a list
# with both kinds. The Electrum client fails on an output, and on a transaction, that waits. In lists of outputs the
# newest block counts as no confirmation. Compare with the counts of the address before you trust such a list.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install -q bitcoinlib==0.7.10 aiorpcX==0.25.0

cat > probe.py <<'EOF'
import hashlib, importlib.metadata, json, re, socketserver, threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from bitcoinlib.services.blockstream import BlockstreamClient
from bitcoinlib.services.electrumx import ElectrumxClient
from bitcoinlib.services.mempool import MempoolClient

TIP = 800_000
ADDRESS = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
SCRIPT = "0014751e76e8199196d454941c45d1b3a323f1433bd6"
RAW = "0100000001" + "11" * 32 + "0000000000ffffffff" + "01e80300000000000016" + SCRIPT + "00000000"
TXID = hashlib.sha256(hashlib.sha256(bytes.fromhex(RAW)).digest()).digest()[::-1].hex()
chain = {"confirmed": 0, "waiting": 0}


def status(index):
    if index < chain["waiting"]:
        return {"confirmed": False}
    height = TIP - (index - chain["waiting"])
    return {"confirmed": True, "block_height": height, "block_time": 1_700_000_000}


def transactions():
    output = {"scriptpubkey": SCRIPT, "scriptpubkey_address": ADDRESS, "value": 1000}
    input = {"txid": "11" * 32, "vout": 0, "prevout": output, "scriptsig": "", "is_coinbase": False, "sequence": 0}
    for index in range(chain["waiting"] + chain["confirmed"]):
        yield {"txid": f"{index + 1:064x}", "version": 1, "locktime": 0, "vin": [input], "vout": [output], "size": 82,
               "weight": 328, "fee": 0, "status": status(index)}


class Esplora(BaseHTTPRequestHandler):
    def answer(self):
        if self.path == "/blocks/tip/height":
            return TIP
        if re.fullmatch(r"/tx/\w+/outspend/0", self.path):
            return {"spent": False}
        if self.path == f"/address/{ADDRESS}/utxo":
            return [{"txid": tx["txid"], "vout": 0, "value": 1000, "status": tx["status"]} for tx in transactions()]
        if page := re.fullmatch(rf"/address/{ADDRESS}/txs(?:/chain(?:/(\w+))?)?", self.path):
            listed = list(transactions())
            confirmed = listed[chain["waiting"]:]
            if page[1]:
                seen = [tx["txid"] for tx in confirmed].index(page[1])
                return confirmed[seen + 1:seen + 26]
            return listed[:chain["waiting"]] + confirmed[:25]

    def do_GET(self):
        answer = self.answer()
        body = json.dumps(answer).encode()
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Electrum(socketserver.StreamRequestHandler):
    def answer(self, method, params):
        height = 0 if chain["waiting"] else TIP
        if method == "blockchain.transaction.get" and params[1]:
            details = {"txid": TXID, "size": 82, "vsize": 82, "vout": [], "hex": RAW}
            return details if chain["waiting"] else details | {"confirmations": 1, "blocktime": 1_700_000_000}
        return {
            "server.version": ["stub", "1.6"],
            "blockchain.headers.subscribe": {"height": TIP, "hex": "00" * 80},
            "blockchain.scripthash.get_history": [{"tx_hash": TXID, "height": height}],
            "blockchain.scripthash.listunspent": [{"tx_hash": TXID, "tx_pos": 0, "height": height, "value": 1000}],
            "blockchain.transaction.get": RAW,
        }[method]

    def handle(self):
        for line in self.rfile:
            request = json.loads(line)
            result = self.answer(request["method"], request.get("params"))
            self.wfile.write(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode() + b"\n")


def listen(server):
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


class Lines(socketserver.ThreadingTCPServer):
    daemon_threads = True


esplora = f"http://127.0.0.1:{listen(ThreadingHTTPServer(('127.0.0.1', 0), Esplora))}/"
electrum = f"127.0.0.1:{listen(Lines(('127.0.0.1', 0), Electrum))}"
clients = {
    "Blockstream": lambda: BlockstreamClient("bitcoin", esplora, 100_000_000),
    "mempool.space": lambda: MempoolClient("bitcoin", esplora, 100_000_000),
    "Electrum": lambda: ElectrumxClient("bitcoin", electrum, 100_000_000, ""),
}


def attempt(title, call):
    try:
        print(f"  {title}:", call())
    except Exception as error:
        print(f"  {title}: throws {type(error).__name__}")


print("bitcoinlib", importlib.metadata.version("bitcoinlib"))
for name, confirmed, waiting in (
    ("Blockstream", 24, 0), ("Blockstream", 30, 0), ("Blockstream", 30, 1), ("Blockstream", 0, 1),
    ("mempool.space", 24, 0), ("mempool.space", 30, 0), ("mempool.space", 30, 1),
    ("Electrum", 1, 0), ("Electrum", 0, 1),
):
    chain.update(confirmed=confirmed, waiting=waiting)
    print(f"{name}, {confirmed} confirmed and {waiting} waiting")
    client = clients[name]()
    attempt("transactions", lambda: len(client.gettransactions(ADDRESS, limit=1000)))
    if waiting <= confirmed:
        attempt("confirmations in the newest block", lambda: client.getutxos(ADDRESS, limit=1000)[-1]["confirmations"])
    else:
        attempt("outputs", lambda: len(client.getutxos(ADDRESS, limit=1000)))
EOF
HOME=$dir venv/bin/python probe.py | tee seen
diff - seen <<'EOF'
bitcoinlib 0.7.10
Blockstream, 24 confirmed and 0 waiting
  transactions: 24
  confirmations in the newest block: 0
Blockstream, 30 confirmed and 0 waiting
  transactions: 30
  confirmations in the newest block: 0
Blockstream, 30 confirmed and 1 waiting
  transactions: throws TypeError
  confirmations in the newest block: 0
Blockstream, 0 confirmed and 1 waiting
  transactions: 1
  outputs: 1
mempool.space, 24 confirmed and 0 waiting
  transactions: 24
  confirmations in the newest block: 0
mempool.space, 30 confirmed and 0 waiting
  transactions: throws ClientError
  confirmations in the newest block: 0
mempool.space, 30 confirmed and 1 waiting
  transactions: 26
  confirmations in the newest block: 0
Electrum, 1 confirmed and 0 waiting
  transactions: 1
  confirmations in the newest block: 0
Electrum, 0 confirmed and 1 waiting
  transactions: throws KeyError
  outputs: throws TypeError
EOF
echo "as recorded"
