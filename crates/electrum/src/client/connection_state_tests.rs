//! Negotiation and subscriptions of one client.

#![expect(clippy::unwrap_used, reason = "tests")]

use birdhouse_chain::{Confirmation, Height};
use bitcoin::Txid;
use bitcoin::hashes::Hash as _;

use super::*;
use crate::protocol::Output;
use crate::request::FeeQuery;

#[path = "connection_state_tests/model.rs"]
mod model;

const SUBSCRIPTIONS_MAX: usize = 3;

fn hash(number: u8) -> ScriptHash {
    ScriptHash([number; 32])
}

fn script(number: u8) -> Script {
    Script { hash: hash(number), naming: Naming::Hash }
}

fn outpoint(number: u8) -> OutPoint {
    OutPoint { txid: Txid::from_byte_array([number; 32]), vout: number.into() }
}

fn tip(number: u8) -> TipHeader {
    TipHeader { header: [number; 80], height: Height(number.into()) }
}

/// An outpoint of the script with the same number, funded at a height or not at all.
fn funded(number: u8, height: Option<u32>) -> OutpointState {
    let funding = height.map(|height| Confirmation::Confirmed(Height(height)));
    let status = OutpointStatus { funding, spender: None };
    let output = height.map_or(Output::Unseen, |_| Output::Of(hash(number)));
    OutpointState { status, output, prospect: Prospect::Open }
}

fn subscribe(subject: Subject) -> Request {
    match subject {
        Subject::Tip => MemoryRequest::HeadersSubscribe.into(),
        Subject::Script(script) => Lookup::Subscribe(script).into(),
        Subject::Outpoint(outpoint) | Subject::Unspendable(outpoint) => {
            Query::OutpointSubscribe { outpoint, hint: None }.into()
        }
    }
}

fn hinted(number: u8) -> Request {
    Query::OutpointSubscribe { outpoint: outpoint(number), hint: Some(hash(number)) }.into()
}

fn admit(connection: &mut ConnectionState, request: impl Into<Request>) -> Admission {
    connection.admit(request.into(), "Birdhouse", SUBSCRIPTIONS_MAX)
}

/// Subscribes, and the reply leaves at once.
fn follow(connection: &mut ConnectionState, request: impl Into<Request>, state: SubjectState) {
    assert!(matches!(admit(connection, request), Admission::Run(..)));
    let epoch = connection.epoch();
    assert!(!connection.settle(Settle::Sent(state), epoch));
}

/// Returns true if the client is notified of a state that was found just now.
fn is_notified(connection: &mut ConnectionState, state: SubjectState) -> bool {
    let epoch = connection.epoch();
    let change = connection.change(&state, epoch);
    assert_ne!(change, Some(Age::Stale));
    change.is_some()
}

fn leave(connection: &mut ConnectionState, request: impl Into<Request>) -> bool {
    match admit(connection, request) {
        Admission::Answer(Ok(Answer::Bool(was_subscribed))) => was_subscribed,
        other => panic!("{other:?}"),
    }
}

fn greet(connection: &mut ConnectionState, min: &str, max: &str) -> Result<Version, i32> {
    let range = VersionRange { min: min.parse().unwrap(), max: max.parse().unwrap() };
    match admit(connection, ConnectionRequest::Version(range)) {
        Admission::Answer(Ok(Answer::Version { version, .. })) => Ok(version),
        Admission::Answer(Err(error)) => Err(error.code),
        Admission::Farewell(error) => Err(error.code - 1_000_000),
        other => panic!("{other:?}"),
    }
}

fn read(connection: &ConnectionState, method: &str) -> Result<Request, RpcError> {
    connection.read(method, Args::parse(None))
}

