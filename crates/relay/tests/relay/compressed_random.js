// Many clients in node with `ws`, which compresses unless told otherwise. Arguments: folder of the packages, URL, number of clients,
// number of stored events, number of all events. Prints a line when all have the stored ones, and a last line: for each client the
// digest of the digests of what it received, in order of ids, or why it failed.
const [packages, url, clients, stored, all] = process.argv.slice(1);
const WebSocket = require(packages + '/ws');
const { createHash } = require('crypto');

const digest = (text) => createHash('sha256').update(text).digest('hex');
let atEnd = 0;
const results = [];
const done = (result) => {
  results.push(result);
  if (results.length === Number(clients)) {
    process.stdout.write(JSON.stringify(results) + '\n', () => process.exit(0));
  }
};
for (let client = 0; client < Number(clients); client++) {
  const socket = new WebSocket(url);
  const events = new Map();
  let failure = null;
  socket.on('open', () => socket.send('["REQ","a",{}]'));
  socket.on('message', (text) => {
    const message = JSON.parse(text);
    if (message[0] === 'EVENT') events.set(message[2].id, digest(message[2].id + message[2].content + JSON.stringify(message[2].tags)));
    if (message[0] === 'EOSE') {
      if (events.size !== Number(stored)) failure = `${events.size} stored events`;
      if (++atEnd === Number(clients)) console.log('stored');
    }
    if (events.size === Number(all)) socket.close();
  });
  socket.on('error', (error) => { failure = String(error); });
  socket.on('close', (code) => {
    if (failure === null && events.size !== Number(all)) failure = `closed with ${code} after ${events.size} events`;
    done(failure ?? digest([...events.keys()].sort().map((id) => events.get(id)).join('')));
  });
}
