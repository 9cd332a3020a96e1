//! The warnings of the server as notices, for the channels that `[health]` of the watch file names.
//!
//! A warning is announced once it has stood for as long as the file says, and its end once it has been gone for as
//! long: what comes and goes sooner is nobody's business. Two looks see it in any case. What is announced is kept with
//! its notice, so a server that starts again announces no warning twice, and the end of those that ended meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use birdhouse_dashboard::Warning;
use birdhouse_watch::{Health, HealthSettings, Watches};
use birdhouse_web::parts::sentence;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::control::Control;
use super::status;

/// Longest time between two looks.
const INTERVAL_MAX: Duration = Duration::from_secs(30);

/// The times of the looks at warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pace {
    interval: Duration,
    /// Intervals between the first look that sees a change and the one at which it counts.
    steady: u32,
}

impl Pace {
    /// Returns the pace at which a change counts after this time.
    fn of(after: Duration) -> Self {
        let most = after.as_secs().div_ceil(INTERVAL_MAX.as_secs());
        let steady = u32::try_from(most).unwrap_or(u32::MAX).max(1);
        Self { interval: after / steady, steady }
    }
}

/// The warnings that stand, by what they are about: their texts have figures that change.
#[derive(Debug, Default)]
struct Alarms(BTreeMap<String, Alarm>);

#[derive(Debug)]
struct Alarm {
    /// The part that has the trouble.
    subject: String,
    text: String,
    /// The last looks that saw the opposite of what is announced.
    changed: u32,
    is_announced: bool,
}

/// A change of a warning that is to be announced.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    about: String,
    health: Health,
}

/// Announces warnings for as long as the future is polled.
pub(crate) async fn announce(control: Arc<Control>) {
    let Some(watches) = control.watches.clone() else { return };
    let mut alarms = None;
    loop {
        let HealthSettings { channels, after } = watches.health();
        let pace = Pace::of(after);
        sleep(pace.interval).await;
        if channels.is_empty() {
            continue;
        }
        let (of_server, of_watches) = (Arc::clone(&control), watches.clone());
        let known = alarms.take();
        alarms = done(move || look(&of_server, &of_watches, known, pace.steady)).await;
    }
}

/// Looks at the server, and announces what has changed for long enough.
fn look(control: &Control, watches: &Watches, alarms: Option<Alarms>, steady: u32) -> Alarms {
    let standing = || {
        let failed = |error: &_| tracing::warn!(%error, "failed to read the warnings that are announced");
        Alarms::standing(watches.standing_health().inspect_err(failed).unwrap_or_default())
    };
    let mut alarms = alarms.unwrap_or_else(standing);
    for change in alarms.look(&status::of_server(control).warnings, steady) {
        match watches.tell_health(&change.about, &change.health) {
            Ok(()) => alarms.settle(&change),
            Err(error) => tracing::warn!(%error, "failed to announce a warning of the server; trying again"),
        }
    }
    alarms
}

/// Does a look on a thread of its own; `None` if it panicked. The next look may end well.
async fn done<T: Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let done = spawn_blocking(look).await;
    done.inspect_err(|error| tracing::error!(%error, "failed to look for warnings of the server; looking again")).ok()
}

impl Alarms {
    /// Warnings that an earlier process has announced.
    fn standing(announced: BTreeMap<String, Health>) -> Self {
        let alarm = |Health { subject, text, .. }| Alarm { subject, text, changed: 0, is_announced: true };
        Self(announced.into_iter().map(|(about, health)| (about, alarm(health))).collect())
    }

    /// Takes the warnings of a look, and returns what is to be announced: at each look, until it is settled.
    fn look(&mut self, warnings: &[Warning], steady: u32) -> Vec<Change> {
        for Warning { about, subject, text, advice } in warnings {
            let new = Alarm { subject: String::new(), text: String::new(), changed: 0, is_announced: false };
            let alarm = self.0.entry(about.clone()).or_insert(new);
            subject.name().clone_into(&mut alarm.subject);
            alarm.text = format!("{} {advice}", sentence(text));
        }
        let mut changes = Vec::new();
        for (about, alarm) in &mut self.0 {
            let stands = warnings.iter().any(|warning| warning.about == *about);
            alarm.changed = if stands == alarm.is_announced { 0 } else { alarm.changed.saturating_add(1) };
            if alarm.changed > steady {
                let (subject, text) = (alarm.subject.clone(), alarm.text.clone());
                changes.push(Change { about: about.clone(), health: Health { subject, text, is_over: !stands } });
            }
        }
        self.0.retain(|about, alarm| alarm.is_announced || warnings.iter().any(|warning| warning.about == *about));
        changes
    }