/// A connection that follows the tip, a script and an outpoint, with replies sent.
fn subscribed() -> ConnectionState {
    let mut connection = ConnectionState::new();
    follow(&mut connection, MemoryRequest::HeadersSubscribe, SubjectState::Tip(tip(1)));
    follow(&mut connection, Lookup::Subscribe(script(1)), SubjectState::Script(script(1), Some([1; 32])));
    follow(&mut connection, hinted(1), SubjectState::Outpoint(outpoint(1), funded(1, None)));
    connection
}

#[test]
fn version_is_negotiated_once() {
    let mut connection = ConnectionState::new();
    assert_eq!(greet(&mut connection, "1.4", "1.6"), Ok(Version::V1_6));
    assert_eq!(greet(&mut connection, "1.4", "1.4"), Err(1));
    assert_eq!(read(&connection, "mempool.get_info"), Ok(FeeQuery::MempoolInfo.into()));
    assert_eq!(read(&connection, "mempool.recent").unwrap_err().code, -32601);
}

#[test]
fn an_unsupported_version_ends_the_connection() {
    assert_eq!(greet(&mut ConnectionState::new(), "1.0", "1.2"), Err(1 - 1_000_000));
    assert_eq!(greet(&mut ConnectionState::new(), "1.8", "1.9"), Err(1 - 1_000_000));
}

#[test]
fn a_late_version_stays_below_1_6() {
    let mut connection = ConnectionState::new();
    admit(&mut connection, MemoryRequest::Ping);
    assert_eq!(greet(&mut connection, "1.4", "1.7"), Ok(Version::V1_4_2));
    let mut connection = ConnectionState::new();
    admit(&mut connection, MemoryRequest::Ping);
    assert_eq!(greet(&mut connection, "1.6", "1.7"), Err(1 - 1_000_000));
}

#[test]
fn what_only_later_versions_have_wants_the_version_first() {
    let connection = ConnectionState::new();
    assert_eq!(read(&connection, "server.ping"), Ok(MemoryRequest::Ping.into()));
    assert_eq!(read(&connection, "blockchain.relayfee"), Ok(FeeQuery::RelayFee.into()));
    assert_eq!(read(&connection, "mempool.recent"), Err(RpcError::version_first()));
    assert_eq!(read(&connection, "none").unwrap_err().code, -32601);
}

#[test]
fn subscriptions_of_all_kinds_are_bounded_together_and_repeating_one_is_free() {
    let mut connection = ConnectionState::new();
    let by_pubkey = Script { naming: Naming::Pubkey, ..script(1) };
    let requests = [Lookup::Subscribe(script(1)).into(), Lookup::Subscribe(by_pubkey).into(), hinted(1)];
    for request in requests.iter().chain(&requests) {
        assert!(matches!(admit(&mut connection, request.clone()), Admission::Run(..)));
    }
    for request in [Lookup::Subscribe(script(4)).into(), hinted(4)] {
        let refused = admit(&mut connection, request);
        assert!(matches!(refused, Admission::Answer(Err(error)) if error.code == -101));
    }
    assert!(matches!(admit(&mut connection, MemoryRequest::HeadersSubscribe), Admission::Run(..)));
    admit(&mut connection, ConnectionRequest::Unsubscribe(script(1)));
    assert!(matches!(admit(&mut connection, Lookup::Subscribe(script(4))), Admission::Run(..)));
}

/// Proves that a connection follows `most` unfunded outpoints at most, with this hint or without one. Returns one that
/// follows as many.
fn follows_at_most(most: usize, hint: Option<ScriptHash>) -> ConnectionState {
    let mut connection = ConnectionState::new();
    let numbered = |vout: usize| OutPoint { vout: u32::try_from(vout).unwrap(), ..outpoint(1) };
    let request = |vout| Request::from(Query::OutpointSubscribe { outpoint: numbered(vout), hint });
    for vout in 0..most {
        assert!(matches!(connection.admit(request(vout), "Birdhouse", usize::MAX), Admission::Run(..)));
    }
    let refused = connection.admit(request(most), "Birdhouse", usize::MAX);
    assert!(matches!(refused, Admission::Answer(Err(error)) if error.code == -101));
    // The funding transaction of one is found, and another may come.
    connection.settle(Settle::Sent(SubjectState::Outpoint(numbered(0), funded(1, Some(5)))), connection.epoch());
    assert!(matches!(connection.admit(request(most), "Birdhouse", usize::MAX), Admission::Run(..)));
    connection
}

