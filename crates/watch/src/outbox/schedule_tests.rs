//! The schedule of webhooks' specification: 5 s doubling to 24 h, for 30 days.
#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;

use super::*;
use crate::outbox::tests::notice;

const NOW: Duration = Duration::from_secs(1_790_000_000);

fn retry(after: Option<Duration>) -> Outcome {
    Outcome::Retry { why: "no".into(), after }
}

fn pending(delivery: &ChannelRecord) -> Pending {
    let usual = Some(Head { seq: 1, notice: Some(notice(1, NOW.as_secs())) });
    Pending { delivery: delivery.clone(), alarm: None, usual }
}

#[test]
fn waits_double_from_5_seconds_to_a_day_and_lose_up_to_a_quarter() {
    let schedule = Schedule::default();
    let whole: Vec<u64> = (1..=20).map(|attempts| schedule.wait(attempts, 0).as_secs()).collect();
    assert_eq!(whole[..6], [5, 10, 20, 40, 80, 160]);
    assert_eq!(whole[13..16], [40_960, 81_920, 86_400]);
    assert_eq!(schedule.wait(u32::MAX, 0), Duration::from_hours(24));
}

proptest! {
    #[test]
    fn a_wait_is_three_quarters_of_the_whole_at_least(attempts in 1_u32..100, random: u64) {
        let schedule = Schedule::default();
        let (wait, whole) = (schedule.wait(attempts, random), schedule.wait(attempts, 0));
        prop_assert!(wait <= whole && wait >= whole * 3 / 4);
    }
}

#[test]
fn attempts_go_on_until_the_notice_is_30_days_old() {
    let schedule = Schedule::default();
    let (mut delivery, mut now, mut attempts) = (ChannelRecord::default(), NOW, 0);
    loop {
        match schedule.step(pending(&delivery), now) {
            Step::Send(..) => {
                attempts += 1;
                assert_eq!(schedule.note(&mut delivery, Queue::Usual, &retry(None), now, 0), Fate::Keep);
            }
            Step::Wait(wait) => now += wait,
            Step::GiveUp { entry, .. } => {
                assert_eq!(entry, Entry { queue: Queue::Usual, seq: 1 });
                break;
            }
            Step::Rest => panic!("it rests"),
        }
    }
    // 5 s doubled 14 times is 81 920 s; the sum of these is 45.5 h, and the rest of 30 days has 28 days.
    assert_eq!(attempts, 1 + 15 + 28);
    let age = now.saturating_sub(NOW);
    assert!(age > schedule.give_up && age < schedule.give_up + schedule.longest);
}

#[test]
fn a_wait_that_was_asked_for_is_kept_if_it_is_longer() {
    let schedule = Schedule::default();
    let mut delivery = ChannelRecord::default();
    schedule.note(&mut delivery, Queue::Usual, &retry(Some(Duration::from_mins(1))), NOW, 0);
    assert!(matches!(schedule.step(pending(&delivery), NOW), Step::Wait(wait) if wait.as_secs() == 60));
    let mut delivery = ChannelRecord::default();
    schedule.note(&mut delivery, Queue::Usual, &retry(Some(Duration::from_secs(1))), NOW, 0);
    assert!(matches!(schedule.step(pending(&delivery), NOW), Step::Wait(wait) if wait.as_secs() == 5));
}

#[test]
fn a_delivery_begins_the_next_one_anew_and_keeps_the_last_error_for_operators() {
    let schedule = Schedule::default();
    let mut delivery = ChannelRecord::default();
    schedule.note(&mut delivery, Queue::Usual, &retry(None), NOW, 0);
    assert_eq!(schedule.note(&mut delivery, Queue::Usual, &Outcome::Delivered, NOW, 0), Fate::Remove);
    assert_eq!((delivery.usual, delivery.successes), (Attempts::default(), 1));
    assert_eq!(delivery.last_delivery, Some(NOW.as_secs()));
    assert_eq!(delivery.last_error.unwrap().why, "no");
}

#[test]
fn gone_disables_and_refused_gives_up() {
    let schedule = Schedule::default();
    let mut delivery = ChannelRecord::default();
    assert_eq!(
        schedule.note(&mut delivery, Queue::Usual, &Outcome::Disable { why: "gone".into() }, NOW, 0),
        Fate::Keep
    );
    assert!(matches!(schedule.step(pending(&delivery), NOW), Step::Rest));
    let mut delivery = ChannelRecord::default();
    assert_eq!(
        schedule.note(&mut delivery, Queue::Usual, &Outcome::Refused { why: "large".into() }, NOW, 0),
        Fate::Remove
    );
    assert_eq!((delivery.given_up, delivery.successes), (1, 0));
}

