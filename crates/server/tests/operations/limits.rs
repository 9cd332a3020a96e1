//! Limits from the configuration file.

use birdhouse_testkit::client::Client;

use crate::node;
use crate::process::Birdhouse;

#[test]
fn a_limit_of_the_configuration_file_applies_to_clients() {
    let node = node();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "[limits.private]\nbatch-items = 2\n").unwrap();
    let server = Birdhouse::start_with(&node, &[("BIRDHOUSE_CONFIG", file.path().to_str().unwrap())]);
    let mut client = server.client();
    let ping = r#"{"id":1,"method":"server.ping"}"#;
    let ask = |client: &mut Client, pings: usize| {
        client.send_line(format!("[{}]", vec![ping; pings].join(",")).as_bytes()).unwrap();
        client.answer().unwrap()
    };
    assert_eq!(ask(&mut client, 2).as_array().unwrap().len(), 2);
    assert_eq!(ask(&mut client, 3)["error"]["code"], -32600);
}
