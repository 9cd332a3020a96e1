//! Media types of blobs: the one that an upload declares, the extension in its URL, and what a browser may do with it.

use std::fmt;

use crate::limits::MEDIA_TYPE_CHARS;

/// The type of a blob of unknown type.
const UNKNOWN: &str = "application/octet-stream";
/// The extension of a type that is not in the table.
const UNKNOWN_EXTENSION: &str = "bin";

/// Types and the extensions of their URLs.
const EXTENSIONS: &[(&str, &str)] = &[
    ("application/epub+zip", "epub"),
    ("application/gzip", "gz"),
    ("application/json", "json"),
    ("application/pdf", "pdf"),
    ("application/vnd.android.package-archive", "apk"),
    ("application/vnd.apple.mpegurl", "m3u8"),
    ("application/wasm", "wasm"),
    ("application/x-7z-compressed", "7z"),
    ("application/x-bittorrent", "torrent"),
    ("application/x-tar", "tar"),
    ("application/zip", "zip"),
    ("audio/aac", "aac"),
    ("audio/flac", "flac"),
    ("audio/mp4", "m4a"),
    ("audio/mpeg", "mp3"),
    ("audio/ogg", "ogg"),
    ("audio/wav", "wav"),
    ("audio/webm", "weba"),
    ("font/woff2", "woff2"),
    ("image/apng", "apng"),
    ("image/avif", "avif"),
    ("image/bmp", "bmp"),
    ("image/gif", "gif"),
    ("image/heic", "heic"),
    ("image/jpeg", "jpg"),
    ("image/jxl", "jxl"),
    ("image/png", "png"),
    ("image/svg+xml", "svg"),
    ("image/tiff", "tiff"),
    ("image/webp", "webp"),
    ("text/css", "css"),
    ("text/csv", "csv"),
    ("text/html", "html"),
    ("text/javascript", "js"),
    ("text/markdown", "md"),
    ("text/plain", "txt"),
    ("text/vtt", "vtt"),
    ("video/mp2t", "ts"),
    ("video/mp4", "mp4"),
    ("video/mpeg", "mpeg"),
    ("video/ogg", "ogv"),
    ("video/quicktime", "mov"),
    ("video/webm", "webm"),
    ("video/x-matroska", "mkv"),
];

/// Types beside those of pictures, sound and video that a browser shows without running anything of them.
const INERT: &[&str] = &["application/octet-stream", "application/pdf", "application/zip", "text/plain"];

/// A media type: `type/subtype` in lower case, and its `charset` if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaType(String);

/// The media types that may be uploaded: `type/subtype` or `type/*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaTypes(Vec<String>);

/// Treatment of a blob by a browser that opens its URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Display {
    /// It is shown.
    Inline,
    /// It may have code in it: it is saved, and runs nothing if it is opened after all.
    Attachment,
}

// === impl MediaType ===

impl MediaType {
    /// Returns the type of a blob of unknown type.
    pub(crate) fn unknown() -> Self {
        Self(UNKNOWN.to_owned())
    }

    /// Returns the type of a blob of the index, which was parsed before.
    pub(crate) fn stored(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Parses the value of a header `Content-Type`. Parameters but `charset` are left out.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(';').map(str::trim);
        let essence = parts.next()?.to_ascii_lowercase();
        let (main, sub) = essence.split_once('/')?;
        if !is_token(main) || !is_token(sub) || main == "*" || sub == "*" {
            return None;
        }
        let charset =
            parts.filter_map(|part| part.split_once('=')).find(|(name, _)| name.eq_ignore_ascii_case("charset"));
        let charset = charset.map(|(_, value)| value.trim_matches('"')).filter(|value| is_token(value));
        let whole = charset.map_or_else(|| essence.clone(), |charset| format!("{essence}; charset={charset}"));
        (whole.len() <= MEDIA_TYPE_CHARS).then_some(Self(whole))
    }

    /// Returns the type as a header has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `type/subtype`.
    fn essence(&self) -> &str {
        self.0.split(';').next().unwrap_or_default()
    }

