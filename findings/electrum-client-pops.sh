#!/usr/bin/env bash
# A follower of blocks with the Rust crate electrum-client: it hears of a block when it asks for something else.
#
# Expected: Electrum's protocol sends a notification at once, so `block_headers_pop` ("tries to pop one queued
# notification that we might have received") returns it. `Client` "can re-instantiate client_type if connections drop";
# subscriptions belong to a connection, so it subscribes again, or fails. `script_pop` only looks into a queue.
# Seen: nothing reads the socket but a request that waits for its own answer; without `ping` the queue stays empty for
# ever. After a lost connection the next request opens another one and succeeds, and nobody has subscribed there: the
# blocks end without an error. `script_pop` of a script that is not subscribed counts as a failed request: the client
# waits for two seconds, opens another connection, and has lost all its subscriptions, with what was queued.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
export CARGO_PROFILE_DEV_DEBUG=0 CARGO_TARGET_DIR=$dir/target
mkdir src
cat > Cargo.toml <<'EOF'
[package]
name = "probe"
version = "0.0.0"
edition = "2021"

[dependencies]
electrum-client = { version = "=0.25.2", default-features = false }
serde_json = "1"
EOF
cat > src/main.rs <<'EOF'
use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use electrum_client::bitcoin::ScriptBuf;
use electrum_client::{Client, ElectrumApi, Error, ToElectrumScriptHash};
use serde_json::{json, Value};

const GENESIS: &str = "0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b27ac72c3e\
    67768f617fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c";

struct Connection {
    stream: TcpStream,
    asked: Vec<String>,
}

/// A server that answers, and notifies the connections that have subscribed.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<Vec<Connection>>>);

impl Server {
    fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("tcp://{}", listener.local_addr().unwrap());
        let server = self.clone();
        thread::spawn(move || {
            for stream in listener.incoming().map(Result::unwrap) {
                let requests = BufReader::new(stream.try_clone().unwrap());
                let number = server.0.lock().unwrap().len();
                server.0.lock().unwrap().push(Connection { stream, asked: Vec::new() });
                let server = server.clone();
                thread::spawn(move || {
                    requests.lines().map_while(Result::ok).for_each(|line| server.answer(number, &line));
                });
            }
        });
        url
    }

    fn answer(&self, number: usize, line: &str) {
        let request: Value = serde_json::from_str(line).unwrap();
        let method = request["method"].as_str().unwrap();
        let connection = &mut self.0.lock().unwrap()[number];
        connection.asked.push(method.trim_start_matches("blockchain.").to_owned());
        let result = match method {
            "server.version" => json!(["test", "1.4"]),
            "blockchain.headers.subscribe" => json!({ "height": 100, "hex": GENESIS }),
            _ => Value::Null,
        };
        writeln!(connection.stream, "{}", json!({ "jsonrpc": "2.0", "id": request["id"], "result": result })).ok();
    }

    fn notify(&self, kind: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": format!("blockchain.{kind}"), "params": params });
        for connection in self.0.lock().unwrap().iter_mut() {
            if connection.asked.iter().any(|method| method == kind) {
                writeln!(connection.stream, "{message}").ok();
            }
        }
    }

    fn block(&self, height: u32) {
        println!("the server sends block {height}");
        self.notify("headers.subscribe", json!([{ "height": height, "hex": GENESIS }]));
    }

    fn report(&self) {
        for (number, connection) in self.0.lock().unwrap().iter().enumerate() {
            println!("  connection {} asked {}", number + 1, connection.asked.join(", "));
        }
    }
}

fn height(client: &Client) -> String {
    client.block_headers_pop().unwrap().map_or("none".into(), |header| header.height.to_string())
}

fn status(client: &Client, script: &ScriptBuf) -> String {
    match client.script_pop(script) {
        Ok(status) => json!(status).to_string(),
        Err(Error::AllAttemptsErrored(errors)) => match errors.as_slice() {
            [Error::NotSubscribed(_)] => "not subscribed".into(),
            other => format!("{other:?}"),
        },
        Err(error) => error.to_string(),
    }
}

fn main() {
    let server = Server::default();
    let client = Client::new(&server.start()).unwrap();
    println!("subscribed to blocks at {}", client.block_headers_subscribe().unwrap().height);
    server.block(101);
    thread::sleep(std::time::Duration::from_secs(1));
    println!("  a second later block_headers_pop: {}", height(&client));
    client.ping().unwrap();
    println!("  after a ping block_headers_pop: {}", height(&client));
    println!("the server ends the connection");
    server.0.lock().unwrap()[0].stream.shutdown(Shutdown::Both).unwrap();
    println!("  ping: {:?}", client.ping());
    server.block(102);
    client.ping().unwrap();
    println!("  after a ping block_headers_pop: {}", height(&client));
    server.report();

    let server = Server::default();
    let client = Client::new(&server.start()).unwrap();
    let (alice, bob) = (ScriptBuf::from_bytes(vec![0x51]), ScriptBuf::from_bytes(vec![0x52]));
    println!("subscribed to the script of alice: {:?}", client.script_subscribe(&alice).unwrap());
    for status in ["11", "22"] {
        server.notify("scripthash.subscribe", json!([alice.to_electrum_scripthash(), status.repeat(32)]));
    }
    client.ping().unwrap();
    println!("the server sends two statuses of alice; after a ping");
    println!("  script_pop of alice: {}", status(&client, &alice));
    println!("  script_pop of bob: {}", status(&client, &bob));
    println!("  script_pop of alice: {}", status(&client, &alice));
    server.report();
}
EOF
cargo build -q
{
  cargo tree -q --offline --prefix none --depth 1 | sed -n 's/^\(electrum-client\) v/\1 /p'
  target/debug/probe
} | tee seen
diff - seen <<'EOF'
electrum-client 0.25.2
subscribed to blocks at 100
the server sends block 101
  a second later block_headers_pop: none
  after a ping block_headers_pop: 101
the server ends the connection
  ping: Ok(())
the server sends block 102
  after a ping block_headers_pop: none
  connection 1 asked server.version, headers.subscribe, server.ping
  connection 2 asked server.version, server.ping, server.ping
subscribed to the script of alice: None
the server sends two statuses of alice; after a ping
  script_pop of alice: "1111111111111111111111111111111111111111111111111111111111111111"
  script_pop of bob: not subscribed
  script_pop of alice: not subscribed
  connection 1 asked server.version, scripthash.subscribe, server.ping
  connection 2 asked server.version
  connection 3 asked server.version
EOF
echo "as recorded"
