// Makes Dojo's calls with the client that Dojo uses, and prints a JSON object of what they return.
//
//   node --eval "$(cat dojo_client.js)" <main file of the package> <port> <script hashes as JSON>
"use strict";
const [, file, port, text] = process.argv;
const hashes = JSON.parse(text);

async function main() {
  const { ElectrumClient } = await import(file);
  const callbacks = { onLog: () => {}, onError: (error) => console.error(String(error)) };
  const client = new ElectrumClient(Number(port), "127.0.0.1", "tcp", callbacks);
  await client.initElectrum({ client: "Samourai Dojo v1.29.2", version: "1.4" }, { maxRetry: 0, pingPeriod: 60000 });
  const tip = await client.blockchainHeaders_subscribe();
  const ping = await client.server_ping();
  const alone = await client.blockchainScripthash_getHistory(hashes[0]);
  const batch = [];
  for (let at = 0; at < hashes.length; at += 50) {
    batch.push(...await client.blockchainScripthash_getHistoryBatch(hashes.slice(at, at + 50)));
  }
  const parallel = [];
  for (let at = 0; at < hashes.length; at += 5) {
    const five = hashes.slice(at, at + 5).map((hash) => client.blockchainScripthash_getHistory(hash));
    parallel.push(...await Promise.all(five));
  }
  const text = JSON.stringify({ version: client.versionInfo, tip, ping, alone, batch, parallel });
  // A pipe takes the text in parts.
  process.stdout.write(text, () => process.exit(0));
}

setTimeout(() => { console.error("no answer within a minute"); process.exit(1); }, 60000);
main().catch((error) => { console.error(error); process.exit(1); });
