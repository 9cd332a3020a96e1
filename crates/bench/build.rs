//! Tells the tests whether there is a Chromium, so that the one which needs it is counted as ignored without.

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
        // Cargo asks again as long as this is not there, which never is. (A Chromium that was installed is as old as its package,
        // older than this answer.)
        println!("cargo::rerun-if-changed=until-there-is-a-chromium");
    }
}
