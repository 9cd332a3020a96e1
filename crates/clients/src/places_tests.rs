use super::*;

const BOUNDS: PlaceBounds = PlaceBounds { half_open: 3, network: 10 };

fn from(address: &str) -> Origin {
    Origin::of(address.parse().unwrap())
}

/// Enters connections that are complete, each as active as its number says.
fn filled(addresses: &[&str]) -> Places {
    let mut places = Places::new(PlaceBounds { half_open: 1000, network: 1000 });
    for (id, address) in (0..).zip(addresses) {
        places.enter(id, from(address), Arc::new(AtomicU64::new(id))).unwrap();
        assert_eq!(places.complete(id, from(address)), None);
    }
    places
}

#[test]
fn sockets_that_are_not_complete_are_bounded_by_address() {
    let mut places = Places::new(BOUNDS);
    let mut enter = |id, address| places.enter(id, from(address), Arc::default());
    for id in 0..3 {
        enter(id, "203.0.113.1").unwrap();
    }
    assert_eq!(enter(3, "203.0.113.1"), Err(TooManyHalfOpen));
    enter(4, "203.0.113.2").unwrap();
    for id in 10..13 {
        enter(id, "2001:db8::1").unwrap();
    }
    assert_eq!(enter(13, "2001:db8::2"), Err(TooManyHalfOpen), "one /64");
    for id in 20..60 {
        enter(id, "127.0.0.1").unwrap();
    }
    assert_eq!(places.complete(0, from("203.0.113.1")), None);
    places.enter(3, from("203.0.113.1"), Arc::default()).unwrap();
    assert_eq!(places.half_open(), 3 + 1 + 3 + 40);
    for id in 0..60 {
        places.leave(id);
    }
    assert!(places.half_open.is_empty() && places.all.count == 0 && places.all.sizes.is_empty());
}

#[test]
fn a_network_with_as_many_as_it_may_have_gives_a_place_itself() {
    let mut places = Places::new(BOUNDS);
    // Each is as active as its number says.
    let enter = |places: &mut Places, id: u64, address: &str| {
        let leaving = places.enter(id, from(address), Arc::new(AtomicU64::new(id))).unwrap();
        assert_eq!(places.complete(id, from(address)), None, "it is there already");
        leaving
    };
    for id in 0..8 {
        assert_eq!(enter(&mut places, id, &format!("203.0.113.{id}")), None);
    }
    for id in 8..10 {
        assert_eq!(enter(&mut places, id, "203.0.113.99"), None);
    }
    assert_eq!(enter(&mut places, 10, "203.0.114.77"), None, "another network");
    assert_eq!(enter(&mut places, 11, "203.0.113.77"), Some(8), "the idlest of the address that has two");
    places.leave(8);
    for id in 100..140 {
        // Ten in each of four /48.
        assert_eq!(enter(&mut places, id, &format!("2001:db8:{}:{id}::1", id / 10)), None);
    }
    assert_eq!(enter(&mut places, 140, "2001:db8:12:77::1"), Some(120), "of its /48");
    places.leave(120);
    assert_eq!(enter(&mut places, 141, "2001:db8:77:77::1"), Some(100), "of the /32");
    places.leave(100);
    assert_eq!(enter(&mut places, 142, "2001:db9:77:77::1"), None);
    // A client that its proxy names counts in its own network.
    places.enter(200, from("127.0.0.1"), Arc::default()).unwrap();
    assert_eq!(places.complete(200, from("203.0.113.78")), Some(0));
}

#[test]
fn of_tor_circuits_the_one_with_most_connections_gives_a_place() {
    let circuits = ["1", "2", "2", "3"].map(|circuit| format!("fc00:dead:beef:4dad::{circuit}:1"));
    let mut places = filled(&circuits.each_ref().map(String::as_str));
    assert_eq!(places.idlest(), Some(1));
    // Those of this machine are one group, which counts as many clients.
    for id in 4..24 {
        places.enter(id, from("127.0.0.1"), Arc::default()).unwrap();
    }
    assert_eq!(places.idlest(), Some(1));
    for id in 24..64 {
        places.enter(id, from("127.0.0.1"), Arc::default()).unwrap();
    }
    assert_eq!(places.idlest(), Some(4));
    for id in 0..64 {
        places.leave(id);
    }
    assert!(places.all.count == 0 && places.all.inner.is_empty() && places.all.sizes.is_empty());
}

#[test]
fn the_idlest_of_the_largest_network_leaves() {
    // The largest /24 has three, of which two are of one address.
    let mut places = filled(&["192.0.2.1", "192.0.2.9", "203.0.113.1", "203.0.113.2", "203.0.113.2"]);
    assert_eq!(places.idlest(), Some(3), "of the address with two");
    places.by_id[&3].active.store(9, Ordering::Relaxed);
    assert_eq!(places.idlest(), Some(4), "the other one was active since");
    places.leave(4);
    assert_eq!(places.idlest(), Some(0), "of groups of one size the idlest");
    // Many addresses of one IPv6 network are one group.
    let places = filled(&["192.0.2.1", "192.0.2.1", "2001:db8:1::1", "2001:db8:2::1", "2001:db8:3::1"]);
    assert_eq!(places.idlest(), Some(2));
}

#[test]
fn the_unnamed_are_one_group_of_many_clients() {
    let mut addresses = vec!["127.0.0.1"; 30];
    addresses.extend(["192.0.2.1"; 2]);
    assert_eq!(filled(&addresses).idlest(), Some(30), "thirty of the pool are fewer than two of an address");
    addresses.extend(["127.0.0.1"; 20]);
    assert_eq!(filled(&addresses).idlest(), Some(0));
    assert_eq!(Places::new(BOUNDS).idlest(), None);
}