#[test]
fn outpoints_of_unknown_owners_are_bounded() {
    let mut connection = follows_at_most(UNOWNED_OUTPOINTS_MAX, None);
    assert!(matches!(connection.admit(hinted(2), "Birdhouse", usize::MAX), Admission::Run(..)));
}

#[test]
fn outpoints_whose_owner_only_the_client_names_are_bounded() {
    follows_at_most(HINTED_OUTPOINTS_MAX, Some(hash(1)));
}

#[test]
fn unsubscribe_says_whether_there_was_a_subscription() {
    let mut connection = subscribed();
    for request in [
        ConnectionRequest::HeadersUnsubscribe,
        ConnectionRequest::Unsubscribe(script(1)),
        ConnectionRequest::OutpointUnsubscribe(outpoint(1)),
    ] {
        assert!(leave(&mut connection, request));
        assert!(!leave(&mut connection, request));
    }
    assert!(!leave(&mut connection, ConnectionRequest::Unsubscribe(script(2))));
}

#[test]
fn only_a_changed_status_is_notified() {
    let mut connection = subscribed();
    connection.touch(&[hash(1), hash(2)]);
    assert_eq!(connection.take_due(), [Subject::Tip, Subject::Script(script(1)), Subject::Outpoint(outpoint(1))]);
    assert_eq!(connection.take_due(), []);
    assert!(!is_notified(&mut connection, SubjectState::Script(script(1), Some([1; 32]))));
    assert!(is_notified(&mut connection, SubjectState::Script(script(1), Some([2; 32]))));
    assert!(!is_notified(&mut connection, SubjectState::Script(script(1), Some([2; 32]))));
    assert!(is_notified(&mut connection, SubjectState::Script(script(1), None)));
    assert!(!is_notified(&mut connection, SubjectState::Script(script(2), Some([1; 32]))));
}

#[test]
fn a_script_that_is_followed_in_both_ways_is_notified_in_both() {
    let mut connection = subscribed();
    let by_pubkey = Script { naming: Naming::Pubkey, ..script(1) };
    follow(&mut connection, Lookup::Subscribe(by_pubkey), SubjectState::Script(by_pubkey, Some([1; 32])));
    assert!(leave(&mut connection, ConnectionRequest::OutpointUnsubscribe(outpoint(1))));
    connection.touch(&[hash(1)]);
    let mut due = connection.take_due();
    due.sort_by_key(|subject| *subject == Subject::Script(by_pubkey));
    assert_eq!(due, [Subject::Tip, Subject::Script(script(1)), Subject::Script(by_pubkey)]);
    connection.touch(&[hash(1)]);
    assert!(leave(&mut connection, ConnectionRequest::Unsubscribe(script(1))));
    assert_eq!(connection.take_due(), [Subject::Tip, Subject::Script(by_pubkey)]);
}

#[test]
fn only_another_tip_is_notified() {
    let mut connection = subscribed();
    assert!(!connection.is_tip_due(), "nothing moved");
    connection.touch(&[]);
    assert!(connection.is_tip_due());
    assert_eq!(connection.take_due(), [Subject::Tip]);
    assert!(!connection.is_tip_due());
    assert!(!is_notified(&mut connection, SubjectState::Tip(tip(1))));
    assert!(is_notified(&mut connection, SubjectState::Tip(tip(2))));
}

