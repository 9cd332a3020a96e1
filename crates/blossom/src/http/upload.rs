//! `PUT /upload` and `HEAD /upload`: a new blob, and whether it would be taken (BUD-02, BUD-06).
//!
//! A stranger holds nothing: key, quotas and room are checked before the first byte is read. The body goes to a file as
//! it comes. Whatever ends the request early, the file and the room are given back.

use std::time::Duration;

use birdhouse_clients::{Held, UsedUp};
use birdhouse_events::Pubkey;
use http_body_util::BodyExt as _;
use hyper::StatusCode;
use hyper::body::{Bytes, Incoming as RequestBody};
use hyper::header::{self, HeaderMap, HeaderName};
use tokio::time::{Instant, sleep, timeout};

use super::authorized::authorization;
use super::pace::{Pace, Step};
use super::reply::{Answer, Refusal, descriptor, empty, json};
use crate::access::Denied;
use crate::authorization::{Authorization, Verb};
use crate::error::Error;
use crate::hash::BlobHash;
use crate::limits::{DISK_LOOK_BYTES, Limits, PIECE_BYTES};
use crate::media_type::MediaType;
use crate::service::{Caller, UPLOADS};
use crate::store::{Incoming, NoRoom, Quotas, Reservation, Settling, Store, Stored, Unreserved, Wanted};

/// Pause before a refused upload is worth another attempt.
const RETRY: Duration = Duration::from_secs(30);

const HASH: HeaderName = HeaderName::from_static("x-sha-256");

/// Names of the headers that describe an upload.
struct Names {
    length: HeaderName,
    media_type: HeaderName,
}

/// An upload as its headers describe it.
struct Described {
    bytes: u64,
    hash: Option<BlobHash>,
    media_type: MediaType,
}

/// Bytes of an upload that have come.
struct Coming<'a> {
    caller: &'a Caller,
    incoming: Incoming,
    began: Instant,
    /// Bytes that are not written yet. They are copied: a piece keeps the whole buffer that it was read into.
    unwritten: Vec<u8>,
    came: u64,
    disk_looked: u64,
}

/// Takes an upload.
pub(super) async fn upload(caller: &Caller, headers: &HeaderMap, body: &mut RequestBody) -> Answer {
    let answer = take(caller, headers, body).await;
    match &answer {
        Ok(_) => caller.counters().uploaded(),
        Err(_) => caller.counters().refused_upload(),
    }
    answer
}

/// Answers whether an upload would be taken.
pub(super) async fn would_take(caller: &Caller, headers: &HeaderMap) -> Answer {
    let names = Names {
        length: HeaderName::from_static("x-content-length"),
        media_type: HeaderName::from_static("x-content-type"),
    };
    let described = Described::of(headers, &names, caller)?;
    if described.hash.is_none() {
        return Err(Refusal::bad_request("X-SHA-256 is missing"));
    }
    let owner = authorized(caller, headers, &described).await?.pubkey;
    drop(reserve(caller, owner, &described).await?);
    Ok(empty(StatusCode::OK))
}

async fn take(caller: &Caller, headers: &HeaderMap, body: &mut RequestBody) -> Answer {
    let names = Names { length: header::CONTENT_LENGTH, media_type: header::CONTENT_TYPE };
    let described = Described::of(headers, &names, caller)?;
    let authorization = authorized(caller, headers, &described).await?;
    let _slot = slot(caller)?;
    let reservation = reserve(caller, authorization.pubkey, &described).await?;
    let incoming = caller.on_disk(Store::begin).await?;
    let incoming = Coming::new(caller, incoming).receive(body, described.bytes).await?;
    let hash = incoming.hash();
    if described.hash.is_some_and(|said| said != hash) {
        return Err(Refusal::new(StatusCode::CONFLICT, "the body has another hash than X-SHA-256"));
    }
    if !authorization.covers(hash) {
        return Err(Refusal::unauthorized("the authorization has no x tag with the hash of the blob"));
    }
    // It may be banned meanwhile.
    check_uploader(caller, &authorization.pubkey)?;
    let upload = Settling {
        owner: authorization.pubkey,
        media_type: described.media_type.as_str(),
        now: caller.now(),
        quotas: reservation.quotas(),
    };
    let stored = caller.settling(|store| store.settle(&incoming, upload)).await?;
    answer(caller, &stored)
}

