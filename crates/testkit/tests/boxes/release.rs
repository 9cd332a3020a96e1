//! `scripts/release-files`: what it fills in and refuses, and the commands in its notes.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::released::{IMAGE, REPOSITORY, Released, Sources, VERSION};
use crate::{has, run, said};

/// The checksum by coreutils.
fn sha256(file: &Path) -> String {
    run(Command::new("sha256sum").arg(file)).split(' ').next().unwrap().to_owned()
}

fn files(folder: &Path) -> Vec<String> {
    let found = run(Command::new("find").arg(folder).args(["-type", "f"]));
    found.lines().map(str::to_owned).collect()
}

/// Returns `true` for a text like `@VERSION@`.
fn has_placeholder(text: &str) -> bool {
    let is_name =
        |part: &&str| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || "_0123456789".contains(c));
    let parts: Vec<&str> = text.split('@').collect();
    parts.len() > 2 && parts[1..parts.len() - 1].iter().any(is_name)
}

#[test]
fn no_placeholder_is_left_in_a_released_file() {
    let released = Released::new();
    assert!(has_placeholder("pkgver=@VERSION@\n") && !has_placeholder("@types/node @start9labs"));
    let found = files(&released.of_box(""));
    assert!(found.len() > 20, "{found:?}");
    for file in found.into_iter().chain([released.out().join("NOTES.md").display().to_string()]) {
        assert!(!has_placeholder(&fs::read_to_string(&file).unwrap()), "{file}");
    }
}

#[test]
fn boxes_name_packages_by_their_checksums_and_the_image_by_its_digest() {
    let released = Released::new();
    let sum = |name: &str| sha256(&released.out().join(name));
    for (deb, cpu) in [("amd64", "x86_64"), ("arm64", "aarch64")] {
        let tarball = sum(&format!("birdhouse-{VERSION}-{cpu}-linux-gnu.tar.xz"));
        for file in ["aur/PKGBUILD", "homebrew/birdhouse.rb"] {
            assert_eq!(released.read(file).matches(&tarball).count(), 1, "{file}");
        }
        assert!(
            released.read("raspiblitz/bonus.birdhouse.sh").contains(&sum(&format!("birdhouse_{VERSION}_{deb}.deb")))
        );
    }
    let image = &released.image;
    for file in ["compose/compose.yml", "umbrel/birdhouse/docker-compose.yml", "startos/startos/manifest/index.ts"] {
        assert_eq!(released.read(file).matches(image.as_str()).count(), 1, "{file}");
    }
    // The digest is the checksum of the index that a registry gets.
    let layout = released.folder("layout");
    let file = released.out().join(format!("birdhouse-{VERSION}.oci.tar"));
    run(Command::new("tar").arg("--extract").arg("--file").arg(file).arg("--directory").arg(&layout));
    let listed: Value = serde_json::from_slice(&fs::read(layout.join("index.json")).unwrap()).unwrap();
    let digest = listed["manifests"][0]["digest"].as_str().unwrap();
    assert_eq!(*image, format!("{IMAGE}:{VERSION}@{digest}"));
    let blob = |digest: &str| layout.join("blobs").join(digest.replace(':', "/"));
    assert_eq!(format!("sha256:{}", sha256(&blob(digest))), digest);
    let index: Value = serde_json::from_slice(&fs::read(blob(digest)).unwrap()).unwrap();
    let manifests = index["manifests"].as_array().unwrap();
    let architectures: BTreeSet<&str> =
        manifests.iter().map(|one| one["platform"]["architecture"].as_str().unwrap()).collect();
    assert_eq!(architectures, BTreeSet::from(["amd64", "arm64"]));
    for one in manifests {
        let manifest: Value =
            serde_json::from_slice(&fs::read(blob(one["digest"].as_str().unwrap())).unwrap()).unwrap();
        for part in manifest["layers"].as_array().unwrap().iter().chain([&manifest["config"]]) {
            let digest = part["digest"].as_str().unwrap();
            assert_eq!(format!("sha256:{}", sha256(&blob(digest))), digest);
        }
    }
}

