//! The list of servers over time.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::net::Ipv4Addr;

use super::*;

pub(in crate::peers) fn host(name: &str) -> Host {
    Host { name: name.into(), tcp_port: Some(50001), ..Host::default() }
}

pub(in crate::peers) fn peer(name: &str, address: &str) -> Peer {
    Peer { host: host(name), address: address.parse().unwrap(), protocol_max: "1.6".into() }
}

fn listed(known: &Known) -> Vec<&str> {
    known.found().map(|peer| peer.host.name.as_str()).collect()
}

/// Notes a server and settles it with what was found at this time.
fn settled(known: &mut Known, name: &str, introduced_by: Introducer, address: Option<&str>, now: Instant) {
    known.note(host(name), introduced_by, now);
    known.settle(name, address.map(|address| peer(name, address)), now);
}

pub(in crate::peers) const STRANGER: Introducer = Introducer::Itself(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)));

#[test]
fn a_server_is_listed_once_found_and_forgotten_after_a_day_of_silence() {
    for introduced_by in [STRANGER, Introducer::Operator] {
        let (mut known, start) = (Known::default(), Instant::now());
        settled(&mut known, "a.example", introduced_by, Some("192.0.2.1"), start);
        let (_, _, mut now) = known.due().unwrap();
        assert_eq!(now - start, PROBE_EVERY);
        while now - start <= FORGET_AFTER {
            known.settle("a.example", None, now);
            assert_eq!(listed(&known), ["a.example"]);
            let (_, _, probe_at) = known.due().unwrap();
            assert_eq!(probe_at - now, RETRY_AFTER);
            now = probe_at;
        }
        known.settle("a.example", None, now);
        assert!(listed(&known).is_empty());
        assert_eq!(known.due().is_some(), introduced_by == Introducer::Operator, "the operator's are tried for ever");
    }
}

#[test]
fn who_announces_what_does_not_work_gets_no_second_look_but_the_operators_servers_do() {
    let (mut known, now) = (Known::default(), Instant::now());
    settled(&mut known, "liar.example", STRANGER, None, now);
    settled(&mut known, "seed.example", Introducer::Operator, None, now);
    assert!(listed(&known).is_empty());
    assert_eq!(known.due().unwrap().0.name, "seed.example");
    known.settle("seed.example", Some(peer("seed.example", "192.0.2.1")), now + RETRY_AFTER);
    assert_eq!(listed(&known), ["seed.example"]);
}

#[test]
fn a_server_that_moved_to_another_port_is_looked_at_there() {
    let (mut known, now) = (Known::default(), Instant::now());
    settled(&mut known, "a.example", STRANGER, Some("192.0.2.1"), now);
    let moved = Host { name: "a.example".into(), ssl_port: Some(443), ..Host::default() };
    known.settle("a.example", Some(Peer { host: moved.clone(), ..peer("a.example", "192.0.2.1") }), now);
    assert_eq!(known.due().unwrap().0, moved);
}

#[test]
fn one_network_has_few_places() {
    let (mut known, now) = (Known::default(), Instant::now());
    for (name, address) in [("a", "192.0.2.1"), ("b", "192.0.99.1"), ("c", "192.0.3.1"), ("d", "192.1.2.1")] {
        settled(&mut known, name, STRANGER, Some(address), now);
    }
    assert_eq!(listed(&known), ["a", "b", "d"]);
    known.settle("a", Some(peer("a", "192.0.2.2")), now);
    assert_eq!(listed(&known), ["a", "b", "d"], "it does not crowd out itself");
}

#[test]
fn the_list_and_the_queue_are_bounded() {
    let (mut known, now) = (Known::default(), Instant::now());
    for number in 0..PEERS_MAX + 5 {
        let address = format!("{}.{}.2.1", 1 + number / 100, number % 100);
        settled(&mut known, &number.to_string(), STRANGER, Some(&address), now);
    }
    assert_eq!(listed(&known).len(), PEERS_MAX);
    let mut note = |name: String, from: [u8; 4]| known.note(host(&name), Introducer::Itself(from.into()), now);
    let noted = (0..50).filter(|number| note(format!("near{number}"), [192, 0, 2, *number])).count();
    assert_eq!(noted, PEERS_PER_NETWORK);
    let noted = (0..50).filter(|number| note(format!("far{number}"), [1, *number, 2, 3])).count();
    assert_eq!(noted, WAITING_MAX - PEERS_PER_NETWORK);
    assert!(note("near0".into(), [192, 0, 2, 1]), "it waits already");
    assert!(known.note(host("seed"), Introducer::Operator, now));
}
