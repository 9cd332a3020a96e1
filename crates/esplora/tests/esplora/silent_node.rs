//! A node that accepts calls and answers none, as one whose disk hangs.

use crate::world::World;

#[test]
fn fees_are_answered_from_the_last_value_and_the_rest_with_a_time_to_ask_again() {
    let world = World::small(211);
    let paths = ["/api/v1/fees/recommended", "/api/v1/fees/precise", "/api/fee-estimates"];
    let before = paths.map(|path| world.rest.json(path));
    world.live.node().pause().unwrap();
    // The lowest rate is asked for anew after some seconds.
    let aged = loop {
        let got = world.rest.get(paths[0]);
        assert_eq!(got.status, 200, "{}", got.text());
        if !got.header("age").is_empty() {
            break got;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert!(aged.header("age").parse::<u64>().unwrap() > 0);
    assert_eq!(paths.map(|path| world.rest.json(path)), before);
    // What the node alone knows, while clients that wait for it have taken its turns or not.
    let got = world.rest.get("/api/v1/validate-address/x");
    world.live.node().resume().unwrap();
    assert_eq!((got.status, got.header("retry-after")), (503, "5"), "{}", got.text());
    assert_eq!(world.rest.json(paths[0]), before[0]);
}