    /// Notes that a change is announced.
    fn settle(&mut self, change: &Change) {
        if change.health.is_over {
            self.0.remove(&change.about);
        } else if let Some(alarm) = self.0.get_mut(&change.about) {
            (alarm.changed, alarm.is_announced) = (0, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use birdhouse_dashboard::Subject;

    use super::*;

    fn warning(text: &str, advice: &str) -> Warning {
        Warning { about: "disk".into(), subject: Subject::Disk, text: text.into(), advice: advice.into() }
    }

    /// Looks, and settles what is to be announced: of what two looks saw.
    fn look(alarms: &mut Alarms, warnings: &[Warning]) -> Vec<Health> {
        let changes = alarms.look(warnings, 1);
        for change in &changes {
            alarms.settle(change);
        }
        changes.into_iter().map(|change| change.health).collect()
    }

    fn looks(alarms: &mut Alarms, warnings: &[Warning]) -> Vec<(String, bool)> {
        look(alarms, warnings).into_iter().map(|health| (health.text, health.is_over)).collect()
    }

    #[test]
    fn a_warning_that_stays_is_announced_once_and_so_is_its_end() {
        let mut alarms = Alarms::default();
        let full = |left: u32| [warning(&format!("{left} kB are left."), "Make room.")];
        assert_eq!(looks(&mut alarms, &full(9)), []);
        assert_eq!(looks(&mut alarms, &full(8)), [("8 kB are left. Make room.".into(), false)]);
        assert_eq!(looks(&mut alarms, &full(7)), []);
        assert_eq!(looks(&mut alarms, &[]), []);
        assert_eq!(looks(&mut alarms, &full(6)), [], "not gone for two looks");
        assert_eq!(looks(&mut alarms, &[]), []);
        assert_eq!(looks(&mut alarms, &[]), [("6 kB are left. Make room.".into(), true)]);
        assert_eq!(looks(&mut alarms, &[]), []);
        assert!(alarms.0.is_empty());
    }

    #[test]
    fn a_change_counts_after_the_time_of_the_file_and_two_looks() {
        for (after, interval_ms, steady) in [(1, 1000, 1), (60, 30_000, 2), (61, 20_333, 3), (600, 30_000, 20)] {
            let pace = Pace::of(Duration::from_secs(after));
            assert_eq!((pace.interval.as_millis(), pace.steady), (interval_ms, steady), "{after}");
        }
        let mut alarms = Alarms::default();
        let full = [warning("Full.", "Make room.")];
        let announced = |_| {
            let changes = alarms.look(&full, 2);
            for change in &changes {
                alarms.settle(change);
            }
            changes.len()
        };
        assert_eq!((0..4).map(announced).collect::<Vec<_>>(), [0, 0, 1, 0], "at the look 60 s after the first of two");
    }

    #[test]
    fn what_cannot_be_announced_is_announced_later() {
        let mut alarms = Alarms::default();
        let full = [warning("Full.", "Make room.")];
        assert_eq!(alarms.look(&full, 1), []);
        let refused = alarms.look(&full, 1);
        assert_eq!((refused.len(), alarms.look(&full, 1)), (1, refused.clone()));
        alarms.settle(&refused[0]);
        assert_eq!(alarms.look(&full, 1), []);
        assert_eq!(alarms.look(&[], 1), []);
        let end = alarms.look(&[], 1);
        assert!(end.len() == 1 && end[0].health.is_over, "{end:?}");
        assert_eq!(alarms.look(&[], 1), end);
        alarms.settle(&end[0]);
        assert_eq!(alarms.look(&[], 1), []);
    }

    #[test]
    fn what_an_earlier_process_announced_is_not_announced_again_and_its_end_is() {
        let health = |is_over| Health { subject: "disk".into(), text: "Full. Make room.".into(), is_over };
        let mut alarms = Alarms::standing([("disk".to_owned(), health(false))].into());
        let full = [warning("Full.", "Make room.")];
        assert_eq!((looks(&mut alarms, &full), looks(&mut alarms, &full)), (vec![], vec![]));
        assert_eq!(look(&mut alarms, &[]), []);
        assert_eq!(look(&mut alarms, &[]), [health(true)]);
    }

    #[test]
    fn each_thing_with_the_same_trouble_is_announced() {
        let mut alarms = Alarms::default();
        let failed = |name: &str| Warning { about: name.into(), ..warning(&format!("{name} failed."), "Look.") };
        let first = [failed("filters")];
        assert_eq!((looks(&mut alarms, &first).len(), looks(&mut alarms, &first).len()), (0, 1));
        let both = [failed("filters"), failed("silent-payments")];
        assert_eq!(looks(&mut alarms, &both), []);
        assert_eq!(looks(&mut alarms, &both), [("Silent-payments failed. Look.".into(), false)]);
        assert_eq!(looks(&mut alarms, &both[1..]), []);
        assert_eq!(looks(&mut alarms, &both[1..]), [("Filters failed. Look.".into(), true)]);
    }

    #[test]
    fn a_notice_names_the_part_that_has_the_trouble() {
        let mut alarms = Alarms::default();
        let both = [
            warning("The disk is full.", "Make room."),
            Warning {
                about: "certificate tls".into(),
                subject: Subject::Certificate,
                ..warning("It ends.", "Renew it.")
            },
        ];
        assert_eq!(look(&mut alarms, &both), []);
        let subjects: Vec<_> = look(&mut alarms, &both).into_iter().map(|health| health.subject).collect();
        assert_eq!(subjects, ["certificate", "disk"]);
    }

    #[test]
    fn text_and_advice_are_two_sentences() {
        let mut alarms = Alarms::default();
        let silent = [warning("node unreachable for 54 s", "Start the node.")];
        assert_eq!(looks(&mut alarms, &silent), []);
        assert_eq!(looks(&mut alarms, &silent), [("Node unreachable for 54 s. Start the node.".into(), false)]);
    }

    #[tokio::test]
    async fn a_look_that_panics_is_not_the_last_one() {
        assert_eq!(done(|| -> u32 { panic!("a fault of the test") }).await, None);
        assert_eq!(done(|| 7).await, Some(7));
    }

    #[test]
    fn what_comes_and_goes_is_not_announced() {
        let mut alarms = Alarms::default();
        for _ in 0..3 {
            assert_eq!(looks(&mut alarms, &[warning("The node is silent.", "Look at it.")]), []);
            assert_eq!(looks(&mut alarms, &[]), []);
        }
        assert!(alarms.0.is_empty());
    }
}
