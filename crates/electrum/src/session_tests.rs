//! Negotiation and subscriptions of one client.

#![expect(clippy::unwrap_used, reason = "tests")]

use birdhouse_chain::{Confirmation, Height};
use bitcoin::Txid;
use bitcoin::hashes::Hash as _;

use super::*;

#[path = "session_tests/model.rs"]
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
    OutpointState { status, script: height.map(|_| hash(number)), prospect: Prospect::Open }
}

fn subscribe(subject: Subject) -> Request {
    match subject {
        Subject::Tip => Request::HeadersSubscribe,
        Subject::Script(script) => Request::Subscribe(script),
        Subject::Outpoint(outpoint) => Request::OutpointSubscribe { outpoint, hint: None },
    }
}

fn hinted(number: u8) -> Request {
    Request::OutpointSubscribe { outpoint: outpoint(number), hint: Some(hash(number)) }
}

fn admit(session: &mut Session, request: Request) -> Admission {
    session.admit(request, "Birdhouse", SUBSCRIPTIONS_MAX)
}

/// Subscribes, and the reply leaves at once.
fn follow(session: &mut Session, request: Request, state: State) {
    assert!(matches!(admit(session, request), Admission::Run(_)));
    let epoch = session.epoch();
    assert!(!session.settle(Settle::Told(state), epoch));
}

/// Whether the client is told of what a look found just now.
fn is_told(session: &mut Session, state: State) -> bool {
    let epoch = session.epoch();
    let change = session.change(&state, epoch);
    assert_ne!(change, Some(Age::Stale));
    change.is_some()
}

fn leave(session: &mut Session, request: Request) -> bool {
    match admit(session, request) {
        Admission::Answer(Ok(Answer::Bool(was_subscribed))) => was_subscribed,
        other => panic!("{other:?}"),
    }
}

fn greet(session: &mut Session, min: &str, max: &str) -> Result<Version, i32> {
    let range = VersionRange { min: min.parse().unwrap(), max: max.parse().unwrap() };
    match admit(session, Request::Version(range)) {
        Admission::Answer(Ok(Answer::Version { version, .. })) => Ok(version),
        Admission::Answer(Err(error)) => Err(error.code),
        Admission::Farewell(error) => Err(error.code - 1_000_000),
        other => panic!("{other:?}"),
    }
}

fn read(session: &Session, method: &str) -> Result<Request, RpcError> {
    session.read(method, Args::parse(None))
}

/// A session that follows the tip, a script and an outpoint, with replies sent.
fn subscribed() -> Session {
    let mut session = Session::new();
    follow(&mut session, Request::HeadersSubscribe, State::Tip(tip(1)));
    follow(&mut session, Request::Subscribe(script(1)), State::Script(script(1), Some([1; 32])));
    follow(&mut session, hinted(1), State::Outpoint(outpoint(1), funded(1, None)));
    session
}

#[test]
fn version_is_negotiated_once() {
    let mut session = Session::new();
    assert_eq!(greet(&mut session, "1.4", "1.6"), Ok(Version::V1_6));
    assert_eq!(greet(&mut session, "1.4", "1.4"), Err(1));
    assert_eq!(read(&session, "mempool.get_info"), Ok(Request::MempoolInfo));
    assert_eq!(read(&session, "mempool.recent").unwrap_err().code, -32601);
}

#[test]
fn an_unsupported_version_ends_the_connection() {
    assert_eq!(greet(&mut Session::new(), "1.0", "1.2"), Err(1 - 1_000_000));
    assert_eq!(greet(&mut Session::new(), "1.8", "1.9"), Err(1 - 1_000_000));
}

#[test]
fn a_late_version_stays_below_1_6() {
    let mut session = Session::new();
    admit(&mut session, Request::Ping);
    assert_eq!(greet(&mut session, "1.4", "1.7"), Ok(Version::V1_4_2));
    let mut session = Session::new();
    admit(&mut session, Request::Ping);
    assert_eq!(greet(&mut session, "1.6", "1.7"), Err(1 - 1_000_000));
}

#[test]
fn what_only_later_versions_have_wants_the_version_first() {
    let session = Session::new();
    assert_eq!(read(&session, "server.ping"), Ok(Request::Ping));
    assert_eq!(read(&session, "blockchain.relayfee"), Ok(Request::RelayFee));
    assert_eq!(read(&session, "mempool.recent"), Err(RpcError::version_first()));
    assert_eq!(read(&session, "none").unwrap_err().code, -32601);
}

#[test]
fn subscriptions_of_all_kinds_are_bounded_together_and_repeating_one_is_free() {
    let mut session = Session::new();
    let by_pubkey = Script { naming: Naming::Pubkey, ..script(1) };
    let requests = [Request::Subscribe(script(1)), Request::Subscribe(by_pubkey), hinted(1)];
    for request in requests.iter().chain(&requests) {
        assert!(matches!(admit(&mut session, request.clone()), Admission::Run(_)));
    }
    for request in [Request::Subscribe(script(4)), hinted(4)] {
        let refused = admit(&mut session, request);
        assert!(matches!(refused, Admission::Answer(Err(error)) if error.code == -101));
    }
    assert!(matches!(admit(&mut session, Request::HeadersSubscribe), Admission::Run(_)));
    admit(&mut session, Request::Unsubscribe(script(1)));
    assert!(matches!(admit(&mut session, Request::Subscribe(script(4))), Admission::Run(_)));
}

