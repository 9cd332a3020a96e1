//! The folder `blocks` of a node: file names, key, magic, and messages for faults that a person must correct.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use birdhouse_chain::source::{SourceError, SourceResult};
use bitcoin::Network;
use bitcoin::blockdata::constants::genesis_block;
use bitcoin::p2p::Magic;

use crate::error::{permanent, unreadable};
use crate::record::{RecordKind, Records, Window, Zeros};
use crate::xor::XorKey;

use super::scan::{HEADER_BYTES, header_hash};

/// A readable folder of block files of a known network.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    pub(crate) network: Network,
    pub(crate) key: XorKey,
    magic: [u8; 4],
    identity: Option<Identity>,
}

/// Device and inode of the first block file, which a node writes once and never replaces.
type Identity = (u64, u64);

impl Folder {
    /// Opens the folder.
    ///
    /// # Errors
    /// The folder is unreadable, without block files, pruned, or of another network; the message gives advice.
    pub(crate) fn open(path: &Path, network: Network) -> SourceResult<Self> {
        fs::read_dir(path).map_err(|e| unreadable(path, &e))?;
        let key = read_key(&path.join("xor.dat"))?;
        let mut folder =
            Self { path: path.to_owned(), network, key, magic: network.magic().to_bytes(), identity: None };
        folder.identity = folder.identity_now();
        folder.magic = folder.prove_magic()?;
        Ok(folder)
    }

    /// Returns true if the folder has another key or another first file than when it was opened.
    pub(crate) fn is_replaced(&self) -> bool {
        let key = read_key(&self.path.join("xor.dat"));
        let identity = self.identity_now();
        key.is_ok_and(|key| key != self.key) || (identity.is_some() && identity != self.identity)
    }

    fn identity_now(&self) -> Option<Identity> {
        fs::metadata(self.blk_path(0)).ok().map(|file| (file.dev(), file.ino()))
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

    /// Opens the record walk of a block file, from `position`.
    pub(crate) fn blk_records(
        &self,
        number: u32,
        ahead: usize,
        zeros: Zeros,
        position: u64,
    ) -> io::Result<Records<File>> {
        let window = Window::new(File::open(self.blk_path(number))?, self.key, ahead);
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

    /// Returns the magic of the first record. A custom signet has a magic of its own, but signet's genesis block.
    fn prove_magic(&self) -> SourceResult<[u8; 4]> {
        let wanted = self.network.magic().to_bytes();
        let numbers = self.numbers()?;
        let Some(&first) = numbers.first() else { return Err(self.no_block_files()) };
        if first != 0 {
            return Err(self.pruned());
        }
        let path = self.blk_path(first);
        let failed = |e: io::Error| unreadable(&path, &e);
        let mut window = Window::new(File::open(&path).map_err(failed)?, self.key, 8 + HEADER_BYTES);
        let start = window.slice(0, 8 + HEADER_BYTES).map_err(failed)?;
        let (Some(found), Some(header)) = (start.first_chunk::<4>(), start.last_chunk::<HEADER_BYTES>()) else {
            return Err(self.no_block_files());
        };
        if *found == wanted {
            return Ok(wanted);
        }
        if self.network == Network::Signet && header_hash(header) == genesis_block(Network::Signet).block_hash() {
            return Ok(*found);
        }
        match Network::from_magic(Magic::from_bytes(*found)) {
            Some(other) => Err(self.wrong_network(other)),
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
            "failed to open {}: it holds no block files (blk00000.dat); give the folder `blocks` of a node that has \
             started at least once",
            self.path.display()
        ))
    }

    pub(crate) fn pruned(&self) -> SourceError {
        permanent(format!(
            "failed to open {}: the node is pruned (its first block files are missing), and the index needs every \
             block once; set prune=0 in bitcoin.conf and download the chain again (bitcoind -reindex)",
            self.path.display()
        ))
    }
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
