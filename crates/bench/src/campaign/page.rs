//! The report of a campaign, in Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::parts::{Part, Run};
use super::relay_kills::never_hit;
use super::state::State;

/// Returns the report: volumes, counts, failures.
pub(crate) fn report(parts: &[Part], state: &State, share: f64) -> String {
    let mut page =
        String::from("# Campaign\n\n| part | passes when nothing fails | asked | reached | failures | seconds |\n");
    page += "|---|---|---|---|---|---|\n";
    for part in parts {
        let so_far = state.part(part.name);
        let asked = format!("{} {}", part.wanted(share), part.unit);
        let (reached, failures, seconds) = (so_far.done, so_far.failures.len(), so_far.seconds);
        push(
            &mut page,
            format_args!("| {} | {} | {asked} | {reached} | {failures} | {seconds:.0} |\n", part.name, part.proves),
        );
    }
    for part in parts {
        let so_far = state.part(part.name);
        if !so_far.counts.is_empty() {
            page += &histogram(part, &so_far.counts);
        }
        for failure in &so_far.failures {
            push(&mut page, format_args!("\n{} failed: {failure}\n", part.name));
        }
    }
    page
}

/// Returns the table of counts, the largest first. A kill counts for every writing call that was under way.
fn histogram(part: &Part, counts: &BTreeMap<String, u64>) -> String {
    let mut rows: Vec<_> = counts.iter().collect();
    rows.sort_by(|one, other| other.1.cmp(one.1).then(one.0.cmp(other.0)));
    let mut table = format!(
        "\n## Where the {} fell\n\n| call under way, or phase and kind of file written last | kills |\n|---|---|\n",
        part.name
    );
    for (call, kills) in rows {
        push(&mut table, format_args!("| {call} | {kills} |\n"));
    }
    let missed = if matches!(part.run, Run::RelayKills) { never_hit(counts) } else { Vec::new() };
    if !missed.is_empty() {
        push(&mut table, format_args!("\nNever hit: {}.\n", missed.join(", ")));
    }
    table
}

fn push(page: &mut String, text: std::fmt::Arguments<'_>) {
    page.write_fmt(text).expect("writing to memory never fails");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::parts::PARTS;
    use super::super::state::Progress;
    use super::*;

    #[test]
    fn the_report_says_what_was_reached_and_where_kills_fell() {
        let mut state = State::default();
        let mut progress = Progress { done: 90, failures: vec!["seed 7".to_owned()], ..Progress::default() };
        progress.add("accept: publish", 60);
        progress.add("compact: write posting", 30);
        state.add("relay-kills", progress, Duration::from_secs(12));
        let page = report(&PARTS, &state, 0.1);
        assert!(page.contains("| 200 kills during a write | 90 | 1 | 12 |"), "{page}");
        assert!(page.contains("| accept: publish | 60 |\n| compact: write posting | 30 |"), "{page}");
        assert!(page.contains("Never hit: open, expire, commit words."), "{page}");
        assert!(page.contains("relay-kills failed: seed 7"), "{page}");
    }
}