#[test]
fn outpoints_of_unknown_owners_are_bounded() {
    let mut session = Session::new();
    let request = |vout: usize| {
        let outpoint = OutPoint { vout: u32::try_from(vout).unwrap(), ..outpoint(1) };
        subscribe(Subject::Outpoint(outpoint))
    };
    for vout in 0..UNOWNED_OUTPOINTS_MAX {
        assert!(matches!(session.admit(request(vout), "Birdhouse", usize::MAX), Admission::Run(_)));
    }
    let refused = session.admit(request(UNOWNED_OUTPOINTS_MAX), "Birdhouse", usize::MAX);
    assert!(matches!(refused, Admission::Answer(Err(error)) if error.code == -101));
    assert!(matches!(session.admit(hinted(2), "Birdhouse", usize::MAX), Admission::Run(_)));
    // The owner of one is found, and another may come.
    let Request::OutpointSubscribe { outpoint, .. } = request(0) else { unreachable!() };
    session.settle(Settle::Told(State::Outpoint(outpoint, funded(1, Some(5)))), session.epoch());
    assert!(matches!(session.admit(request(UNOWNED_OUTPOINTS_MAX), "Birdhouse", usize::MAX), Admission::Run(_)));
}

#[test]
fn unsubscribe_says_whether_there_was_a_subscription() {
    let mut session = subscribed();
    for request in
        [Request::HeadersUnsubscribe, Request::Unsubscribe(script(1)), Request::OutpointUnsubscribe(outpoint(1))]
    {
        assert!(leave(&mut session, request.clone()));
        assert!(!leave(&mut session, request));
    }
    assert!(!leave(&mut session, Request::Unsubscribe(script(2))));
}

#[test]
fn only_a_changed_status_is_told() {
    let mut session = subscribed();
    session.touch(&[hash(1), hash(2)]);
    assert_eq!(session.take_due(), [Subject::Tip, Subject::Script(script(1)), Subject::Outpoint(outpoint(1))]);
    assert_eq!(session.take_due(), []);
    assert!(!is_told(&mut session, State::Script(script(1), Some([1; 32]))));
    assert!(is_told(&mut session, State::Script(script(1), Some([2; 32]))));
    assert!(!is_told(&mut session, State::Script(script(1), Some([2; 32]))));
    assert!(is_told(&mut session, State::Script(script(1), None)));
    assert!(!is_told(&mut session, State::Script(script(2), Some([1; 32]))));
}

#[test]
fn a_script_that_is_followed_in_both_ways_is_told_in_both() {
    let mut session = subscribed();
    let by_pubkey = Script { naming: Naming::Pubkey, ..script(1) };
    follow(&mut session, Request::Subscribe(by_pubkey), State::Script(by_pubkey, Some([1; 32])));
    assert!(leave(&mut session, Request::OutpointUnsubscribe(outpoint(1))));
    session.touch(&[hash(1)]);
    assert_eq!(session.take_due(), [Subject::Tip, Subject::Script(script(1)), Subject::Script(by_pubkey)]);
    session.touch(&[hash(1)]);
    assert!(leave(&mut session, Request::Unsubscribe(script(1))));
    assert_eq!(session.take_due(), [Subject::Tip, Subject::Script(by_pubkey)]);
}

#[test]
fn only_another_tip_is_told() {
    let mut session = subscribed();
    assert!(!session.is_tip_due(), "nothing moved");
    session.touch(&[]);
    assert!(session.is_tip_due());
    assert_eq!(session.take_due(), [Subject::Tip]);
    assert!(!session.is_tip_due());
    assert!(!is_told(&mut session, State::Tip(tip(1))));
    assert!(is_told(&mut session, State::Tip(tip(2))));
}

#[test]
fn an_outpoint_is_followed_by_its_hint_then_by_its_script() {
    let mut session = Session::new();
    let unfunded = State::Outpoint(outpoint(1), funded(1, None));
    let hint = Request::OutpointSubscribe { outpoint: outpoint(1), hint: Some(hash(7)) };
    follow(&mut session, hint, unfunded);
    session.touch(&[hash(1)]);
    assert_eq!(session.take_due(), []);
    session.touch(&[hash(7)]);
    assert_eq!(session.take_due(), [Subject::Outpoint(outpoint(1))]);
    assert!(!is_told(&mut session, unfunded));
    assert!(is_told(&mut session, State::Outpoint(outpoint(1), funded(1, Some(5)))));
    session.touch(&[hash(7)]);
    assert_eq!(session.take_due(), []);
    // The funding transaction is gone, and may come back.
    assert!(is_told(&mut session, unfunded));
    session.touch(&[hash(1)]);
    assert_eq!(session.take_due(), [Subject::Outpoint(outpoint(1))]);
}