#[test]
fn an_outpoint_is_followed_by_its_hint_then_by_its_script() {
    let mut connection = ConnectionState::new();
    let unfunded = SubjectState::Outpoint(outpoint(1), funded(1, None));
    let hint = Query::OutpointSubscribe { outpoint: outpoint(1), hint: Some(hash(7)) };
    follow(&mut connection, hint, unfunded);
    connection.touch(&[hash(1)]);
    assert_eq!(connection.take_due(), []);
    connection.touch(&[hash(7)]);
    assert_eq!(connection.take_due(), [Subject::Outpoint(outpoint(1))]);
    assert!(!is_notified(&mut connection, unfunded));
    assert!(is_notified(&mut connection, SubjectState::Outpoint(outpoint(1), funded(1, Some(5)))));
    connection.touch(&[hash(7)]);
    assert_eq!(connection.take_due(), []);
    // The funding transaction is gone, and may come back.
    assert!(is_notified(&mut connection, unfunded));
    connection.touch(&[hash(1)]);
    assert_eq!(connection.take_due(), [Subject::Outpoint(outpoint(1))]);
}

#[test]
fn an_outpoint_without_a_script_is_checked_at_every_update() {
    let mut connection = ConnectionState::new();
    follow(
        &mut connection,
        subscribe(Subject::Outpoint(outpoint(1))),
        SubjectState::Outpoint(outpoint(1), funded(1, None)),
    );
    connection.touch(&[]);
    assert_eq!(connection.take_due(), [Subject::Outpoint(outpoint(1))]);
    assert!(is_notified(&mut connection, SubjectState::Outpoint(outpoint(1), funded(1, Some(5)))));
    connection.touch(&[]);
    assert_eq!(connection.take_due(), []);
}

#[test]
fn an_output_that_can_never_be_spent_is_checked_as_one_from_then_on() {
    let mut connection = ConnectionState::new();
    let unspendable = |height| OutpointState { output: Output::Unspendable, ..funded(1, height) };
    // The hint was wrong, for no transaction touches such a script.
    follow(&mut connection, hinted(1), SubjectState::Outpoint(outpoint(1), funded(1, None)));
    connection.touch(&[hash(1)]);
    assert_eq!(connection.take_due(), [Subject::Outpoint(outpoint(1))]);
    assert!(is_notified(&mut connection, SubjectState::Outpoint(outpoint(1), unspendable(Some(5)))));
    for height in [None, Some(6)] {
        connection.touch(&[hash(7)]);
        assert_eq!(connection.take_due(), [Subject::Unspendable(outpoint(1))]);
        assert!(is_notified(&mut connection, SubjectState::Outpoint(outpoint(1), unspendable(height))));
    }
    connection.touch(&[]);
    connection.take_due();
    connection.put_back(Subject::Unspendable(outpoint(1)));
    assert_eq!(connection.take_due(), [Subject::Unspendable(outpoint(1))]);
    assert!(leave(&mut connection, ConnectionRequest::OutpointUnsubscribe(outpoint(1))));
    connection.touch(&[hash(1)]);
    assert_eq!(connection.take_due(), []);
}

#[test]
fn an_outpoint_whose_spender_is_buried_is_answered_and_let_go() {
    let mut connection = subscribed();
    let spent = OutpointState { prospect: Prospect::Final, ..funded(1, Some(5)) };
    connection.touch(&[hash(1)]);
    assert!(is_notified(&mut connection, SubjectState::Outpoint(outpoint(1), spent)));
    connection.touch_all();
    assert_eq!(connection.take_due(), [Subject::Tip, Subject::Script(script(1))]);
    assert!(!leave(&mut connection, ConnectionRequest::OutpointUnsubscribe(outpoint(1))));
}

#[test]
fn nothing_is_notified_before_the_reply() {
    let mut connection = ConnectionState::new();
    for request in [MemoryRequest::HeadersSubscribe.into(), Lookup::Subscribe(script(1)).into(), hinted(1)] {
        admit(&mut connection, request);
    }
    connection.touch(&[hash(1)]);
    assert!(!is_notified(&mut connection, SubjectState::Tip(tip(2))));
    assert!(!is_notified(&mut connection, SubjectState::Script(script(1), Some([2; 32]))));
    assert!(!is_notified(&mut connection, SubjectState::Outpoint(outpoint(1), funded(1, Some(2)))));
}

