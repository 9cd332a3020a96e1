//! A bound on how often one place in the code logs a warning or an error: a damaged index that thousands ask must not
//! fill the disk with the same line.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use tracing::callsite::Identifier;
use tracing::{Event, Level, Subscriber, warn};
use tracing_subscriber::layer::{Context, Layer};

/// Messages of one place in an interval. Places are as many as the code has.
const MESSAGES_MAX: u32 = 60;
const INTERVAL: Duration = Duration::from_mins(1);

/// Leaves out further warnings and errors of a place that has logged [`MESSAGES_MAX`] within [`INTERVAL`].
#[derive(Default)]
pub(super) struct Repeats {
    places: Mutex<HashMap<Identifier, Count>>,
}

/// Messages of one place since the begin of its interval.
#[derive(Debug, Clone, Copy)]
struct Count {
    began: Instant,
    messages: u32,
}

/// The fate of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Logged,
    /// The first that is left out, which the log says.
    FirstLeftOut,
    LeftOut,
}

impl Count {
    fn new(now: Instant) -> Self {
        Self { began: now, messages: 0 }
    }

    /// Counts a message.
    fn add(&mut self, now: Instant) -> Fate {
        if now.duration_since(self.began) >= INTERVAL {
            *self = Self::new(now);
        }
        self.messages = self.messages.saturating_add(1);
        match self.messages {
            ..=MESSAGES_MAX => Fate::Logged,
            messages if messages == MESSAGES_MAX + 1 => Fate::FirstLeftOut,
            _ => Fate::LeftOut,
        }
    }
}

impl<S: Subscriber> Layer<S> for Repeats {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let metadata = event.metadata();
        // The message below is one itself. Levels order from errors up.
        if *metadata.level() > Level::WARN || metadata.target() == module_path!() {
            return true;
        }
        let now = Instant::now();
        let fate = {
            let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            places.entry(metadata.callsite()).or_insert_with(|| Count::new(now)).add(now)
        };
        if fate == Fate::FirstLeftOut {
            let (file, line) = (metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
            warn!(of = metadata.target(), file, line, "leaving out further messages of one place for a minute");
        }
        fate == Fate::Logged
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io;
    use std::sync::Arc;

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[test]
    fn a_place_logs_a_number_of_messages_in_an_interval_and_says_once_that_more_are_left_out() {
        let start = Instant::now();
        let mut count = Count::new(start);
        for _ in 0..MESSAGES_MAX {
            assert_eq!(count.add(start), Fate::Logged);
        }
        assert_eq!(count.add(start), Fate::FirstLeftOut);
        assert_eq!(count.add(start + INTERVAL / 2), Fate::LeftOut);
        assert_eq!(count.add(start + INTERVAL), Fate::Logged);
    }

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Written {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn one_place_that_floods_hides_no_other_and_information_has_no_bound() {
        let written = Written::default();
        let log = written.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || log.clone()).finish().with(Repeats::default());
        // A subscriber of one thread alone gets no message while it takes another.
        tracing::subscriber::set_global_default(subscriber).unwrap();
        for _ in 0..1000 {
            tracing::error!("index read failed");
            tracing::info!("a payment came");
        }
        tracing::error!("another place");
        let log = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        let lines = |text: &str| log.lines().filter(|line| line.contains(text)).count();
        assert_eq!(lines("index read failed"), MESSAGES_MAX as usize);
        assert_eq!((lines("leaving out"), lines("another place"), lines("a payment came")), (1, 1, 1000));
    }
}