fn answer(caller: &Caller, stored: &Stored) -> Answer {
    match stored {
        Stored::New(blob) => Ok(json(StatusCode::CREATED, &descriptor(blob, &caller.address))),
        Stored::Known(blob) => Ok(json(StatusCode::OK, &descriptor(blob, &caller.address))),
        Stored::Uncounted => {
            Err(Refusal::new(StatusCode::CONFLICT, "you have deleted this file meanwhile; upload it again"))
        }
    }
}

/// Checks the authorization, and that its key may upload.
async fn authorized(caller: &Caller, headers: &HeaderMap, described: &Described) -> Result<Authorization, Refusal> {
    let authorization = authorization(caller, headers, Verb::Upload, described.hash).await?;
    check_uploader(caller, &authorization.pubkey)?;
    Ok(authorization)
}

fn check_uploader(caller: &Caller, key: &Pubkey) -> Result<(), Refusal> {
    let denied = |Denied(reason)| Refusal::new(StatusCode::FORBIDDEN, reason);
    caller.service.operator.check_uploader(key).map_err(denied)
}

/// Takes one of the uploads at once, of the client and of all.
fn slot(caller: &Caller) -> Result<Held, Refusal> {
    let own = caller.meter.held(UPLOADS, caller.limits().client_uploads);
    Held::of(&own, &caller.service.uploads, 1).map_err(|used_up| {
        let refusal = match used_up {
            UsedUp::OfClient => Refusal::new(StatusCode::TOO_MANY_REQUESTS, "you have too many uploads under way"),
            UsedUp::OfAll => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too many uploads are under way"),
        };
        refusal.retry_after(RETRY)
    })
}

async fn reserve(caller: &Caller, owner: Pubkey, described: &Described) -> Result<Reservation, Refusal> {
    let settings = &caller.service.settings;
    let (limits, bytes) = (&settings.limits, described.bytes);
    let reserved = caller.on_disk(|store| {
        let is_owned = described.hash.map_or(Ok(false), |hash| store.is_owner(hash, owner))?;
        let quotas = if is_owned { Quotas::Owned } else { Quotas::Counted };
        let disk_free_bytes = (settings.disk_free_bytes)();
        store.reserve(Wanted { owner, bytes, quotas, disk_free_bytes }, limits)
    });
    reserved.await.map_err(|unreserved| match unreserved {
        Unreserved::NoRoom(no_room) => no_room_for(no_room, limits),
        Unreserved::Failed(error) => error.into(),
    })
}

fn no_room_for(no_room: NoRoom, limits: &Limits) -> Refusal {
    let most = |bound: Option<u64>| bound.unwrap_or(u64::MAX);
    let quota = |reason: String| Refusal::new(StatusCode::TOO_MANY_REQUESTS, reason);
    let unavailable = |reason: &'static str| Refusal::new(StatusCode::SERVICE_UNAVAILABLE, reason);
    match no_room {
        NoRoom::KeyBytes => {
            quota(format!("your files may have {} bytes together; delete some", most(limits.key_bytes)))
        }
        NoRoom::KeyFiles => quota(format!("you may have {} files; delete some", most(limits.key_files))),
        NoRoom::KeyUploads => {
            Refusal::new(StatusCode::TOO_MANY_REQUESTS, "you have too many uploads under way").retry_after(RETRY)
        }
        NoRoom::All => unavailable("the media store is full"),
        NoRoom::Disk => unavailable("the disk of the media store is nearly full"),
    }
}

// === impl Described ===

