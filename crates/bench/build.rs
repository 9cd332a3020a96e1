//! Finds Chromium for the tests: without it, the tests that need it are reported as ignored.

use std::env;
use std::path::PathBuf;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(no_chromium)");
    println!("cargo::rerun-if-env-changed=CHROMIUM");
    let named = env::var_os("CHROMIUM").map(PathBuf::from);
    let chromium = named.unwrap_or_else(|| PathBuf::from("/usr/bin/chromium"));
    println!("cargo::rustc-env=CHROMIUM={}", chromium.display());
    if chromium.is_file() {
        println!("cargo::rerun-if-changed={}", chromium.display());
    } else {
        println!("cargo::rustc-cfg=no_chromium");
        // Cargo runs this script again while the named file is missing, and it is never made. (The path of Chromium
        // would not do: an installed Chromium has the time of its package, older than this answer.)
        println!("cargo::rerun-if-changed=until-there-is-a-chromium");
    }
}
