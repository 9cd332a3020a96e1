//! A node that is stopped, hangs or has ended: pages, wallets and REST say the same of it.

use serde_json::{Value, json};

use crate::downloading::whole_answer;
use crate::node;
use crate::process::Birdhouse;

/// The sentence of each of them, if it says that the node is silent.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Said {
    page: bool,
    rest: bool,
    wallet: bool,
}

const EVERYWHERE: Said = Said { page: true, rest: true, wallet: true };
const NOWHERE: Said = Said { page: false, rest: false, wallet: false };

fn said(server: &Birdhouse) -> Said {
    let answer = |service: &str, path: &str| {
        let port = server.until("has a listener", || server.port(&format!("serving the {service}")));
        let answer = whole_answer(port, path);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{path}: {answer}");
        answer
    };
    let banner = server.client().call("server.banner", json!([])).unwrap();
    Said {
        page: answer("explorer", "/blocks").contains("the server does not follow its node now (node unreachable)"),
        rest: answer("REST API", "/blocks/tip/height").contains("\r\nbirdhouse-waiting: node unreachable\r\n"),
        wallet: banner.as_str().unwrap().contains("Note: the node does not answer"),
    }
}

#[test]
fn pages_wallets_and_rest_say_that_the_node_is_silent_until_it_answers_again() {
    let mut node = node();
    let addresses = [("BIRDHOUSE_HTTP_ADDR", "127.0.0.1:0"), ("BIRDHOUSE_REST_ADDR", "127.0.0.1:0")];
    let server = Birdhouse::start_with(&node, &addresses);
    let health = || {
        let answer = server.get("/health");
        (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap())
    };
    let serving = || (health() == (200, json!({ "status": "serving", "height": 10 }))).then_some(());
    let says = |wanted: Said| (said(&server) == wanted).then_some(());
    server.until("is healthy", serving);
    assert_eq!(said(&server), NOWHERE);

    node.pause().unwrap();
    server.until("says that the node hangs", || says(EVERYWHERE));
    assert_eq!(health().1["status"], "node unreachable");
    node.resume().unwrap();
    // The server is healthy at once, and its clients see no notice come and go.
    server.until("is healthy again", serving);
    server.until("says nothing any more", || says(NOWHERE));

    node.stop().unwrap();
    server.until("says that the node has ended", || says(EVERYWHERE));
    assert_eq!(health().1["status"], "node unreachable");
}
