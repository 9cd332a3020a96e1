//! A killed import resumes where it was.

use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::bird::Bird;
use crate::schema::{Nostream, event};

const EVENTS: u64 = 20_000;
const PATIENCE: Duration = Duration::from_mins(2);

#[test]
fn killed_imports_lose_no_event_and_store_none_twice() {
    let (mut nostream, bird) = (Nostream::start(), Bird::new());
    let events: Vec<_> = (0..EVENTS).map(|number| event(1, 1, number / 7, &[&["n", &number.to_string()]])).collect();
    nostream.insert(&events);
    let mut kept = 0;
    for round in 1..=3 {
        let (mut import, start) = (bird.begin_import(&nostream.postgres.url()), Instant::now());
        // Another quarter of the events is written, though perhaps not published yet.
        while bird.written() < round * EVENTS / 4 {
            assert!(
                start.elapsed() < PATIENCE && import.try_wait().unwrap().is_none(),
                "the import ended before it was killed"
            );
            sleep(Duration::from_millis(1));
        }
        import.kill().unwrap();
        assert!(!import.wait().unwrap().success());
        let found = bird.events();
        assert!(found.len() >= kept && (found.len() as u64) < EVENTS, "{} after {kept}", found.len());
        kept = found.len();
    }
    assert!(kept > 0, "every import started over");
    let done = bird.import(&nostream.postgres.url());
    assert!(done.is_success, "{done:?}");
    assert_eq!((done.count("duplicates"), done.count("events stored")), (kept as u64, EVENTS - kept as u64));
    bird.assert_has(&events);
}
