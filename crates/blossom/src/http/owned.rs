//! `GET /list/<pubkey>` and `DELETE /<sha256>`: what a key owns, for that key alone (BUD-12).

use birdhouse_events::Pubkey;
use hyper::StatusCode;
use hyper::header::HeaderMap;
use serde_json::Value;

use super::authorized::authorization;
use super::reply::{Answer, Refusal, descriptor, empty, json};
use crate::authorization::Verb;
use crate::hash::BlobHash;
use crate::limits::LIST_PAGE;
use crate::service::Caller;
use crate::store::{ListPage, Removed};

/// Lists the blobs of a key.
pub(super) async fn list(caller: &Caller, headers: &HeaderMap, pubkey: &str, query: &str) -> Answer {
    let owner =
        Pubkey::parse(pubkey).ok_or_else(|| Refusal::bad_request("the public key has not 64 hexadecimal digits"))?;
    let page = page(query).map_err(|name| Refusal::bad_request(format!("{name} is malformed")))?;
    let authorization = authorization(caller, headers, Verb::List, None).await?;
    if authorization.pubkey != owner {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "you may list your own files alone"));
    }
    let listed = caller.on_disk(|store| store.list(owner, page)).await?;
    let blobs = listed.ok_or_else(|| Refusal::bad_request("cursor is no file of this key"))?;
    let descriptors = blobs.iter().map(|blob| descriptor(blob, &caller.address)).collect();
    Ok(json(StatusCode::OK, &Value::Array(descriptors)))
}

/// Parses a query.
///
/// # Errors
/// The name of the parameter that is malformed.
fn page(query: &str) -> Result<ListPage, &'static str> {
    let mut page = ListPage { after: None, limit: LIST_PAGE, since: 0, until: u64::MAX };
    for (name, value) in query.split('&').filter_map(|pair| pair.split_once('=')).filter(|(_, value)| !value.is_empty())
    {
        match name {
            "cursor" => page.after = Some(BlobHash::parse(value).ok_or("cursor")?),
            "limit" => page.limit = value.parse::<usize>().map_err(|_| "limit")?.min(LIST_PAGE),
            "since" => page.since = value.parse().map_err(|_| "since")?,
            "until" => page.until = value.parse().map_err(|_| "until")?,
            _ => {}
        }
    }
    Ok(page)
}

/// Deletes a blob of a key. Others that own it keep it.
pub(super) async fn delete(caller: &Caller, headers: &HeaderMap, hash: BlobHash) -> Answer {
    let owner = authorization(caller, headers, Verb::Delete, Some(hash)).await?.pubkey;
    match caller.settling(|store| store.remove(hash, owner)).await? {
        Removed::Blob | Removed::Owner => Ok(empty(StatusCode::NO_CONTENT)),
        Removed::Unknown => Err(Refusal::not_found()),
        Removed::NotOwned => Err(Refusal::new(StatusCode::FORBIDDEN, "you have not uploaded this file")),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_bounded_and_its_parameters_are_checked() {
        let hash = BlobHash([7; 32]);
        let one = page(&format!("limit=5&cursor={hash}&since=1&until=2&x=y")).unwrap();
        assert_eq!((one.limit, one.after, one.since, one.until), (5, Some(hash), 1, 2));
        let all = page("").unwrap();
        assert_eq!((all.limit, all.after, all.since, all.until), (LIST_PAGE, None, 0, u64::MAX));
        assert_eq!(page("limit=999999").unwrap().limit, LIST_PAGE);
        let wrong = ["limit=-1", "cursor=abc", "since=now", "until=1e3"].map(|query| page(query).unwrap_err());
        assert_eq!(wrong, ["limit", "cursor", "since", "until"]);
    }
}
