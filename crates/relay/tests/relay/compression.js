// A client in node with `ws`, which compresses unless told otherwise. Arguments: folder of the packages, URL, an event that is
// stored before it asks, and one that it hears of while it listens.
const [packages, url, event, news] = process.argv.slice(1);
const WebSocket = require(packages + '/ws');

const socket = new WebSocket(url);
const heard = [];
socket.on('open', () => socket.send(`["EVENT",${event}]`));
socket.on('message', (text) => {
  const message = JSON.parse(text);
  heard.push(message);
  if (heard.length === 2) socket.send('["REQ","a",{}]');
  if (message[0] === 'EOSE') socket.send(`["EVENT",${news}]`);
  // The second event's, and its OK.
  if (heard.length === 6) {
    const { bytesRead, bytesWritten } = socket._socket;
    console.log(JSON.stringify({ extensions: socket.extensions, heard, bytesRead, bytesWritten }));
    socket.close();
  }
});
