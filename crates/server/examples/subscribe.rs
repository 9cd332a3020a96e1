//! Subscribes to the tip and to a script hash of an Electrum server, and prints every message.
//!
//! ```text
//! cargo run -p birdhouse --example subscribe -- 127.0.0.1:50001 SCRIPTHASH
//! ```
//!
//! The methods: <https://electrum-protocol.readthedocs.io/>.
#![forbid(unsafe_code)]

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use anyhow::Result;
use serde_json::json;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [server, scripthash] = &arguments[..] else { anyhow::bail!("usage: subscribe HOST:PORT SCRIPTHASH") };

    let mut stream = TcpStream::connect(server)?;
    let requests = [
        json!({"id": 0, "method": "server.version", "params": ["birdhouse example", "1.4"]}),
        json!({"id": 1, "method": "blockchain.headers.subscribe", "params": []}),
        json!({"id": 2, "method": "blockchain.scripthash.subscribe", "params": [scripthash]}),
    ];
    for request in requests {
        writeln!(stream, "{request}")?;
    }
    // Three replies with ids, then a notification for each change of the tip or of the script's status.
    for line in BufReader::new(stream).lines() {
        println!("{}", line?);
    }
    Ok(())
}
