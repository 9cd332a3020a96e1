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
    Pending { delivery: delivery.clone(), head: Some(Head { seq: 1, notice: Some(notice(1, NOW.as_secs())) }) }
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
            Step::Send(_) => {
                attempts += 1;
                assert_eq!(schedule.note(&mut delivery, &retry(None), now, 0), Fate::Keep);
            }
            Step::Wait(wait) => now += wait,
            Step::GiveUp { seq: 1, .. } => break,
            step => panic!("{step:?}"),
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
    schedule.note(&mut delivery, &retry(Some(Duration::from_mins(1))), NOW, 0);
    assert!(matches!(schedule.step(pending(&delivery), NOW), Step::Wait(wait) if wait.as_secs() == 60));
    let mut delivery = ChannelRecord::default();
    schedule.note(&mut delivery, &retry(Some(Duration::from_secs(1))), NOW, 0);
    assert!(matches!(schedule.step(pending(&delivery), NOW), Step::Wait(wait) if wait.as_secs() == 5));
}

#[test]
fn a_delivery_begins_the_next_one_anew_and_keeps_the_last_error_for_operators() {
    let schedule = Schedule::default();
    let mut delivery = ChannelRecord::default();
    schedule.note(&mut delivery, &retry(None), NOW, 0);
    assert_eq!(schedule.note(&mut delivery, &Outcome::Delivered, NOW, 0), Fate::Remove);
    assert_eq!((delivery.attempts, delivery.next_ms, delivery.successes), (0, 0, 1));
    assert_eq!(delivery.last_delivery, Some(NOW.as_secs()));
    assert_eq!(delivery.last_error.unwrap().why, "no");
}

#[test]
fn gone_disables_and_refused_gives_up() {
    let schedule = Schedule::default();
    let mut delivery = ChannelRecord::default();
    assert_eq!(schedule.note(&mut delivery, &Outcome::Disable { why: "gone".into() }, NOW, 0), Fate::Keep);
    assert!(matches!(schedule.step(pending(&delivery), NOW), Step::Rest));
    let mut delivery = ChannelRecord::default();
    assert_eq!(schedule.note(&mut delivery, &Outcome::Refused { why: "large".into() }, NOW, 0), Fate::Remove);
    assert_eq!((delivery.given_up, delivery.successes), (1, 0));
}

#[test]
fn a_clock_that_went_back_does_not_stop_deliveries() {
    let schedule = Schedule::default();
    let mut delivery = ChannelRecord::default();
    schedule.note(&mut delivery, &retry(None), NOW + schedule.longest * 3, 0);
    assert!(matches!(schedule.step(pending(&delivery), NOW), Step::Send(_)));
}

#[test]
fn an_entry_whose_notice_the_log_lost_is_given_up() {
    let lost = Pending { delivery: ChannelRecord::default(), head: Some(Head { seq: 7, notice: None }) };
    assert!(matches!(Schedule::default().step(lost, NOW), Step::GiveUp { seq: 7, .. }));
    assert!(matches!(
        Schedule::default().step(Pending { delivery: ChannelRecord::default(), head: None }, NOW),
        Step::Rest
    ));
}
