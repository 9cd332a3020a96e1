//! Pages of the operator, labels and tables.

use serde_json::json;

use crate::world::{World, to_shop};

#[test]
fn a_page_and_a_table_show_a_wallet_with_its_labels() {
    let mut world = World::start(31);
    let paid = world.live.pay(&[to_shop(0, 70_000)]).unwrap().compute_txid();
    world.live.mine().unwrap();
    let waiting = world.live.pay(&[to_shop(1, 20_000)]).unwrap().compute_txid();
    world.sync();
    let server = &world.server;
    let labels = format!(
        "{{\"type\":\"tx\",\"ref\":\"{paid}\",\"label\":\"Rent, <May>\"}}\nnonsense\n{{\"type\":\"output\",\"ref\":\"{paid}:0\",\"spendable\":false}}\n"
    );
    let imported = server.post("/labels", &labels);
    assert_eq!(imported.json(), json!({ "imported": 2, "without_room": 0, "skipped": 1, "skipped_lines": [2] }));
    // What a label leaves out stays.
    server.post("/labels", &format!("{{\"type\":\"output\",\"ref\":\"{paid}:0\",\"label\":\"cold\"}}"));
    let exported = server.get("/labels");
    let lines: Vec<serde_json::Value> = exported.text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        lines,
        [
            json!({ "type": "tx", "ref": paid, "label": "Rent, <May>" }),
            json!({ "type": "output", "ref": format!("{paid}:0"), "label": "cold", "spendable": false }),
        ]
    );

    let home = server.get("/");
    assert!(home.text.contains("href=\"/watch/Shop\"") && home.text.contains("0.00070000"), "{}", home.text);
    let page = server.get("/watch/Shop");
    assert!(page.text.contains("Rent, &lt;May&gt;") && page.text.contains("unconfirmed"), "{}", page.text);
    assert_eq!(server.get("/watch/nobody").status, 404);
    let (height, _) = world.tip();
    let csv = server.get("/watch/Shop/csv").text;
    let rows: Vec<&str> = csv.split("\r\n").collect();
    assert_eq!(rows[0], "time,height,txid,received_sat,spent_sat,label");
    assert!(rows[1].ends_with(&format!(",{height},{paid},70000,0,\"Rent, <May>\"")), "{csv}");
    assert_eq!(rows[2], format!(",,{waiting},20000,0,"));
}
