//! Ranges of bytes, beside clients that others have made: curl and `ureq`.

use std::process::Command;

use crate::client::{ask, upload};
use crate::running::{Given, Running, hash_of};

/// Bytes that differ, longer than two pieces of a read.
fn bytes() -> Vec<u8> {
    (0..600_007_u32)
        .flat_map(|number| (number.wrapping_mul(2_654_435_761) >> 24).to_be_bytes().into_iter().skip(3))
        .collect()
}

#[test]
fn a_part_is_answered_as_the_rfc_says() {
    let running = Running::start(Given::default());
    let (addr, body) = (running.addr, bytes());
    upload(addr, 1, &body);
    let (path, size) = (format!("/{}", hash_of(&body)), body.len());
    let range = |range: &str| ask(addr, "GET", &path, &[("Range", range)]);
    for (header, from, to) in [
        ("bytes=0-0".to_owned(), 0, 1),
        ("bytes=100-".to_owned(), 100, size),
        ("bytes=-7".to_owned(), size - 7, size),
        ("bytes=262143-262145".to_owned(), 262_143, 262_146),
        (format!("bytes=5-{}", size + 10), 5, size),
        (format!("bytes={}-", size - 1), size - 1, size),
    ] {
        let part = range(&header);
        assert_eq!((part.status, part.body == body[from..to]), (206, true), "{header}");
        assert_eq!(part.header("content-range"), Some(&*format!("bytes {from}-{}/{size}", to - 1)));
        assert_eq!(part.header("content-length"), Some(&*(to - from).to_string()));
    }
    for header in [format!("bytes={size}-"), "bytes=-0".to_owned()] {
        let nothing = range(&header);
        assert_eq!((nothing.status, nothing.header("content-range")), (416, Some(&*format!("bytes */{size}"))));
    }
    for header in ["bytes=2-1", "lines=0-1", "bytes=0-1,5-6", "x"] {
        assert_eq!((range(header).status, range(header).body.len()), (200, size), "{header}");
    }
    assert_eq!(ask(addr, "HEAD", &path, &[("Range", "bytes=0-1")]).status, 200, "a range is for GET alone");
    let tag = format!("\"{}\"", hash_of(&body));
    let if_range = |tag: &str| ask(addr, "GET", &path, &[("Range", "bytes=0-1"), ("If-Range", tag)]).status;
    assert_eq!([if_range(&tag), if_range("\"other\"")], [206, 200]);
}

#[test]
fn curl_reads_parts_and_goes_on_with_what_it_has() {
    let running = Running::start(Given::default());
    let body = bytes();
    upload(running.addr, 1, &body);
    let url = format!("http://{}/{}.bin", running.addr, hash_of(&body));
    let file = running.folder().join("read");
    let curl = |args: &[&str]| {
        let status = Command::new("curl").args(["-s", "-S", "-f", "-o"]).arg(&file).args(args).arg(&url).status();
        status.is_ok_and(|status| status.success())
    };
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: there is no curl");
        return;
    }
    for (range, from, to) in
        [("0-99", 0, 100), ("599999-", 599_999, 600_007), ("-1", 600_006, 600_007), ("7-300000", 7, 300_001)]
    {
        assert!(curl(&["-r", range]));
        assert!(std::fs::read(&file).unwrap() == body[from..to], "{range}");
    }
    for have in [0, 1, 262_144, 600_006] {
        std::fs::write(&file, &body[..have]).unwrap();
        assert!(curl(&["-C", "-"]), "{have}");
        assert!(std::fs::read(&file).unwrap() == body, "{have}");
    }
    assert!(!curl(&["-r", "600007-"]));
}

#[test]
fn ureq_uploads_and_reads_over_one_connection() {
    let running = Running::start(Given::default());
    let url = format!("http://{}", running.addr);
    let agent = ureq::Agent::config_builder().http_status_as_error(false).build().new_agent();
    for number in 0..5_u8 {
        let body = vec![number; 100_000];
        let hash = hash_of(&body);
        let authorization = crate::running::authorization(1, "upload", &[hash]);
        let put = agent.put(format!("{url}/upload")).header("Authorization", authorization).send(&body).unwrap();
        assert_eq!(put.status(), 201);
        let mut got = agent.get(format!("{url}/{hash}")).header("Range", "bytes=1-").call().unwrap();
        assert_eq!((got.status().as_u16(), got.body_mut().read_to_vec().unwrap() == body[1..]), (206, true));
        // A refusal of a body that it sends anyway is read.
        let mut refused = agent.put(format!("{url}/upload")).send(vec![number; 3_000_000]).unwrap();
        assert_eq!(refused.status(), 401);
        assert!(refused.body_mut().read_to_string().unwrap().contains("24242"));
    }
}
