//! Negotiation and subscriptions of one client.

#![expect(clippy::unwrap_used, reason = "tests")]

use bitcoin::hashes::Hash as _;

use super::*;

const SUBSCRIPTIONS_MAX: usize = 3;

fn script(number: u8) -> ScriptHash {
    ScriptHash([number; 32])
}

fn block(number: u8) -> BlockHash {
    BlockHash::from_byte_array([number; 32])
}

fn status(number: u8) -> Status {
    Status::from([number; 32])
}

fn admit(session: &mut Session, request: Request) -> Admission {
    session.admit(request, "Birdhouse", SUBSCRIPTIONS_MAX)
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

/// A session that follows a script and the tip, with replies sent.
fn subscribed() -> Session {
    let mut session = Session::new();
    admit(&mut session, Request::Subscribe(script(1)));
    admit(&mut session, Request::HeadersSubscribe);
    let epoch = session.epoch();
    assert!(!session.settle(Settle::Script(script(1), status(1)), epoch));
    assert!(!session.settle(Settle::Tip(block(1)), epoch));
    session
}

#[test]
fn version_is_negotiated_once() {
    let mut session = Session::new();
    assert_eq!(session.version(), Version::V1_4);
    assert_eq!(greet(&mut session, "1.4", "1.6"), Ok(Version::V1_6));
    assert_eq!(session.version(), Version::V1_6);
    assert_eq!(greet(&mut session, "1.4", "1.4"), Err(1));
    assert_eq!(session.version(), Version::V1_6);
}

#[test]
fn an_unsupported_version_ends_the_connection() {
    assert_eq!(greet(&mut Session::new(), "1.0", "1.2"), Err(1 - 1_000_000));
}

#[test]
fn a_late_version_stays_below_1_6() {
    let mut session = Session::new();
    admit(&mut session, Request::Ping);
    assert_eq!(greet(&mut session, "1.4", "1.6"), Ok(Version::V1_4_2));
    let mut session = Session::new();
    admit(&mut session, Request::Ping);
    assert_eq!(greet(&mut session, "1.6", "1.6"), Err(1 - 1_000_000));
}

#[test]
fn subscriptions_are_bounded_and_repeating_one_is_free() {
    let mut session = Session::new();
    for number in [1, 2, 3, 1, 2, 3] {
        assert!(matches!(admit(&mut session, Request::Subscribe(script(number))), Admission::Run(_)));
    }
    let refused = admit(&mut session, Request::Subscribe(script(4)));
    assert!(matches!(refused, Admission::Answer(Err(error)) if error.code == -101));
    admit(&mut session, Request::Unsubscribe(script(1)));
    assert!(matches!(admit(&mut session, Request::Subscribe(script(4))), Admission::Run(_)));
}

#[test]
fn unsubscribe_says_whether_there_was_a_subscription() {
    let mut session = subscribed();
    let mut unsubscribe = |number| match admit(&mut session, Request::Unsubscribe(script(number))) {
        Admission::Answer(Ok(Answer::Bool(was_subscribed))) => was_subscribed,
        other => panic!("{other:?}"),
    };
    assert!(unsubscribe(1));
    assert!(!unsubscribe(1));
    assert!(!unsubscribe(2));
}

#[test]
fn only_a_changed_status_is_told() {
    let mut session = subscribed();
    session.touch(&[script(1), script(2)]);
    assert_eq!(session.due_scripts(), [script(1)]);
    assert!(!session.status_changed(&script(1), status(1)));
    assert_eq!(session.due_scripts(), []);
    assert!(session.status_changed(&script(1), status(2)));
    assert!(!session.status_changed(&script(1), status(2)));
    assert!(session.status_changed(&script(1), None));
    assert!(!session.status_changed(&script(2), status(1)));
}

#[test]
fn only_another_tip_is_told() {
    let mut session = subscribed();
    assert!(!session.tip_changed(block(2)), "nothing moved");
    session.touch(&[]);
    assert!(!session.tip_changed(block(1)));
    session.touch(&[]);
    assert!(session.tip_changed(block(2)));
    session.touch(&[]);
    assert!(!session.tip_changed(block(2)));
}

#[test]
fn nothing_is_told_before_the_reply() {
    let mut session = Session::new();
    admit(&mut session, Request::Subscribe(script(1)));
    admit(&mut session, Request::HeadersSubscribe);
    session.touch(&[script(1)]);
    assert!(!session.tip_changed(block(2)));
    assert!(!session.status_changed(&script(1), status(2)));
}

#[test]
fn a_reply_older_than_an_update_is_checked_again() {
    let mut session = Session::new();
    admit(&mut session, Request::Subscribe(script(1)));
    admit(&mut session, Request::HeadersSubscribe);
    let epoch = session.epoch();
    session.touch(&[script(1)]);
    assert!(!session.status_changed(&script(1), status(2)));
    assert!(session.settle(Settle::Script(script(1), status(1)), epoch));
    assert!(session.settle(Settle::Tip(block(1)), epoch));
    assert_eq!(session.due_scripts(), [script(1)]);
    assert!(session.status_changed(&script(1), status(2)));
    assert!(session.tip_changed(block(2)));
}

#[test]
fn an_unsubscribed_script_stays_so_when_its_reply_comes_late() {
    let mut session = Session::new();
    admit(&mut session, Request::Subscribe(script(1)));
    let epoch = session.epoch();
    admit(&mut session, Request::Unsubscribe(script(1)));
    assert!(!session.settle(Settle::Script(script(1), status(1)), epoch));
    session.touch_all();
    assert_eq!(session.due_scripts(), []);
}

#[test]
fn a_failed_subscribe_leaves_nothing_but_what_was_there() {
    let mut session = subscribed();
    admit(&mut session, Request::Subscribe(script(2)));
    let epoch = session.epoch();
    session.settle(Settle::FailedScript(script(1)), epoch);
    session.settle(Settle::FailedScript(script(2)), epoch);
    session.settle(Settle::FailedTip, epoch);
    session.touch_all();
    assert_eq!(session.due_scripts(), [script(1)]);
    assert!(session.tip_changed(block(2)));
}

#[test]
fn after_a_lag_every_script_is_checked() {
    let mut session = subscribed();
    session.touch_all();
    assert_eq!(session.due_scripts(), [script(1)]);
    assert!(session.tip_changed(block(2)));
}
