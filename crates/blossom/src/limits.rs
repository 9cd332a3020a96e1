//! Every bound of the media store: name, default and consequence. The tables of `docs/LIMITS.md` are generated from
//! this file; a test of `crates/server` keeps them equal.

use std::time::Duration;

use birdhouse_clients::{Rate, bounds, fixed_bounds};
use birdhouse_net::ClientBounds;

bounds! {
    /// The bounds of the media store.
    Limits, given as LimitsGiven {
        /// Open connections.
        connections: usize = 1000 => "for a new one, the connection without traffic for longest, of the largest network, is closed",
        /// Open connections of one network: an IPv4 /24 or IPv6 /48. An IPv6 /32 has four times as many.
        network_connections: Option<usize> = Some(200) =>
            "for a new one, its connection without traffic for longest is closed",
        /// Open connections of one client.
        client_connections: Option<usize> = Some(50) => "a new connection is closed",
        /// Processor and disk time that one client may use in a burst, with a small charge for every request and byte.
        client_work: Option<Duration> = Some(Duration::from_mins(5)) =>
            "its requests wait for a second at most, then get status 429, which says when to retry",
        /// Rate at which used `client-work` comes back, in percent of one processor.
        client_work_percent: u32 = 50 => "as `client-work`",
        /// Time from accepting a connection until it can carry requests: PROXY header, TLS.
        handshake_timeout: Duration = Duration::from_secs(10) => "the connection is closed",
        /// Time until a request's head is whole: from the connection's start, or from the last answer.
        head_timeout: Duration = Duration::from_mins(1) => "the connection is closed",
        /// Time in which the client reads nothing of what is written to it.
        write_timeout: Duration = Duration::from_mins(1) => "the connection is closed",
        /// Bytes of one file.
        file_bytes: u64 = 100_000_000 => "status 413",
        /// Bytes of the files of one key, also of those that another key has uploaded before.
        key_bytes: Option<u64> = Some(1_000_000_000) => "status 429 for its uploads, until it deletes some",
        /// Files of one key.
        key_files: Option<u64> = Some(10_000) => "status 429 for its uploads, until it deletes some",
        /// Bytes of all files.
        all_bytes: Option<u64> = Some(20_000_000_000) => "status 503 for uploads",
        /// Bytes of free disk that always stay.
        disk_free_bytes: Option<u64> = Some(1_000_000_000) => "status 503 for uploads",
        /// Uploads under way.
        uploads: usize = 32 => "status 503 for a further one",
        /// Uploads of one key under way.
        key_uploads: Option<usize> = Some(4) => "status 429 for a further one",
        /// Uploads of one client under way.
        client_uploads: Option<usize> = Some(4) => "status 429 for a further one",
        /// Time in which nothing of an upload comes.
        upload_timeout: Duration = Duration::from_secs(30) => "status 408, and nothing is kept",
        /// Bytes a second of an upload, from its beginning on average, once `upload-timeout` is over.
        upload_rate_min: u64 = 4096 => "status 408, and nothing is kept",
        /// Bytes a second of an upload, from its beginning on average.
        upload_rate_max: Option<u64> = Some(50_000_000) => "it is read more slowly",
        /// Rate of reports of one client.
        client_reports: Option<Rate> = Some(Rate::per_minute(10)) => "status 429",
    }
}

