//! A disk that is slow to answer.

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::thread;
use std::time::Duration;

use nix::fcntl::OFlag;

/// Bytes that are read, a multiple of the unit of any disk.
const READ_BYTES: usize = 4096;

/// Reads from the disk, past the file cache, and waits for this time at least. The file is this program itself.
///
/// # Panics
/// The program does not lie on a disk.
pub fn read_slow_disk(time: Duration) {
    let path = std::env::current_exe().expect("this program has a file");
    let flags = OFlag::O_DIRECT.bits();
    let program = OpenOptions::new().read(true).custom_flags(flags).open(path).expect("this program lies on a disk");
    // The kernel wants an address that is such a multiple, too.
    let mut buffer = vec![0; 2 * READ_BYTES];
    let start = buffer.as_ptr().align_offset(READ_BYTES);
    program.read_at(&mut buffer[start..start + READ_BYTES], 0).expect("this program lies on a disk");
    thread::sleep(time);
}