#[test]
fn a_reply_older_than_an_update_is_checked_again() {
    let mut connection = ConnectionState::new();
    admit(&mut connection, Lookup::Subscribe(script(1)));
    admit(&mut connection, MemoryRequest::HeadersSubscribe);
    let epoch = connection.epoch();
    connection.touch(&[hash(1)]);
    assert!(!is_notified(&mut connection, SubjectState::Script(script(1), Some([2; 32]))));
    assert!(connection.settle(Settle::Sent(SubjectState::Script(script(1), Some([1; 32]))), epoch));
    assert!(connection.settle(Settle::Sent(SubjectState::Tip(tip(1))), epoch));
    assert_eq!(connection.take_due(), [Subject::Tip, Subject::Script(script(1))]);
    assert!(is_notified(&mut connection, SubjectState::Script(script(1), Some([2; 32]))));
    assert!(is_notified(&mut connection, SubjectState::Tip(tip(2))));
}

#[test]
fn an_update_during_a_check_leads_to_another_check() {
    let mut connection = subscribed();
    connection.touch(&[hash(1)]);
    connection.take_due();
    let epoch = connection.epoch();
    connection.touch(&[hash(1)]);
    let [first, second] = [[2; 32], [3; 32]].map(|status| SubjectState::Script(script(1), Some(status)));
    assert_eq!(connection.change(&first, epoch), Some(Age::Stale));
    assert!(connection.take_due().contains(&Subject::Script(script(1))));
    assert!(is_notified(&mut connection, second));
}

#[test]
fn a_subject_whose_check_failed_stays_due() {
    let mut connection = subscribed();
    connection.touch(&[hash(1)]);
    let due = connection.take_due();
    for subject in &due {
        connection.put_back(*subject);
    }
    assert_eq!(connection.take_due(), due);
}

#[test]
fn an_unsubscribed_script_stays_so_when_its_reply_comes_late() {
    let mut connection = ConnectionState::new();
    admit(&mut connection, Lookup::Subscribe(script(1)));
    admit(&mut connection, hinted(1));
    let epoch = connection.epoch();
    leave(&mut connection, ConnectionRequest::Unsubscribe(script(1)));
    leave(&mut connection, ConnectionRequest::OutpointUnsubscribe(outpoint(1)));
    assert!(!connection.settle(Settle::Sent(SubjectState::Script(script(1), Some([1; 32]))), epoch));
    assert!(!connection.settle(Settle::Sent(SubjectState::Outpoint(outpoint(1), funded(1, Some(5)))), epoch));
    connection.touch_all();
    connection.touch(&[hash(1)]);
    assert_eq!(connection.take_due(), []);
}

#[test]
fn a_failed_subscribe_leaves_nothing_but_what_was_there() {
    let mut connection = subscribed();
    admit(&mut connection, subscribe(Subject::Outpoint(outpoint(2))));
    let epoch = connection.epoch();
    let failed =
        [Subject::Tip, Subject::Script(script(1)), Subject::Outpoint(outpoint(1)), Subject::Outpoint(outpoint(2))];
    for subject in failed {
        connection.settle(Settle::Failed(subject), epoch);
    }
    connection.touch_all();
    connection.touch(&[hash(1), hash(2)]);
    assert_eq!(connection.take_due(), [Subject::Tip, Subject::Script(script(1)), Subject::Outpoint(outpoint(1))]);
}

#[test]
fn after_a_lag_everything_is_checked() {
    let mut connection = subscribed();
    connection.touch_all();
    assert_eq!(connection.take_due(), [Subject::Tip, Subject::Script(script(1)), Subject::Outpoint(outpoint(1))]);
}
