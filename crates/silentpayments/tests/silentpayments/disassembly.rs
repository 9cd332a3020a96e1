//! Instructions that not every processor has stand only where their presence was tested before.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The name that functions for AVX-512 IFMA have, and no other function.
const DISPATCHED: &str = "compiled_for_lanes";
/// The instructions that only IFMA has.
const IFMA: &str = "vpmadd52";

/// `BIRDHOUSE_BINARY` names another program than this test. One with further libraries may have IFMA of theirs.
#[test]
fn instructions_of_ifma_are_in_the_function_alone_that_is_compiled_for_it() {
    let binary = std::env::var_os("BIRDHOUSE_BINARY").map_or_else(|| std::env::current_exe().unwrap(), PathBuf::from);
    let mut objdump = Command::new("objdump");
    objdump.args(["--disassemble", "--no-show-raw-insn"]).arg(&binary).stdout(Stdio::piped());
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: the lanes exist on x86-64 alone");
        return;
    }
    let Ok(mut child) = objdump.spawn() else {
        eprintln!("skipped: there is no objdump (Debian's package binutils)");
        return;
    };
    let (mut function, mut with_ifma) = (String::new(), BTreeSet::new());
    for line in BufReader::new(child.stdout.take().unwrap()).split(b'\n') {
        let line = String::from_utf8_lossy(&line.unwrap()).into_owned();
        if let Some(name) = line.strip_suffix(">:").and_then(|line| line.split_once(" <")) {
            name.1.clone_into(&mut function);
        } else if line.contains(IFMA) && !with_ifma.contains(&function) {
            with_ifma.insert(function.clone());
        }
    }
    assert!(child.wait().unwrap().success());
    println!("{} functions with {IFMA}: {with_ifma:#?}", with_ifma.len());
    assert!(!with_ifma.is_empty(), "the program has no lanes");
    let elsewhere: Vec<&String> = with_ifma.iter().filter(|name| !name.contains(DISPATCHED)).collect();
    assert_eq!(elsewhere, [] as [&String; 0]);
}