fixed_bounds! {
    /// Pause before a request of a client that has used its `client-work`.
    OVERDRAWN_PAUSE: Duration = Duration::from_secs(1) => "no further request of its connection is taken meanwhile; then the answer, or status 429",
    /// Bytes of a request's head, with its authorization.
    HEAD_BYTES: usize = 32 * 1024 => "status 431",
    /// Seconds by which the clock of a client may be ahead in an authorization.
    CLOCK_AHEAD_SECONDS: u64 = 60 => "status 401",
    /// Characters of a media type.
    MEDIA_TYPE_CHARS: usize = 127 => "status 400",
    /// Characters of the extension after a hash.
    EXTENSION_CHARS: usize = 32 => "status 400",
    /// Files of one answer of `/list`.
    LIST_PAGE: usize = 1000 => "the next page follows from its last entry",
    /// Bytes of a report.
    REPORT_BYTES: usize = 64 * 1024 => "status 413",
    /// Time for a report to come.
    REPORT_TIMEOUT: Duration = Duration::from_secs(30) => "status 408",
    /// Reads and writes of files at once, of which one client has half at most.
    DISK_TURNS: u16 = 8 => "the next one waits for its turn",
    /// Uploads and deletions that are made durable at once, of which one client has half at most.
    SETTLING_TURNS: u16 = 2 => "the next one waits for its turn",
    /// Bytes of a refused upload that are read after the answer, so that its client reads the answer.
    DRAIN_BYTES: u64 = 8_000_000 => "the connection is closed",
    /// Time in which that is read.
    DRAIN_TIMEOUT: Duration = Duration::from_secs(5) => "the connection is closed",
    /// Time in which nothing of that comes.
    DRAIN_SILENCE: Duration = Duration::from_secs(1) => "the connection is closed",
    /// Clients whose rate of reports is remembered.
    REPORTERS: usize = 10_000 => "the rates of those who have used least are forgotten",
}

/// Charge for a request beside its answer: its head is read, and another one written.
pub(crate) const REQUEST_WORK: Duration = Duration::from_micros(20);
/// Bytes of an upload that are written together, and of a file that is read for a backup.
pub(crate) const PIECE_BYTES: usize = 256 * 1024;
/// Bytes of a download that are read together. A client that does not read keeps them in memory.
pub(crate) const DOWNLOAD_PIECE_BYTES: usize = 64 * 1024;
/// Least factor between the highest and the lowest speed of an upload.
const RATES_APART: u64 = 4;
/// Bytes of an upload between two looks at the free disk.
pub(crate) const DISK_LOOK_BYTES: u64 = 8 << 20;

impl Limits {
    /// Returns the bounds of one client.
    pub(crate) fn client(&self) -> ClientBounds {
        ClientBounds {
            connections: self.client_connections,
            work: self.client_work,
            work_percent: self.client_work_percent,
            unsent_bytes: None,
        }
    }

    /// Checks bounds that contradict each other.
    ///
    /// # Errors
    /// The contradiction.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.upload_rate_max.is_some_and(|most| most / RATES_APART < self.upload_rate_min) {
            return Err("upload-rate-max is less than four times upload-rate-min: every upload would be too slow");
        }
        if self.key_bytes.is_some_and(|most| most < self.file_bytes) {
            return Err("key-bytes is less than file-bytes: no key could upload such a file");
        }
        Ok(())
    }

    /// Returns the largest number of threads that its requests keep busy.
    pub fn blocking_threads(&self) -> usize {
        usize::from(DISK_TURNS) + usize::from(SETTLING_TURNS)
    }

    /// Returns the tables of `docs/LIMITS.md`, in Markdown.
    pub fn manual() -> String {
        let (media, fixed) = (Self::rows(&[Self::default()]), fixed_rows());
        format!(
            "| of the media store | | default | when it is reached |\n|---|---|---|---|\n{media}\n\
             | fixed, of the media store | | when it is reached |\n|---|---|---|\n{fixed}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_contradict_each_other_are_refused() {
        assert_eq!(Limits::default().check(), Ok(()));
        let slow = Limits { upload_rate_max: Some(10_000), ..Limits::default() };
        assert!(slow.check().is_err_and(|why| why.contains("upload-rate-max")));
        let small = Limits { key_bytes: Some(99_999_999), ..Limits::default() };
        assert!(small.check().is_err_and(|why| why.contains("key-bytes")));
        assert_eq!(Limits { key_bytes: None, upload_rate_max: None, ..Limits::default() }.check(), Ok(()));
    }
}
