use birdhouse_events::Kind;

use super::*;

const NOW: u32 = 1_700_000_000;

fn keys(number: u8) -> Keys {
    Keys::from_secret([number; 32]).unwrap()
}

fn members(numbers: &[u8]) -> Vec<Pubkey> {
    numbers.iter().map(|number| keys(*number).pubkey()).collect()
}

/// Kinds of events, and the members that they name.
fn names(events: &[VerifiedEvent]) -> Vec<(Kind, Vec<String>)> {
    let named = |event: &VerifiedEvent| {
        let name = if event.kind == MEMBERS { "member" } else { "p" };
        (event.kind, event.values(name).map(str::to_owned).collect())
    };
    events.iter().map(named).collect()
}

#[test]
fn the_difference_to_the_stored_list_is_published_and_a_newer_list_after_it() {
    let relay = keys(9);
    let hex = |numbers: &[u8]| members(numbers).iter().map(Pubkey::to_string).collect::<Vec<_>>();
    let first = due(&relay, &members(&[1, 2]), None, NOW);
    assert_eq!(names(&first), [(MEMBERS, hex(&[1, 2]))]);
    assert!(due(&relay, &members(&[2, 1]), Some(&first[0]), NOW).is_empty());
    let second = due(&relay, &members(&[2, 3]), Some(&first[0]), NOW - 5);
    assert_eq!(names(&second), [(REMOVED, hex(&[1])), (ADDED, hex(&[3])), (MEMBERS, hex(&[2, 3]))]);
    assert_eq!(second[2].created_at.0, u64::from(NOW) + 1, "also by a clock that went back");
    for event in first.iter().chain(&second) {
        assert_eq!((event.tags[0].0.clone(), event.pubkey), (vec!["-".to_owned()], relay.pubkey()));
    }
}

#[test]
fn a_second_implementation_reads_and_verifies_the_events() {
    let (relay, many) = (keys(9), (0..200).map(|number: u8| keys(number + 1).pubkey()).collect::<Vec<_>>());
    let list = due(&relay, &many, None, NOW).remove(0);
    for event in [list, super::super::events::invite(&relay, "code", NOW), change(&relay, ADDED, &many[0], NOW)] {
        let read: nostr_sdk::Event = serde_json::from_str(&event.to_json()).unwrap();
        read.verify().unwrap();
        assert!(read.is_protected());
        assert_eq!(read.pubkey.to_hex(), relay.pubkey().to_string());
        assert_eq!(read.tags.len(), event.tags.len());
    }
}