    /// Returns the extension of the URL, without a dot.
    pub(crate) fn extension(&self) -> &'static str {
        let found = EXTENSIONS.iter().find(|(name, _)| *name == self.essence());
        found.map_or(UNKNOWN_EXTENSION, |(_, extension)| extension)
    }

    /// Returns what a browser may do with it. What is not known to be inert may run.
    pub(crate) fn display(&self) -> Display {
        let essence = self.essence();
        let is_media = ["audio/", "image/", "video/"].iter().any(|main| essence.starts_with(main));
        // Of XML in any form a browser runs scripts.
        let is_xml = essence.contains("xml");
        if (is_media && !is_xml) || INERT.contains(&essence) { Display::Inline } else { Display::Attachment }
    }
}

impl fmt::Display for MediaType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

// === impl MediaTypes ===

impl MediaTypes {
    /// Parses types.
    ///
    /// # Errors
    /// The first text that is none.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        let parse = |text: &String| {
            let text = text.trim().to_ascii_lowercase();
            let is_name = |text: &str| is_token(text) && !text.contains('*');
            let is_type = |(main, sub): (&str, &str)| is_name(main) && (sub == "*" || is_name(sub));
            if text.split_once('/').is_some_and(is_type) { Ok(text) } else { Err(text) }
        };
        if texts.is_empty() {
            return Err(String::new());
        }
        texts.iter().map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Returns true if a type is among them.
    pub(crate) fn includes(&self, media_type: &MediaType) -> bool {
        let essence = media_type.essence();
        let main = essence.split_once('/').map_or("", |(main, _)| main);
        self.0.iter().any(|one| match one.strip_suffix("/*") {
            Some(all_of) => all_of == main,
            None => one == essence,
        })
    }
}

/// True for a token of HTTP (RFC 9110 section 5.6.2).
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<String> {
        MediaType::parse(text).map(|media_type| media_type.0)
    }

    #[test]
    fn a_type_keeps_its_charset_and_no_other_parameter() {
        assert_eq!(parse("image/PNG").as_deref(), Some("image/png"));
        assert_eq!(parse("text/plain;charset=UTF-8").as_deref(), Some("text/plain; charset=UTF-8"));
        assert_eq!(parse("text/plain; x=1; Charset=\"utf-8\"").as_deref(), Some("text/plain; charset=utf-8"));
        assert_eq!(parse("multipart/form-data; boundary=abc").as_deref(), Some("multipart/form-data"));
        for wrong in
            ["", "png", "image/", "/png", "image/png, text/html", "image/*", "image/p ng", "a/b/c", "image/\npng"]
        {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
        let long = format!("image/{}", "a".repeat(MEDIA_TYPE_CHARS));
        assert_eq!(parse(&long), None);
    }

    #[test]
    fn an_extension_belongs_to_the_type() {
        let extension = |text| MediaType::parse(text).unwrap().extension();
        assert_eq!(["image/jpeg", "text/plain; charset=utf-8", "x/y"].map(extension), ["jpg", "txt", "bin"]);
        assert!(EXTENSIONS.is_sorted_by_key(|(name, _)| *name));
        assert!(EXTENSIONS.iter().all(|(name, _)| parse(name).as_deref() == Some(name)));
    }

    #[test]
    fn what_a_browser_would_run_is_an_attachment() {
        for inline in ["image/png", "video/mp4", "audio/mpeg", "application/octet-stream", "text/plain; charset=utf-8"]
        {
            assert_eq!(MediaType::parse(inline).unwrap().display(), Display::Inline, "{inline}");
        }
        for attachment in
            ["text/html", "image/svg+xml", "application/xhtml+xml", "text/xml", "text/javascript", "text/css", "x/y"]
        {
            assert_eq!(MediaType::parse(attachment).unwrap().display(), Display::Attachment, "{attachment}");
        }
    }

    #[test]
    fn types_are_allowed_one_by_one_or_all_of_a_kind() {
        let types = MediaTypes::parse(&["image/*".to_owned(), "Text/Plain".to_owned()]).unwrap();
        let includes = |text| types.includes(&MediaType::parse(text).unwrap());
        assert!(includes("image/png") && includes("text/plain; charset=utf-8"));
        assert!(!includes("text/html") && !includes("video/mp4") && !includes("imagex/png"));
        assert_eq!(MediaTypes::parse(&["*/*".to_owned()]), Err("*/*".to_owned()));
        assert!(
            ["image", "image/**", "image/p*", "*/png"]
                .iter()
                .all(|text| MediaTypes::parse(&[(*text).to_owned()]).is_err())
        );
        assert!(MediaTypes::parse(&[]).is_err());
    }
}