#[test]
fn a_clock_that_went_back_does_not_stop_deliveries() {
    let schedule = Schedule::default();
    let mut delivery = ChannelRecord::default();
    schedule.note(&mut delivery, Queue::Usual, &retry(None), NOW + schedule.longest * 3, 0);
    assert!(matches!(schedule.step(pending(&delivery), NOW), Step::Send(..)));
}

#[test]
fn an_entry_whose_notice_the_log_lost_is_given_up() {
    let none = || Pending { delivery: ChannelRecord::default(), alarm: None, usual: None };
    let lost = Pending { usual: Some(Head { seq: 7, notice: None }), ..none() };
    let expected = Entry { queue: Queue::Usual, seq: 7 };
    assert!(matches!(Schedule::default().step(lost, NOW), Step::GiveUp { entry, .. } if entry == expected));
    assert!(matches!(Schedule::default().step(none(), NOW), Step::Rest));
}

#[test]
fn a_message_that_is_refused_for_good_is_given_up_after_eight_attempts() {
    let schedule = Schedule::default();
    let rejected = Outcome::Rejected { why: "no".into() };
    let (mut delivery, mut now) = (ChannelRecord::default(), NOW);
    let (mut attempts, mut fate) = (0, Fate::Keep);
    while fate == Fate::Keep {
        match schedule.step(pending(&delivery), now) {
            Step::Send(..) => {
                attempts += 1;
                // Times at which the receiver is not there are no refusals.
                if attempts % 2 == 0 {
                    schedule.note(&mut delivery, Queue::Usual, &retry(None), now, 0);
                }
                fate = schedule.note(&mut delivery, Queue::Usual, &rejected, now, 0);
            }
            Step::Wait(wait) => now += wait,
            step => panic!("{step:?}"),
        }
    }
    assert_eq!((attempts, delivery.given_up, delivery.usual), (REJECTIONS_MAX, 1, Attempts::default()));
    assert_eq!(delivery.last_error.unwrap().why, "no");
}

#[test]
fn an_alarm_comes_first_and_one_that_fails_holds_nothing_back() {
    let schedule = Schedule::default();
    let both = |delivery: &ChannelRecord| Pending {
        alarm: Some(Head { seq: 2, notice: Some(notice(2, NOW.as_secs())) }),
        ..pending(delivery)
    };
    let next = |delivery: &ChannelRecord| match schedule.step(both(delivery), NOW) {
        Step::Send(entry, _) => Some(entry.queue),
        Step::Wait(wait) => {
            assert_eq!(wait, schedule.first);
            None
        }
        step => panic!("{step:?}"),
    };
    let mut delivery = ChannelRecord::default();
    assert_eq!(next(&delivery), Some(Queue::Alarms));
    schedule.note(&mut delivery, Queue::Alarms, &retry(None), NOW, 0);
    assert_eq!(next(&delivery), Some(Queue::Usual));
    schedule.note(&mut delivery, Queue::Usual, &retry(None), NOW, 0);
    schedule.note(&mut delivery, Queue::Usual, &retry(None), NOW, 0);
    assert_eq!(next(&delivery), None);
    schedule.note(&mut delivery, Queue::Alarms, &Outcome::Disable { why: "gone".into() }, NOW, 0);
    assert!(matches!(schedule.step(both(&delivery), NOW), Step::Rest));
}

/// The receiver is there again, so an alarm that failed before is tried at once.
#[test]
fn a_delivery_ends_the_wait_of_an_alarm() {
    let (schedule, mut delivery, now) = (Schedule::default(), ChannelRecord::default(), Duration::from_secs(1_000));
    let away = Outcome::Retry { why: "away".into(), after: None };
    schedule.note(&mut delivery, Queue::Alarms, &away, now, 0);
    assert!(delivery.attempts(Queue::Alarms).next_ms > 1_000_000);
    schedule.note(&mut delivery, Queue::Usual, &Outcome::Delivered, now, 0);
    assert_eq!(delivery.attempts(Queue::Alarms).next_ms, 0);
}
