//! Reports about events and authors (NIP-56), gathered for the operator.
//!
//! Invariant: a report decides nothing. A subject is shown while this relay stores it and no rule decides on it; each
//! author counts as one reporter of a subject, and not at all if it is banned.
//!
//! Source: [NIP-56](https://github.com/nostr-protocol/nips/blob/master/56.md).

use std::collections::{BTreeMap, HashMap, HashSet};

use birdhouse_events::{Event, EventId, Filter, Kind, Pubkey};

use crate::limits::{REPORT_TEXT_CHARS, REPORT_TEXTS, REPORT_TYPE_CHARS, REPORTED_MAX, REPORTS_READ, RULE_TEXT_BYTES};
use crate::relay::Relay;
use crate::rules::Subject;

/// Kind of a report.
const REPORT: Kind = Kind(1984);

/// An event or an author that others have reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reported {
    /// The event or the author.
    pub subject: Subject,
    /// The author of the event, or the author itself.
    pub author: Pubkey,
    /// Kind of the event; `None` for an author.
    pub kind: Option<Kind>,
    /// Beginning of the event's content; empty for an author.
    pub content: String,
    /// Number of authors that reported it.
    pub reporters: usize,
    /// Reporters by the type of their report, such as `spam`; an empty one if they gave none.
    pub types: BTreeMap<String, usize>,
    /// Beginnings of the newest texts of reporters.
    pub texts: Vec<String>,
    /// `created_at` of the newest report, seconds since 1970.
    pub newest: u64,
}

/// Reports of one subject.
#[derive(Debug, Default)]
struct Gathered {
    reporters: HashSet<Pubkey>,
    types: BTreeMap<String, usize>,
    texts: Vec<String>,
    newest: u64,
}

/// A subject as a report names it.
#[derive(Debug, PartialEq, Eq, Hash, Clone, Copy)]
enum Named {
    Event(EventId),
    Author(Pubkey),
}

impl Relay {
    /// Returns what the newest reports are about, the most reported first. Waits for the disk.
    ///
    /// # Errors
    /// The store's failure.
    pub fn reported(&self) -> Result<Vec<Reported>, String> {
        let rules = self.rules();
        let mut gathered = HashMap::<Named, Gathered>::new();
        let reports = Filter { kinds: Some(vec![REPORT]), ..Filter::default() };
        self.each_newest(&reports, rules.hiding(), REPORTS_READ, &mut |report| gather(&mut gathered, &report))?;
        let mut ordered: Vec<_> =
            gathered.into_iter().filter(|(named, _)| rules.of(named.subject()).is_none()).collect();
        ordered.sort_by_key(|(_, of)| std::cmp::Reverse((of.reporters.len(), of.newest)));
        let mut reported = Vec::new();
        for (named, of) in ordered {
            if reported.len() == REPORTED_MAX {
                break;
            }
            self.each_newest(&named.filter(), rules.hiding(), 1, &mut |event| {
                reported.push(of_subject(named, &of, &event));
            })?;
        }
        Ok(reported)
    }
}

// === impl Reported ===

impl Reported {
    /// Returns the types of the reports with their numbers, the most frequent first: `spam 3, illegal`. It fits the
    /// reason of a rule: more types than that are cut off.
    pub fn reason(&self) -> String {
        let mut types: Vec<_> = self.types.iter().collect();
        types.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let name = |name: &String| if name.is_empty() { "no type".to_owned() } else { name.clone() };
        let one = |(of, count): (&String, &usize)| if *count == 1 { name(of) } else { format!("{} {count}", name(of)) };
        let mut reason = types.into_iter().map(one).collect::<Vec<_>>().join(", ");
        reason.truncate(reason.floor_char_boundary(RULE_TEXT_BYTES));
        reason
    }
}

/// Adds a report to those of its subject.
fn gather(gathered: &mut HashMap<Named, Gathered>, report: &Event) {
    let Some(named) = Named::of(report) else { return };
    let of = gathered.entry(named).or_default();
    if !of.reporters.insert(report.pubkey) {
        return;
    }
    *of.types.entry(type_of(report)).or_default() += 1;
    of.newest = of.newest.max(report.created_at.0);
    if !report.content.is_empty() && of.texts.len() < REPORT_TEXTS {
        of.texts.push(beginning(&report.content));
    }
}

/// Returns the type of a report: the third element of the tag of the event, or of the author.
fn type_of(report: &Event) -> String {
    let of = |name: &str| report.tags.iter().find(|tag| tag.0.first().is_some_and(|first| first == name));
    let named = of("e").or_else(|| of("p")).and_then(|tag| tag.0.get(2));
    named.map(|text| text.chars().take(REPORT_TYPE_CHARS).collect()).unwrap_or_default()
}

fn of_subject(named: Named, of: &Gathered, event: &Event) -> Reported {
    let is_event = matches!(named, Named::Event(_));
    Reported {
        subject: named.subject(),
        author: event.pubkey,
        kind: is_event.then_some(event.kind),
        content: if is_event { beginning(&event.content) } else { String::new() },
        reporters: of.reporters.len(),
        types: of.types.clone(),
        texts: of.texts.clone(),
        newest: of.newest,
    }
}

fn beginning(text: &str) -> String {
    text.chars().take(REPORT_TEXT_CHARS).collect()
}

// === impl Named ===

impl Named {
    /// Returns the subject of a report: the event if it names one, else the author.
    fn of(report: &Event) -> Option<Self> {
        let event = report.values("e").next().and_then(EventId::parse).map(Self::Event);
        event.or_else(|| report.values("p").next().and_then(Pubkey::parse).map(Self::Author))
    }

    fn subject(self) -> Subject {
        match self {
            Self::Event(id) => Subject::Event(id),
            Self::Author(key) => Subject::Author(key),
        }
    }

    /// Returns the filter for the event, or for any event of the author.
    fn filter(self) -> Filter {
        match self {
            Self::Event(id) => Filter { ids: Some(vec![id]), ..Filter::default() },
            Self::Author(key) => Filter { authors: Some(vec![key]), ..Filter::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_fits_a_rule_whatever_reporters_write() {
        let types = ('\u{10000}'..).take(8).map(|char| (String::from(char).repeat(REPORT_TYPE_CHARS), 1)).collect();
        let reported = Reported {
            subject: Subject::Author(Pubkey([1; 32])),
            author: Pubkey([1; 32]),
            kind: None,
            content: String::new(),
            reporters: 8,
            types,
            texts: Vec::new(),
            newest: 0,
        };
        let reason = reported.reason();
        assert!(reason.len() > RULE_TEXT_BYTES - 4 && reason.len() <= RULE_TEXT_BYTES, "{}", reason.len());
    }
}
