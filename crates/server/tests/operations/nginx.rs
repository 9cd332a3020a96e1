//! The relay behind a real nginx, with the block of docs/proxies.md.

use std::process::{Child, Command, Stdio};

use birdhouse_testkit::bitcoind::free_port;
use birdhouse_testkit::pipe;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::json;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::{self, WebSocket};

use crate::process::Birdhouse;
use crate::relay_client::ask;

const PAGE: &str = include_str!("../../../../docs/proxies.md");
const NGINX: &str = "/usr/sbin/nginx";
/// The rest of a configuration: one process, which leaves none behind when it is killed. Requests name their own
/// address, as if they came from there.
const FRAME: &str = "daemon off; master_process off; pid FOLDER/pid; error_log stderr; \
    events {} http { access_log off; \
    client_body_temp_path FOLDER/1; proxy_temp_path FOLDER/2; fastcgi_temp_path FOLDER/3; uwsgi_temp_path FOLDER/4; \
    scgi_temp_path FOLDER/5; set_real_ip_from 127.0.0.1; real_ip_header X-From;";
const ADDRESSES: [&str; 2] = ["203.0.113.1", "203.0.113.2"];

/// A running nginx. Dropping it kills it.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns the first block of the page in nginx' language, with these values in place of the example's.
fn block(port: u16, relay: u16, folder: &str) -> String {
    let (_, after) = PAGE.split_once("```nginx\n").unwrap();
    let block = after.split_once("```").unwrap().0.to_owned();
    let values = [
        ("listen 443 ssl", format!("listen 127.0.0.1:{port} ssl")),
        ("/etc/letsencrypt/live/example.org", folder.to_owned()),
        ("127.0.0.1:7777", format!("127.0.0.1:{relay}")),
    ];
    values.iter().fold(block, |block, (example, value)| {
        assert!(block.contains(example), "{example} is not in the block");
        block.replace(example, value)
    })
}

/// Connects to the relay through nginx as a client at this address, which lies about it.
fn connect(port: u16, from: &str) -> Result<WebSocket<pipe::Tls>, String> {
    let mut request = format!("wss://localhost:{port}/").into_client_request().unwrap();
    request.headers_mut().insert("X-From", HeaderValue::from_str(from).unwrap());
    request.headers_mut().insert("X-Forwarded-For", HeaderValue::from_static("198.51.100.7"));
    let stream = pipe::tls(pipe::tcp(port).map_err(|error| error.to_string())?).map_err(|error| error.to_string())?;
    tungstenite::client(request, stream).map(|(socket, _)| socket).map_err(|error| error.to_string())
}

#[test]
fn nginx_as_on_the_page_brings_the_relay_its_clients_by_their_own_addresses() {
    let Ok(output) = Command::new(NGINX).arg("-v").output() else {
        eprintln!("skipped: {NGINX} is missing");
        return;
    };
    assert!(output.status.success(), "{output:?}");
    let (folder, port) = (tempfile::tempdir().unwrap(), free_port().unwrap());
    let path = folder.path().display().to_string();
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(vec!["localhost".into()]).unwrap();
    std::fs::write(folder.path().join("fullchain.pem"), cert.pem()).unwrap();
    std::fs::write(folder.path().join("privkey.pem"), signing_key.serialize_pem()).unwrap();
    let settings = folder.path().join("birdhouse.toml");
    std::fs::write(&settings, "[limits.relay]\nclient-connections = 1\n").unwrap();
    let server = Birdhouse::start_relay(
        tempfile::tempdir().unwrap(),
        &["--relay-proxy-from=127.0.0.1/32", &format!("--config={}", settings.display())],
    );
    let block = block(port, server.port("serving the relay").unwrap(), &path);
    let config = folder.path().join("nginx.conf");
    std::fs::write(&config, format!("{} {block} }}", FRAME.replace("FOLDER", &path))).unwrap();
    let nginx = Command::new(NGINX).arg("-c").arg(&config).stderr(Stdio::inherit()).spawn().unwrap();
    let _nginx = Nginx(nginx);

    let mut first = server.until("is reached through nginx", || connect(port, ADDRESSES[0]).ok());
    assert_eq!(ask(&mut first, &json!(["REQ", "a", {}]))[0], "EOSE");
    let _other_client = connect(port, ADDRESSES[1]).unwrap();
    // The check at the end of the page.
    let open = server.ctl_json(&["connections"]);
    let clients: Vec<_> = open.as_array().unwrap().iter().map(|connection| connection["client"].clone()).collect();
    assert_eq!(clients, ADDRESSES);
    let refused = connect(port, ADDRESSES[0]).unwrap_err();
    assert!(refused.contains("429"), "{refused}");
}
