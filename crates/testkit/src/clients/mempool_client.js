// Drives `@mempool/electrum-client`, the client of mempool.space's backend, for mempool_client.rs.
//
//   node --eval "$(cat mempool_client.js)" <folder of the package> <port> <script hash>
//
// Prints one line of JSON for each answer and notification, and ends with its standard input.
"use strict";
const [, folder, port, scripthash] = process.argv;
const ElectrumClient = require(folder);

// Where a result is null the client returns the whole answer instead.
const result = (answer) => (answer && answer.jsonrpc ? answer.result : answer);
const print = (what, value) => console.log(JSON.stringify({ what, value: result(value) }));
const callbacks = { onError: (error) => print("error", String(error)), onLog: () => {} };
const client = new ElectrumClient(Number(port), "127.0.0.1", "tcp", null, callbacks);

async function main() {
  const policy = { retryPeriod: 1000, maxRetry: 0, pingPeriod: 120000, callback: null };
  await client.initElectrum({ client: "mempool-v2", version: "1.4" }, policy);
  print("version", client.versionInfo);
  for (const method of ["blockchain.headers.subscribe", "blockchain.scripthash.subscribe"]) {
    client.subscribe.on(method, (params) => print(method, params));
  }
  print("tip", await client.request("blockchain.headers.subscribe", []));
  print("status", await client.blockchainScripthash_subscribe(scripthash));
  print("ready", null);
  for await (const line of require("readline").createInterface({ input: process.stdin })) {
    const [name, ...params] = JSON.parse(line);
    try {
      print(name, await client[name](...params));
    } catch (error) {
      print("refused", error);
    }
  }
  client.close();
  process.exit(0);
}

main().catch((error) => {
  print("failed", String(error));
  process.exit(1);
});
