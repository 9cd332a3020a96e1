//! A release of version 0.1.0 from packages with a shell script as their program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::{repository, run, said};

pub(crate) const VERSION: &str = "0.1.0";
pub(crate) const REPOSITORY: &str = "https://example.org/birds/birdhouse";
pub(crate) const IMAGE: &str = "registry.example.org/birds/birdhouse";
/// A public key of minisign that nobody has the secret of.
const KEY: &str = "RWBirdhouseBirdhouseBirdhouseBirdhouseBirdhouseBirdhouse";

/// The time of every file in a package.
const TIME: &str = "--mtime=@1764547200";

/// A copy of what `scripts/release-files` reads, and packages of both architectures.
pub(crate) struct Sources {
    folder: TempDir,
}

impl Sources {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("birdhouse-release-").tempdir().unwrap();
        let root = folder.path();
        for name in ["contrib", "scripts", "packages"] {
            fs::create_dir(root.join(name)).unwrap();
        }
        for name in ["release-files", "package-oci-index"] {
            fs::copy(repository().join("scripts").join(name), root.join("scripts").join(name)).unwrap();
        }
        fs::copy(repository().join("LICENSE"), root.join("LICENSE")).unwrap();
        run(Command::new("cp").arg("-r").arg(repository().join("contrib/boxes")).arg(root.join("contrib")));
        let changes = fs::read_to_string(repository().join("CHANGELOG.md")).unwrap();
        fs::write(root.join("CHANGELOG.md"), changes.replace("(unreleased)", "(2026-12-01)")).unwrap();
        let sources = Self { folder };
        for (deb, cpu) in [("amd64", "x86_64"), ("arm64", "aarch64")] {
            sources.package(deb, cpu);
        }
        sources
    }

    pub(crate) fn path(&self, inside: &str) -> PathBuf {
        self.folder.path().join(inside)
    }

    /// Makes the packages of one architecture.
    fn package(&self, deb: &str, cpu: &str) {
        let name = format!("birdhouse-{VERSION}-{cpu}-linux-gnu");
        let unpacked = self.path("unpacked").join(&name);
        unpack(&unpacked);
        let mut tar = Command::new("tar");
        tar.args(["--create", "--xz", "--sort=name", "--owner=0", "--group=0", "--mode=go-w", TIME, "--file"]);
        run(tar
            .arg(self.path("packages").join(format!("{name}.tar.xz")))
            .arg("--directory")
            .arg(self.path("unpacked"))
            .arg(&name));
        let other = |name: String| fs::write(self.path("packages").join(name), deb).unwrap();
        other(format!("birdhouse_{VERSION}_{deb}.deb"));
        other(format!("{name}.cdx.json"));
        let mut image = Command::new(repository().join("scripts/package-oci"));
        image.env("SOURCE_DATE_EPOCH", "1764547200").arg("--root").arg(&unpacked);
        image.args(["--version", VERSION, "--architecture", deb, "--out"]);
        run(image.arg(self.path("packages").join(format!("birdhouse-{VERSION}-{deb}.oci.tar"))));
    }

    /// Runs the script with a key, into a folder.
    pub(crate) fn try_release(&self, key: &str, out: &Path) -> Output {
        let mut release = Command::new(self.path("scripts/release-files"));
        release.arg("--packages").arg(self.path("packages")).arg("--out").arg(out);
        release.args(["--repository", REPOSITORY, "--image", IMAGE, "--minisign-key", key]);
        release.output().unwrap()
    }

    /// Makes the release, and unpacks the boxes into its folder `boxes`.
    pub(crate) fn release_with(self, key: &str) -> Released {
        let out = self.path("out");
        let output = self.try_release(key, &out);
        assert!(output.status.success(), "{}", said(&output));
        let boxes = self.path("boxes");
        fs::create_dir(&boxes).unwrap();
        let mut tar = Command::new("tar");
        tar.args(["--extract", "--strip-components=1", "--file"]);
        run(tar.arg(out.join(format!("birdhouse-boxes-{VERSION}.tar.gz"))).arg("--directory").arg(&boxes));
        let image = String::from_utf8(output.stdout).unwrap().trim().to_owned();
        Released { sources: self, image }
    }

    /// The message of a release that is refused.
    pub(crate) fn refusal(&self) -> String {
        let output = self.try_release(KEY, &self.path("refused"));
        assert!(!output.status.success(), "{}", said(&output));
        said(&output)
    }
}

/// Makes the folder of a tarball, as `scripts/package` does.
fn unpack(folder: &Path) {
    for name in ["man", "completions"] {
        fs::create_dir_all(folder.join(name)).unwrap();
    }
    let program = folder.join("birdhouse");
    fs::write(&program, "#!/bin/sh\necho birdhouse\n").unwrap();
    run(Command::new("chmod").arg("755").arg(&program));
    run(Command::new("cp").arg("-r").arg(repository().join("contrib")).arg(folder));
    fs::remove_dir_all(folder.join("contrib/boxes")).unwrap();
    let others = ["man/birdhouse.1", "completions/birdhouse.bash", "completions/_birdhouse"];
    for name in others.into_iter().chain(["completions/birdhouse.fish", "LICENSE", "THIRD-PARTY-LICENCES"]) {
        fs::write(folder.join(name), "x\n").unwrap();
    }
}

/// The files of a release.
pub(crate) struct Released {
    sources: Sources,
    /// The image with its digest, as the script prints it.
    pub(crate) image: String,
}

impl Released {
    pub(crate) fn new() -> Self {
        Sources::new().release_with(KEY)
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.sources.path("out")
    }

    /// A file or folder of the boxes.
    pub(crate) fn of_box(&self, inside: &str) -> PathBuf {
        self.sources.path("boxes").join(inside)
    }

    pub(crate) fn read(&self, inside: &str) -> String {
        fs::read_to_string(self.of_box(inside)).unwrap()
    }

    /// The unpacked tarball of x86-64.
    pub(crate) fn unpacked(&self) -> PathBuf {
        self.sources.path(&format!("unpacked/birdhouse-{VERSION}-x86_64-linux-gnu"))
    }

    /// A new folder, for what tools write.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        let path = self.sources.path(name);
        fs::create_dir(&path).unwrap();
        path
    }
}
