//! Properties of the decoders for arbitrary bytes, for fuzz targets and for tests with random damage. No input may make
//! a decoder panic.

use crate::event::{Event, EventId};
use crate::filter::{Filter, FilterLimits, UnknownKeys};
use crate::log::packed::filter::PackedFilter;
use crate::log::{Packed, encode};

/// Parses a text as an event. A valid event comes back unchanged from its JSON and from its packed form, with one id.
///
/// # Panics
/// If a property does not hold.
pub fn event(text: &[u8]) {
    let Ok(text) = std::str::from_utf8(text) else { return };
    let Ok(event) = Event::from_json(text) else { return };
    let json = event.to_json();
    assert_eq!(Event::from_json(&json).as_ref(), Ok(&event), "from its own JSON");
    same_packed(&event);
    // The hash depends on the event and not on how it was written.
    let is_proved = |event: &Event| event.clone().verify().is_ok();
    let again = Event::from_json(&json).expect("read before");
    assert_eq!(is_proved(&event), is_proved(&again));
}

/// Parses a text as a filter, and another as an event. Lists of a filter are ascending. The filter gives the same
/// answer for the packed and the plain event.
///
/// # Panics
/// If a property does not hold.
pub fn filter(filter: &[u8], event: &[u8]) {
    let Ok(text) = std::str::from_utf8(filter) else { return };
    let strict = FilterLimits { unknown_keys: UnknownKeys::Unsupported, ..FilterLimits::default() };
    let (read, strictly) = (Filter::from_json(text, &FilterLimits::default()), Filter::from_json(text, &strict));
    let Ok(filter) = read else {
        assert!(strictly.is_err(), "what is refused is refused by those who refuse more");
        return;
    };
    assert!(strictly.is_err() || strictly.as_ref() == Ok(&filter));
    assert!(ascends(filter.ids.as_deref()) && ascends(filter.authors.as_deref()) && ascends(filter.kinds.as_deref()));
    assert!(ascends(Some(&filter.tags)) && filter.tags.iter().all(|(_, values)| ascends(Some(values))));
    if let Some(event) = std::str::from_utf8(event).ok().and_then(|text| Event::from_json(text).ok()) {
        let bytes = packed(&event);
        let packed = Packed::parse(event.id, &bytes).expect("just encoded");
        assert_eq!(PackedFilter::new(&filter).matches(packed), Some(filter.matches(&event)), "packed or not");
    }
}

/// Decodes bytes as a packed event from the disk. A valid event comes back unchanged from its JSON, and packed again.
///
/// # Panics
/// If a property does not hold.
pub fn packed_event(id: [u8; 32], bytes: &[u8]) {
    let Some(packed) = Packed::parse(EventId(id), bytes) else { return };
    let (event, mut json) = (packed.to_event(), Vec::new());
    let is_written = packed.write_json(&mut json).is_some();
    assert_eq!(is_written, event.is_some(), "whole for one is whole for the other");
    let nothing = PackedFilter::new(&Filter::nothing()).matches(packed);
    assert_eq!(nothing, Some(false), "decided by the fixed part");
    let Some(event) = event else { return };
    assert_eq!(json, event.to_json().into_bytes());
    same_packed(&event);
    assert!(packed.names_one_of(&[event.pubkey]).is_some());
    for filter in asks_for(&event) {
        assert_eq!(PackedFilter::new(&filter).matches(packed), Some(filter.matches(&event)), "{filter:?}");
        assert!(filter.matches(&event), "{filter:?}");
    }
}

/// Damages bytes as a client, a disk or a bad cable might. An edit is an offset, an operation and a byte.
pub fn damage(bytes: &mut Vec<u8>, edits: &[(u16, u8, u8)]) {
    /// Tokens that parsers tend to misread.
    const TOKENS: [&str; 24] = [
        "\"",
        "\\",
        "\\u0000",
        "\\ud83d",
        "\\udc26",
        "{}",
        "[]",
        "[",
        "]",
        ",",
        ":",
        "null",
        "true",
        "-1",
        "1e9",
        "1.0",
        "65536",
        "4294967296",
        "18446744073709551616",
        "\"id\":",
        "\"#e\":[]",
        "\"&t\":[\"x\"]",
        "\u{ffff}",
        "\u{10ffff}",
    ];
    for (offset, operation, with) in edits {
        let offset = usize::from(*offset) % (bytes.len() + 1);
        let end = (offset + usize::from(*with)).min(bytes.len());
        match operation % 5 {
            0 => bytes.iter_mut().skip(offset).take(1).for_each(|byte| *byte = *with),
            1 => bytes.insert(offset, *with),
            2 => drop(bytes.drain(offset..end)),
            3 => {
                let some = bytes[offset..end].to_vec();
                bytes.splice(offset..offset, some);
            }
            _ => {
                bytes.splice(offset..offset, TOKENS[usize::from(*with) % TOKENS.len()].bytes());
            }
        }
    }
}

/// Returns the packed form of an event without its id.
pub fn packed(event: &Event) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(event, &mut bytes);
    bytes
}

fn same_packed(event: &Event) {
    let bytes = packed(event);
    let again = Packed::parse(event.id, &bytes).and_then(Packed::to_event);
    assert_eq!(again.as_ref(), Some(event), "from its packed form");
}

/// Returns filters that match the event.
fn asks_for(event: &Event) -> Vec<Filter> {
    let mut filters = vec![Filter { ids: Some(vec![event.id]), ..Filter::default() }];
    filters.push(Filter {
        authors: Some(vec![event.pubkey]),
        kinds: Some(vec![event.kind]),
        since: Some(event.created_at),
        until: Some(event.created_at),
        ..Filter::default()
    });
    let tags = event.indexed_tags().map(|(letter, value)| (letter, vec![value.to_owned()]));
    filters.extend(tags.map(|tag| Filter { tags: vec![tag], ..Filter::default() }));
    filters
}

fn ascends<T: Ord>(list: Option<&[T]>) -> bool {
    list.is_none_or(|list| list.is_sorted_by(|one, next| one < next))
}
