//! The folder `blocks` of a node: file names, key, magic, and messages for faults that a person must correct.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use birdhouse_chain::source::{SourceError, SourceResult};
use bitcoin::Network;
use bitcoin::blockdata::constants::genesis_block;
use bitcoin::p2p::Magic;

use crate::error::{permanent, unreadable};
use crate::record::{RecordKind, Records, Window, Zeros};
use crate::xor::XorKey;

use super::scan::{HEADER_BYTES, header_hash, proven_target};

/// A readable folder of block files of a known network.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    pub(crate) network: Network,
    pub(crate) key: XorKey,
    magic: [u8; 4],
}

/// Identity of a file: another one of the same name differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    inode: u64,
    /// `None` where the file system keeps none. A new file may get the inode of one that was deleted.
    created: Option<SystemTime>,
}

impl FileIdentity {
    pub(crate) fn of(file: &File) -> io::Result<Self> {
        let file = file.metadata()?;
        Ok(Self { device: file.dev(), inode: file.ino(), created: file.created().ok() })
    }
}

impl Folder {
    /// Opens the folder.
    ///
    /// # Errors
    /// The folder is unreadable, without block files, or of another network; the message gives advice.
    pub(crate) fn open(path: &Path, network: Network) -> SourceResult<Self> {
        fs::read_dir(path).map_err(|e| unreadable(path, &e))?;
        let key = read_key(&path.join("xor.dat"))?;
        let mut folder = Self { path: path.to_owned(), network, key, magic: network.magic().to_bytes() };
        folder.magic = folder.prove_magic()?;
        Ok(folder)
    }

    /// Returns true if the folder has another key than when it was opened. Where the key is the same, scans find out
    /// which files are others.
    pub(crate) fn is_replaced(&self) -> bool {
        read_key(&self.path.join("xor.dat")).is_ok_and(|key| key != self.key)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn blk_path(&self, number: u32) -> PathBuf {
        self.path.join(format!("blk{number:05}.dat"))
    }

    pub(crate) fn rev_path(&self, number: u32) -> PathBuf {
        self.path.join(format!("rev{number:05}.dat"))
    }

    /// Begins the record walk of a block file, from `position`.
    pub(crate) fn blk_records(
        &self,
        file: File,
        ahead: usize,
        zeros: Zeros,
        position: u64,
    ) -> io::Result<Records<File>> {
        let window = Window::new(file, self.key, ahead);
        Records::new(window, RecordKind::block(self.magic), zeros, position)
    }

    /// Opens the record walk of an undo file; `None` when there is no such file.
    pub(crate) fn rev_records(&self, number: u32, ahead: usize) -> SourceResult<Option<Records<File>>> {
        let path = self.rev_path(number);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(unreadable(&path, &e)),
        };
        let window = Window::new(file, self.key, ahead);
        let records = Records::new(window, RecordKind::undo(self.magic), Zeros::Skip, 0);
        records.map(Some).map_err(|e| unreadable(&path, &e))
    }