#[test]
fn an_outpoint_without_a_script_is_looked_at_at_every_update() {
    let mut session = Session::new();
    follow(&mut session, subscribe(Subject::Outpoint(outpoint(1))), State::Outpoint(outpoint(1), funded(1, None)));
    session.touch(&[]);
    assert_eq!(session.take_due(), [Subject::Outpoint(outpoint(1))]);
    assert!(is_told(&mut session, State::Outpoint(outpoint(1), funded(1, Some(5)))));
    session.touch(&[]);
    assert_eq!(session.take_due(), []);
}

#[test]
fn an_outpoint_whose_spender_is_buried_is_answered_and_let_go() {
    let mut session = subscribed();
    let spent = OutpointState { prospect: Prospect::Final, ..funded(1, Some(5)) };
    session.touch(&[hash(1)]);
    assert!(is_told(&mut session, State::Outpoint(outpoint(1), spent)));
    session.touch_all();
    assert_eq!(session.take_due(), [Subject::Tip, Subject::Script(script(1))]);
    assert!(!leave(&mut session, Request::OutpointUnsubscribe(outpoint(1))));
}

#[test]
fn nothing_is_told_before_the_reply() {
    let mut session = Session::new();
    for request in [Request::HeadersSubscribe, Request::Subscribe(script(1)), hinted(1)] {
        admit(&mut session, request);
    }
    session.touch(&[hash(1)]);
    assert!(!is_told(&mut session, State::Tip(tip(2))));
    assert!(!is_told(&mut session, State::Script(script(1), Some([2; 32]))));
    assert!(!is_told(&mut session, State::Outpoint(outpoint(1), funded(1, Some(2)))));
}

#[test]
fn a_reply_older_than_an_update_is_checked_again() {
    let mut session = Session::new();
    admit(&mut session, Request::Subscribe(script(1)));
    admit(&mut session, Request::HeadersSubscribe);
    let epoch = session.epoch();
    session.touch(&[hash(1)]);
    assert!(!is_told(&mut session, State::Script(script(1), Some([2; 32]))));
    assert!(session.settle(Settle::Told(State::Script(script(1), Some([1; 32]))), epoch));
    assert!(session.settle(Settle::Told(State::Tip(tip(1))), epoch));
    assert_eq!(session.take_due(), [Subject::Tip, Subject::Script(script(1))]);
    assert!(is_told(&mut session, State::Script(script(1), Some([2; 32]))));
    assert!(is_told(&mut session, State::Tip(tip(2))));
}

#[test]
fn an_update_during_a_look_leads_to_another_look() {
    let mut session = subscribed();
    session.touch(&[hash(1)]);
    session.take_due();
    let epoch = session.epoch();
    session.touch(&[hash(1)]);
    let [first, second] = [[2; 32], [3; 32]].map(|status| State::Script(script(1), Some(status)));
    assert_eq!(session.change(&first, epoch), Some(Age::Stale));
    assert!(session.take_due().contains(&Subject::Script(script(1))));
    assert!(is_told(&mut session, second));
}

#[test]
fn what_could_not_be_looked_at_stays_due() {
    let mut session = subscribed();
    session.touch(&[hash(1)]);
    let due = session.take_due();
    for subject in &due {
        session.put_back(*subject);
    }
    assert_eq!(session.take_due(), due);
}

#[test]
fn an_unsubscribed_script_stays_so_when_its_reply_comes_late() {
    let mut session = Session::new();
    admit(&mut session, Request::Subscribe(script(1)));
    admit(&mut session, hinted(1));
    let epoch = session.epoch();
    leave(&mut session, Request::Unsubscribe(script(1)));
    leave(&mut session, Request::OutpointUnsubscribe(outpoint(1)));
    assert!(!session.settle(Settle::Told(State::Script(script(1), Some([1; 32]))), epoch));
    assert!(!session.settle(Settle::Told(State::Outpoint(outpoint(1), funded(1, Some(5)))), epoch));
    session.touch_all();
    session.touch(&[hash(1)]);
    assert_eq!(session.take_due(), []);
}

#[test]
fn a_failed_subscribe_leaves_nothing_but_what_was_there() {
    let mut session = subscribed();
    admit(&mut session, subscribe(Subject::Outpoint(outpoint(2))));
    let epoch = session.epoch();
    let failed =
        [Subject::Tip, Subject::Script(script(1)), Subject::Outpoint(outpoint(1)), Subject::Outpoint(outpoint(2))];
    for subject in failed {
        session.settle(Settle::Failed(subject), epoch);
    }
    session.touch_all();
    session.touch(&[hash(1), hash(2)]);
    assert_eq!(session.take_due(), [Subject::Tip, Subject::Script(script(1)), Subject::Outpoint(outpoint(1))]);
}

#[test]
fn after_a_lag_everything_is_checked() {
    let mut session = subscribed();
    session.touch_all();
    assert_eq!(session.take_due(), [Subject::Tip, Subject::Script(script(1)), Subject::Outpoint(outpoint(1))]);
}