/// skopeo, which the workflow of a release uploads with, copies the image as to a registry.
#[test]
fn a_copy_of_the_image_keeps_the_digest_that_the_boxes_name() {
    if !has("skopeo") {
        return;
    }
    let released = Released::new();
    let file = released.out().join(format!("birdhouse-{VERSION}.oci.tar"));
    let (copy, digest) = (released.folder("copy"), released.out().join("digest"));
    let mut skopeo = Command::new("skopeo");
    skopeo.args(["copy", "--insecure-policy", "--all", "--preserve-digests", "--digestfile"]).arg(&digest);
    run(skopeo.arg(format!("oci-archive:{}", file.display())).arg(format!("dir:{}", copy.display())));
    let digest = fs::read_to_string(digest).unwrap();
    assert_eq!(released.image, format!("{IMAGE}:{VERSION}@{}", digest.trim()));
}

#[test]
fn equal_packages_give_equal_files() {
    let sums = [(); 2].map(|()| fs::read_to_string(Released::new().out().join("SHA256SUMS")).unwrap());
    assert_eq!(sums[0], sums[1]);
}

#[test]
fn a_release_has_every_architecture_one_version_and_a_date() {
    let sources = Sources::new();
    let package = sources.path("packages/birdhouse_0.1.0_arm64.deb");
    fs::remove_file(&package).unwrap();
    let said = sources.refusal();
    assert!(said.contains("lacks birdhouse_0.1.0_arm64.deb; `make package` makes them, with ARCH=arm64"), "{said}");
    fs::write(sources.path("packages/birdhouse_0.0.9_arm64.deb"), "").unwrap();
    assert!(sources.refusal().contains("packages of 2 versions"));
    fs::remove_file(sources.path("packages/birdhouse_0.0.9_arm64.deb")).unwrap();
    fs::write(&package, "").unwrap();
    let changes = sources.path("CHANGELOG.md");
    fs::write(&changes, "# Changelog\n\n## 0.1.0 (unreleased)\n\nAll.\n").unwrap();
    assert!(sources.refusal().contains("CHANGELOG.md calls 0.1.0 unreleased; give it a date"));
    fs::write(&changes, "# Changelog\n\n## 0.0.9 (2026-01-01)\n\nAll.\n").unwrap();
    assert!(sources.refusal().contains("CHANGELOG.md has no section 0.1.0"));
}

#[test]
fn a_placeholder_that_nothing_is_known_for_is_refused() {
    let sources = Sources::new();
    fs::write(sources.path("contrib/boxes/compose/new.yml"), "image: @IMAGE@\nid: @SHA256_IMAGE@\n").unwrap();
    let said = sources.refusal();
    assert!(said.contains("compose/new.yml: nothing is known for @SHA256_IMAGE@"), "{said}");
}

/// Signs as a maintainer does, and checks by the commands that the notes have.
#[test]
fn the_commands_of_the_notes_check_signature_and_checksums() {
    if !has("minisign") {
        return;
    }
    let sources = Sources::new();
    let (public, secret) = (sources.path("birdhouse.pub"), sources.path("birdhouse.key"));
    run(Command::new("minisign").args(["-G", "-W", "-p"]).arg(&public).arg("-s").arg(&secret));
    let key = fs::read_to_string(&public).unwrap().lines().last().unwrap().to_owned();
    let released = sources.release_with(&key);
    let out = released.out();
    run(Command::new("minisign").args(["-S", "-m", "SHA256SUMS", "-s"]).arg(&secret).current_dir(&out));
    let notes = fs::read_to_string(out.join("NOTES.md")).unwrap();
    let commands = notes.split("```\n").nth(1).unwrap();
    assert!(commands.starts_with("minisign -V") && commands.contains("sha256sum"), "{commands}");
    let check = || Command::new("bash").args(["-e", "-c", commands]).current_dir(&out).output().unwrap();
    let checked = check();
    assert!(checked.status.success(), "{}", said(&checked));
    // Every file of the page of the release is in the list, and on the page.
    for file in said(&checked).lines().filter_map(|line| line.strip_suffix(": OK")) {
        assert!(notes.contains(&format!("`{file}`")), "{file}");
    }
    fs::write(out.join(format!("birdhouse_{VERSION}_amd64.deb")), "other").unwrap();
    assert!(!check().status.success());
    let sums = fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    fs::write(out.join("SHA256SUMS"), sums + "\n").unwrap();
    assert!(said(&check()).contains("Signature verification failed"));
    assert!(notes.contains(&format!("cosign verify {} ", released.image)));
    assert!(!notes.contains("](docs/") && notes.contains(&format!("]({REPOSITORY}/blob/v{VERSION}/docs/")));
}