    /// Returns the numbers of the block files, ascending, possibly with gaps.
    pub(crate) fn numbers(&self) -> SourceResult<Vec<u32>> {
        let failed = |e: io::Error| unreadable(&self.path, &e);
        let mut numbers = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(failed)? {
            numbers.extend(entry.map_err(failed)?.file_name().to_str().and_then(blk_number));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Opens the first block file. A pruned node may delete it meanwhile, and never deletes the newest.
    fn first_file(&self) -> SourceResult<(u32, File)> {
        for number in self.numbers()? {
            let path = self.blk_path(number);
            match File::open(&path) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                file => return Ok((number, file.map_err(|e| unreadable(&path, &e))?)),
            }
        }
        Err(self.no_block_files())
    }

    /// Returns the magic of the first record. A custom signet has a magic of its own, but signet's genesis block, and
    /// signet's proof of work where that is pruned.
    fn prove_magic(&self) -> SourceResult<[u8; 4]> {
        let wanted = self.network.magic().to_bytes();
        let (first, file) = self.first_file()?;
        let path = self.blk_path(first);
        let failed = |e: io::Error| unreadable(&path, &e);
        let mut window = Window::new(file, self.key, 8 + HEADER_BYTES);
        let start = window.slice(0, 8 + HEADER_BYTES).map_err(failed)?;
        let (Some(found), Some(header)) = (start.first_chunk::<4>(), start.last_chunk::<HEADER_BYTES>()) else {
            return Err(self.no_block_files());
        };
        if *found == wanted {
            return Ok(wanted);
        }
        match Network::from_magic(Magic::from_bytes(*found)) {
            Some(other) => Err(self.wrong_network(other)),
            None if self.network == Network::Signet && is_of_signet(first, header) => Ok(*found),
            None if *found == TESTNET5_MAGIC => {
                Err(permanent(format!("failed to use {}: {}", self.path.display(), unserved_chain(TESTNET5))))
            }
            // The first record is damaged: the scan of all records decides.
            None => Ok(wanted),
        }
    }

    fn wrong_network(&self, other: Network) -> SourceError {
        permanent(format!(
            "the block files in {} are of the network {}, not {}; give the folder of the {} node, or choose \
             --network {}",
            self.path.display(),
            other.to_core_arg(),
            self.network.to_core_arg(),
            self.network.to_core_arg(),
            network_flag(other),
        ))
    }

    fn no_block_files(&self) -> SourceError {
        permanent(format!(
            "failed to open {}: it holds no block files (blk*.dat); give the folder `blocks` of a node that has \
             started at least once",
            self.path.display()
        ))
    }
}

/// Returns true if the first record of file `first` may be one of a custom signet.
fn is_of_signet(first: u32, header: &[u8; HEADER_BYTES]) -> bool {
    let hash = header_hash(header);
    if first == 0 {
        return hash == genesis_block(Network::Signet).block_hash();
    }
    proven_target(header, hash).is_some()
}

/// The networks that are served, main first.
pub(crate) const NETWORKS: [Network; 5] =
    [Network::Bitcoin, Network::Testnet, Network::Testnet4, Network::Signet, Network::Regtest];
/// Core's name for a chain that is not served, because its genesis block is not published yet, and its magic. Source:
/// [BIP 95](https://github.com/bitcoin/bips/blob/master/bip-0095.md), version 0.1.0.
pub(crate) const TESTNET5: &str = "testnet5";
const TESTNET5_MAGIC: [u8; 4] = *b"FIVE";

/// Returns a message about a chain by Core's name for it, which is none of [`NETWORKS`].
pub(crate) fn unserved_chain(name: &str) -> String {
    let served = NETWORKS.map(network_flag).join(", ");
    format!("the chain {name:?} is not served; give a node of one of these networks: {served}")
}

/// Returns the name of a network on the command line of birdhouse.
pub(crate) fn network_flag(network: Network) -> &'static str {
    match network {
        Network::Bitcoin => "bitcoin",
        Network::Testnet => "testnet",
        Network::Testnet4 => "testnet4",
        Network::Signet => "signet",
        Network::Regtest => "regtest",
    }
}

/// Returns the number in `blkNNNNN.dat`.
fn blk_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("blk")?.strip_suffix(".dat")?;
    (digits.len() >= 5 && digits.bytes().all(|b| b.is_ascii_digit())).then(|| digits.parse().ok())?
}

fn read_key(path: &Path) -> SourceResult<XorKey> {
    match fs::read(path) {
        Ok(bytes) => bytes.try_into().map(XorKey::new).map_err(|bytes: Vec<u8>| {
            permanent(format!(
                "failed to read {}: it has {} bytes instead of {}",
                path.display(),
                bytes.len(),
                XorKey::LEN
            ))
        }),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(XorKey::default()),
        Err(e) => Err(unreadable(path, &e)),
    }
}

#[cfg(test)]
mod tests {
    use super::blk_number;

    #[test]
    fn only_numbered_block_files_count() {
        assert_eq!(blk_number("blk00000.dat"), Some(0));
        assert_eq!(blk_number("blk123456.dat"), Some(123_456));
        for other in ["rev00000.dat", "blk0.dat", "blk0000a.dat", "blk00001.dat.bak", "blk99999999999.dat", "xor.dat"] {
            assert_eq!(blk_number(other), None, "{other}");
        }
    }
}
