//! Rows of Nostream's table as events. The columns hold the signed fields, so nothing is lost except text that JSONB
//! cannot hold.

use birdhouse_events::{Event, EventId, Kind, Pubkey, Signature, Tag, Timestamp};
use postgres::types::FromSql;

use super::super::intake::{Candidate, Skipped};
use super::table::ROW_BYTES_MAX;

/// A row, and the time of the import.
pub(super) struct Row {
    id: Vec<u8>,
    columns: Result<Columns, postgres::Error>,
    now: Timestamp,
}

/// The columns of [`Table::rows`](super::table::Table::rows) after the id.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Columns {
    pubkey: Vec<u8>,
    created_at: i64,
    kind: i64,
    /// `None`, like `content`, if both together are too large.
    tags: Option<String>,
    content: Option<String>,
    signature: Vec<u8>,
    is_deleted: bool,
    expires_at: Option<i64>,
}

impl Row {
    pub(super) fn read(row: &postgres::Row, now: Timestamp) -> Self {
        Self { id: row.try_get(0).unwrap_or_default(), columns: Columns::read(row), now }
    }

    /// Returns the approximate size in memory.
    pub(super) fn bytes(&self) -> usize {
        let texts = |columns: &Columns| {
            columns.tags.as_ref().map_or(0, String::len) + columns.content.as_ref().map_or(0, String::len)
        };
        size_of::<Self>() + self.columns.as_ref().map_or(0, texts)
    }
}

impl Candidate for Row {
    fn name(&self) -> String {
        match <[u8; 32]>::try_from(self.id.as_slice()) {
            Ok(id) => EventId(id).to_string(),
            Err(_) => format!("an event_id of {} bytes", self.id.len()),
        }
    }

    fn event(&self) -> Result<Event, Skipped> {
        // The driver's messages contain types, never contents.
        let columns = self.columns.as_ref().map_err(|error| Skipped::Malformed(error.to_string()))?;
        columns.event(&self.id, self.now)
    }
}

impl Columns {
    fn read(row: &postgres::Row) -> Result<Self, postgres::Error> {
        fn get<'a, T: FromSql<'a>>(row: &'a postgres::Row, place: usize) -> Result<T, postgres::Error> {
            row.try_get(place)
        }
        Ok(Self {
            pubkey: get(row, 1)?,
            created_at: get(row, 2)?,
            kind: get(row, 3)?,
            tags: get(row, 4)?,
            content: get(row, 5)?,
            signature: get(row, 6)?,
            is_deleted: get(row, 7)?,
            expires_at: get(row, 8)?,
        })
    }

    fn event(&self, id: &[u8], now: Timestamp) -> Result<Event, Skipped> {
        if self.is_deleted {
            return Err(Skipped::Deleted);
        }
        if self.expires_at.is_some_and(|at| u64::try_from(at).unwrap_or_default() <= now.0) {
            return Err(Skipped::Expired);
        }
        let event = self.unverified(id).map_err(Skipped::Malformed)?;
        if event.is_expired(now) { Err(Skipped::Expired) } else { Ok(event) }
    }

    fn unverified(&self, id: &[u8]) -> Result<Event, String> {
        let (Some(tags), Some(content)) = (&self.tags, &self.content) else {
            return Err(format!("no content, or more than {ROW_BYTES_MAX} bytes"));
        };
        let created_at = u64::try_from(self.created_at).map(Timestamp).ok();
        let tags: Vec<Vec<String>> =
            serde_json::from_str(tags).map_err(|_| "event_tags is not a list of lists of strings".to_owned())?;
        Ok(Event {
            id: EventId(exactly("event_id", id)?),
            pubkey: Pubkey(exactly("event_pubkey", &self.pubkey)?),
            created_at: created_at
                .filter(|at| *at <= Timestamp::CREATED_AT_MAX)
                .ok_or("event_created_at is before 1970 or after 2106")?,
            kind: Kind(u16::try_from(self.kind).map_err(|_| "event_kind does not fit in 16 bits".to_owned())?),
            tags: tags.into_iter().map(Tag).collect(),
            content: content.clone(),
            sig: Signature(exactly("event_signature", &self.signature)?),
        })
    }
}

fn exactly<const N: usize>(column: &str, bytes: &[u8]) -> Result<[u8; N], String> {
    <[u8; N]>::try_from(bytes).map_err(|_| format!("{column} has {} bytes, not {N}", bytes.len()))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use birdhouse_events::{Keys, UnsignedEvent, VerifiedEvent};

    use super::*;

    const NOW: Timestamp = Timestamp(1000);

    fn signed(tags: &[&[&str]]) -> VerifiedEvent {
        let tags = tags.iter().map(|tag| Tag(tag.iter().map(|text| (*text).to_owned()).collect())).collect();
        let content = "\"\\\u{1}\u{1f426}".to_owned();
        let unsigned = UnsignedEvent { created_at: Timestamp(5), kind: Kind(1), tags, content };
        unsigned.sign(&Keys::from_secret([1; 32]).unwrap())
    }

    fn columns(event: &Event) -> Columns {
        let tags: Vec<&Vec<String>> = event.tags.iter().map(|tag| &tag.0).collect();
        Columns {
            pubkey: event.pubkey.0.to_vec(),
            created_at: 5,
            kind: 1,
            tags: Some(serde_json::to_string(&tags).unwrap()),
            content: Some(event.content.clone()),
            signature: event.sig.0.to_vec(),
            is_deleted: false,
            expires_at: None,
        }
    }

    #[test]
    fn columns_are_the_event_that_was_signed() {
        let event = signed(&[&["t", "\u{2028}\"\\"], &[], &["p"]]);
        assert_eq!(columns(&event).event(&event.id.0, NOW).unwrap().verify().unwrap(), event);
    }

    #[test]
    fn deleted_and_expired_rows_are_skipped_before_they_are_parsed() {
        let event = signed(&[]);
        let deleted = Columns { is_deleted: true, tags: None, ..columns(&event) };
        assert_eq!(deleted.event(&event.id.0, NOW), Err(Skipped::Deleted));
        for (expires_at, is_skipped) in [(Some(1000), true), (Some(1001), false), (Some(-1), true), (None, false)] {
            let row = Columns { expires_at, ..columns(&event) };
            assert_eq!(row.event(&event.id.0, NOW) == Err(Skipped::Expired), is_skipped, "{expires_at:?}");
        }
        let tagged = signed(&[&["expiration", "1000"]]);
        assert_eq!(columns(&tagged).event(&tagged.id.0, NOW), Err(Skipped::Expired), "a table without the column");
    }

    #[test]
    fn columns_of_no_event_are_malformed_and_not_quoted() {
        let event = signed(&[]);
        let good = columns(&event);
        for bad in [
            Columns { pubkey: vec![1; 31], ..good.clone() },
            Columns { created_at: -1, ..good.clone() },
            Columns { created_at: 1 << 32, ..good.clone() },
            Columns { kind: 65_536, ..good.clone() },
            Columns { kind: -1, ..good.clone() },
            Columns { tags: Some("[\"secret\"]".to_owned()), ..good.clone() },
            Columns { tags: Some("[[\"secret\",1]]".to_owned()), ..good.clone() },
            Columns { content: None, ..good.clone() },
            Columns { signature: Vec::new(), ..good.clone() },
        ] {
            let Err(Skipped::Malformed(why)) = bad.event(&event.id.0, NOW) else { panic!("{bad:?} is taken") };
            assert!(!why.contains("secret"), "{why}");
        }
        assert!(matches!(good.event(&[1; 33], NOW), Err(Skipped::Malformed(_))));
    }
}
