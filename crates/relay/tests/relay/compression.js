// A client in node with `ws`, which compresses unless told otherwise. Arguments: folder of the packages, URL, an event.
const [packages, url, event] = process.argv.slice(1);
const WebSocket = require(packages + '/ws');

const socket = new WebSocket(url);
const heard = [];
socket.on('open', () => socket.send(`["EVENT",${event}]`));
socket.on('message', (text) => {
  const message = JSON.parse(text);
  heard.push(message);
  if (message[0] === 'OK') socket.send('["REQ","a",{}]');
  if (message[0] === 'EOSE') {
    const { bytesRead, bytesWritten } = socket._socket;
    console.log(JSON.stringify({ extensions: socket.extensions, heard, bytesRead, bytesWritten }));
    socket.close();
  }
});
