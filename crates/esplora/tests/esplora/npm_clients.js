// Calls the functions of @mempool/mempool.js and @bitcoinerlab/explorer against a server, and prints what they return,
// a line of JSON for each. Arguments: the folder of the packages, the server's port, and what to ask for as JSON.
const [folder, port, text] = process.argv.slice(1);
const asked = JSON.parse(text);
const print = (what, value) => console.log(JSON.stringify({ what, value: value === undefined ? null : value }));
const patience = setTimeout(() => { print("patience", "is over"); process.exit(1); }, 60000);

async function mempool() {
  const { bitcoin } = require(folder + "/@mempool/mempool.js")({ hostname: `localhost:${port}` });
  const { address, txid, unconfirmed, hash, height } = asked;
  const calls = [
    ["addresses", "getAddress", { address }], ["addresses", "getAddressTxs", { address }],
    ["addresses", "getAddressTxsChain", { address }], ["addresses", "getAddressTxsMempool", { address }],
    ["addresses", "getAddressTxsUtxo", { address }],
    ["blocks", "getBlock", { hash }], ["blocks", "getBlockStatus", { hash }],
    ["blocks", "getBlockTxs", { hash, start_index: 0 }], ["blocks", "getBlockTxids", { hash }],
    ["blocks", "getBlockTxid", { hash, index: 0 }], ["blocks", "getBlockRaw", { hash }],
    ["blocks", "getBlockHeader", { hash }], ["blocks", "getBlockHeight", { height }],
    ["blocks", "getBlocks", { start_height: height }], ["blocks", "getBlocksTipHeight"], ["blocks", "getBlocksTipHash"],
    ["difficulty", "getDifficultyAdjustment"],
    ["fees", "getFeesRecommended"], ["fees", "getFeesMempoolBlocks"], ["fees", "getCPFP", { txid: unconfirmed }],
    ["mempool", "getMempool"], ["mempool", "getMempoolTxids"], ["mempool", "getMempoolRecent"],
    ["transactions", "getTx", { txid }], ["transactions", "getTxStatus", { txid }],
    ["transactions", "getTxHex", { txid }], ["transactions", "getTxRaw", { txid }],
    ["transactions", "getTxMerkleProof", { txid }], ["transactions", "getTxMerkleBlockProof", { txid }],
    ["transactions", "getTxOutspend", { txid, vout: 0 }], ["transactions", "getTxOutspends", { txid }],
    ["transactions", "postTx", { txhex: asked.raw }],
  ];
  for (const [group, name, params] of calls) print(name, await bitcoin[group][name](params));
  const socket = bitcoin.websocket.wsInit();
  await new Promise((resolve, reject) => {
    let is_first = true;
    socket.addEventListener("message", ({ data }) => {
      const message = JSON.parse(data.toString());
      if (is_first) {
        is_first = false;
        print("init", message);
        bitcoin.websocket.wsWantData(socket, ["blocks", "stats", "mempool-blocks"]);
        bitcoin.websocket.wsTrackTransaction(socket, unconfirmed);
        bitcoin.websocket.wsTrackAddress(socket, address);
      }
      if (message.txPosition) { print("txPosition", message.txPosition); resolve(); }
    });
    socket.addEventListener("error", reject);
  });
  socket.close();
}

async function explorer() {
  const { EsploraExplorer } = require(folder + "/@bitcoinerlab/explorer");
  const client = new EsploraExplorer({ url: `http://localhost:${port}/api` });
  await client.connect();
  const { address, electrumHash, txid, height } = asked;
  print("isConnected", await client.isConnected());
  print("fetchAddress", await client.fetchAddress(address));
  print("fetchScriptHash", await client.fetchScriptHash(electrumHash));
  print("fetchTxHistory", await client.fetchTxHistory({ address }));
  print("fetchTx", await client.fetchTx(txid));
  print("fetchBlockHeight", await client.fetchBlockHeight());
  print("fetchBlockStatus", await client.fetchBlockStatus(height));
  print("push", await client.push(asked.rawOfAnother));
  client.close();
}

mempool().then(explorer).then(() => { clearTimeout(patience); print("done"); }, error => {
  print("error", String(error && error.stack || error));
  process.exit(1);
});