impl Described {
    fn of(headers: &HeaderMap, names: &Names, caller: &Caller) -> Result<Self, Refusal> {
        let text = |name: &HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
        let length = text(&names.length)
            .ok_or_else(|| Refusal::new(StatusCode::LENGTH_REQUIRED, format!("{} is missing", title(&names.length))))?;
        let malformed = |name: &HeaderName| Refusal::bad_request(format!("{} is malformed", title(name)));
        let is_number = !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit());
        let bytes = if is_number { length.parse().unwrap_or(u64::MAX) } else { return Err(malformed(&names.length)) };
        let hash = match text(&HASH) {
            None => None,
            Some(digits) => Some(BlobHash::parse(digits.trim()).ok_or_else(|| malformed(&HASH))?),
        };
        let media_type = match text(&names.media_type) {
            None => MediaType::unknown(),
            Some(text) => MediaType::parse(text).ok_or_else(|| malformed(&names.media_type))?,
        };
        let settings = &caller.service.settings;
        if settings.types.as_ref().is_some_and(|types| !types.includes(&media_type)) {
            let reason = format!("files of type {media_type} are not taken here");
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, reason));
        }
        if bytes > settings.limits.file_bytes {
            let reason = format!("a file may have {} bytes", settings.limits.file_bytes);
            return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, reason));
        }
        Ok(Self { bytes, hash, media_type })
    }
}

/// Returns the name of a header as specifications write it.
fn title(name: &HeaderName) -> String {
    let part = |part: &str| match part {
        "sha" => "SHA".to_owned(),
        part => part[..1].to_ascii_uppercase() + &part[1..],
    };
    name.as_str().split('-').map(part).collect::<Vec<_>>().join("-")
}

// === impl Coming ===

impl<'a> Coming<'a> {
    fn new(caller: &'a Caller, incoming: Incoming) -> Self {
        Self {
            caller,
            incoming,
            began: Instant::now(),
            unwritten: Vec::with_capacity(PIECE_BYTES),
            came: 0,
            disk_looked: 0,
        }
    }

    /// Reads the body into the file, at a speed within the bounds.
    async fn receive(mut self, body: &mut RequestBody, bytes: u64) -> Result<Incoming, Refusal> {
        let (limits, pace) = (self.caller.limits(), Pace::of(self.caller.limits()));
        loop {
            let frame = timeout(limits.upload_timeout, body.frame()).await.map_err(|_| Refusal::too_slow())?;
            let Some(frame) = frame else { break };
            let broken = |_| Refusal::bad_request("the body is broken");
            let Ok(piece) = frame.map_err(broken)?.into_data() else { continue };
            self.came += piece.len() as u64;
            if self.came > bytes {
                return Err(Refusal::bad_request("the body is longer than Content-Length"));
            }
            self.take(piece).await?;
            match pace.step(self.came, self.began.elapsed()) {
                Step::GoOn => {}
                Step::Wait(wait) => sleep(wait).await,
                Step::TooSlow => return Err(Refusal::too_slow()),
            }
        }
        if self.came < bytes {
            return Err(Refusal::bad_request("the body is shorter than Content-Length"));
        }
        self.write().await?;
        Ok(self.incoming)
    }

    async fn take(&mut self, mut piece: Bytes) -> Result<(), Refusal> {
        self.caller.meter.received(piece.len(), 0);
        while !piece.is_empty() {
            let fitting = piece.len().min(PIECE_BYTES - self.unwritten.len());
            self.unwritten.extend_from_slice(&piece.split_to(fitting));
            if self.unwritten.len() == PIECE_BYTES {
                self.write().await?;
            }
        }
        Ok(())
    }

    /// Writes the bytes that have come, and checks now and then that others have left the free disk that stays.
    async fn write(&mut self) -> Result<(), Refusal> {
        let settings = &self.caller.service.settings;
        let looks = self.came - self.disk_looked >= DISK_LOOK_BYTES;
        let (unwritten, incoming) = (&self.unwritten, &mut self.incoming);
        let mut write = || {
            incoming.write(unwritten)?;
            let free = if looks { (settings.disk_free_bytes)() } else { None };
            Ok::<_, Error>(free.is_some_and(|free| free < settings.limits.disk_free_bytes.unwrap_or(0)))
        };
        let is_short = self.caller.on_disk(|_| write()).await?;
        self.unwritten.clear();
        if looks {
            self.disk_looked = self.came;
        }
        if is_short { Err(no_room_for(NoRoom::Disk, &settings.limits)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_named_as_specifications_write_them() {
        let names = ["content-length", "x-sha-256", "x-content-type"].map(HeaderName::from_static);
        assert_eq!(names.map(|name| title(&name)), ["Content-Length", "X-SHA-256", "X-Content-Type"]);
    }
}
