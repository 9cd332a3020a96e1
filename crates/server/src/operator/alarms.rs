//! The warnings of the server as notices, for the channels that `[health]` of the watch file names.
//!
//! A warning is announced once it has stood for as long as the file says, and its end once it has been gone for as
//! long: what comes and goes sooner is nobody's business. Two looks see it in any case.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use birdhouse_dashboard::{Subject, Warning};
use birdhouse_watch::{Health, HealthSettings, Watches};
use birdhouse_web::parts::sentence;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::control::Control;
use super::status;

/// Longest time between two looks.
const INTERVAL_MAX: Duration = Duration::from_secs(30);
/// Fewest looks after which a change counts.
const LOOKS_MIN: u32 = 2;

/// The times of the looks at warnings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pace {
    interval: Duration,
    /// Looks after which a change counts.
    steady: u32,
}

impl Pace {
    /// Returns the pace at which a change counts after this time.
    fn of(after: Duration) -> Self {
        let most = after.as_secs().div_ceil(INTERVAL_MAX.as_secs());
        let steady = u32::try_from(most).unwrap_or(u32::MAX).max(LOOKS_MIN);
        Self { interval: after / steady, steady }
    }
}

/// The warnings that stand, by what they are about: their texts have figures that change.
#[derive(Debug, Default)]
struct Alarms(BTreeMap<String, Alarm>);

#[derive(Debug)]
struct Alarm {
    subject: Subject,
    text: String,
    /// The last looks that saw the opposite of what was announced.
    changed: u32,
    is_announced: bool,
}

/// Announces warnings for as long as the future is polled.
pub(crate) async fn announce(control: Arc<Control>) {
    let Some(watches) = control.watches.clone() else { return };
    let mut alarms = Alarms::default();
    loop {
        let HealthSettings { channels, after } = watches.health();
        let pace = Pace::of(after);
        sleep(pace.interval).await;
        if channels.is_empty() {
            continue;
        }
        let of_server = Arc::clone(&control);
        let Some(status) = done(move || status::of_server(&of_server)).await else { continue };
        let (announced, watches) = (alarms.look(&status.warnings, pace.steady), watches.clone());
        done(move || announced.into_iter().for_each(|health| tell(&watches, health))).await;
    }
}

/// Does a part of a look on a thread of its own; `None` if it panicked. The next look may end well.
async fn done<T: Send + 'static>(part: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let done = spawn_blocking(part).await;
    done.inspect_err(|error| tracing::error!(%error, "failed to look for warnings of the server; looking again")).ok()
}

fn tell(watches: &Watches, health: Health) {
    if let Err(error) = watches.tell_health(health) {
        tracing::warn!(%error, "failed to announce a warning of the server");
    }
}

impl Alarms {
    /// Takes the warnings of a look, and returns what is to be announced.
    fn look(&mut self, warnings: &[Warning], steady: u32) -> Vec<Health> {
        for Warning { about, subject, text, advice } in warnings {
            let new = Alarm { subject: *subject, text: String::new(), changed: 0, is_announced: false };
            let alarm = self.0.entry(about.clone()).or_insert(new);
            alarm.text = format!("{} {advice}", sentence(text));
        }
        let mut announced = Vec::new();
        for (about, alarm) in &mut self.0 {
            let stands = warnings.iter().any(|warning| warning.about == *about);
            alarm.changed = if stands == alarm.is_announced { 0 } else { alarm.changed + 1 };
            if alarm.changed >= steady {
                (alarm.changed, alarm.is_announced) = (0, stands);
                let subject = alarm.subject.name().to_owned();
                announced.push(Health { subject, text: alarm.text.clone(), is_over: !stands });
            }
        }
        self.0.retain(|about, alarm| alarm.is_announced || warnings.iter().any(|warning| warning.about == *about));
        announced
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(text: &str, advice: &str) -> Warning {
        Warning { about: "disk".into(), subject: Subject::Disk, text: text.into(), advice: advice.into() }
    }

    fn looks(alarms: &mut Alarms, warnings: &[Warning]) -> Vec<(String, bool)> {
        alarms.look(warnings, 2).into_iter().map(|health| (health.text, health.is_over)).collect()
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
        for (after, interval_ms, steady) in [(1, 500, 2), (60, 30_000, 2), (61, 20_333, 3), (600, 30_000, 20)] {
            let pace = Pace::of(Duration::from_secs(after));
            assert_eq!((pace.interval.as_millis(), pace.steady), (interval_ms, steady), "{after}");
        }
        let mut alarms = Alarms::default();
        let announced: Vec<usize> = (0..4).map(|_| alarms.look(&[warning("Full.", "Make room.")], 3).len()).collect();
        assert_eq!(announced, [0, 0, 1, 0]);
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
        assert_eq!(alarms.look(&both, 2).len(), 0);
        let mut subjects = || alarms.look(&both, 2).into_iter().map(|health| health.subject).collect::<Vec<_>>();
        assert_eq!(subjects(), ["certificate", "disk"]);
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
