//! Places for the blocks of a chain: a file for `-loadblock`, or a node's folder of blocks.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use birdhouse_regtest::loadblock::write_record;
use bitcoin::BlockHash;
use bitcoin::hashes::{Hash as _, sha256d};

/// Bytes after which Core begins the next file (`MAX_BLOCKFILE_SIZE`).
const FILE_BYTES_MAX: u64 = 128 << 20;

/// A receiver of blocks in the order of the chain.
pub trait BlockSink {
    /// Takes a block and the outputs that it spends, in Core's form. `previous` is the block before. Returns the bytes
    /// that the block takes.
    fn push(&mut self, previous: BlockHash, block: &[u8], undo: &[u8]) -> io::Result<u64>;
}

/// Writes blocks in the format of `-loadblock`, without what they spend.
#[derive(Debug)]
pub struct LoadBlock<W>(pub W);

impl<W: Write> BlockSink for LoadBlock<W> {
    fn push(&mut self, _: BlockHash, block: &[u8], _: &[u8]) -> io::Result<u64> {
        write_record(&mut self.0, block)
    }
}

/// Writes `blkNNNNN.dat` and `revNNNNN.dat` as Core does, without a node that checks them.
#[derive(Debug)]
pub struct BlockFilesWriter {
    folder: PathBuf,
    number: u32,
    blocks: BufWriter<File>,
    undo: BufWriter<File>,
    /// Bytes in the file of blocks.
    bytes: u64,
}

impl BlockFilesWriter {
    /// Creates the first files in `folder`, which must exist.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let (blocks, undo) = create(folder, 0)?;
        Ok(Self { folder: folder.to_owned(), number: 0, blocks, undo, bytes: 0 })
    }

    /// Writes what is buffered.
    pub fn finish(mut self) -> io::Result<()> {
        self.blocks.flush()?;
        self.undo.flush()
    }
}

impl BlockSink for BlockFilesWriter {
    fn push(&mut self, previous: BlockHash, block: &[u8], undo: &[u8]) -> io::Result<u64> {
        if self.bytes + block.len() as u64 > FILE_BYTES_MAX {
            self.blocks.flush()?;
            self.undo.flush()?;
            self.number += 1;
            (self.blocks, self.undo) = create(&self.folder, self.number)?;
            self.bytes = 0;
        }
        let bytes = write_record(&mut self.blocks, block)?;
        self.bytes += bytes;
        // Core has no undo data of the genesis block.
        if previous != BlockHash::all_zeros() {
            write_record(&mut self.undo, undo)?;
            let checksum = sha256d::Hash::hash(&[previous.as_byte_array(), undo].concat());
            self.undo.write_all(checksum.as_byte_array())?;
        }
        Ok(bytes)
    }
}

fn create(folder: &Path, number: u32) -> io::Result<(BufWriter<File>, BufWriter<File>)> {
    let file = |kind| {
        io::Result::Ok(BufWriter::with_capacity(1 << 20, File::create(folder.join(format!("{kind}{number:05}.dat")))?))
    };
    Ok((file("blk")?, file("rev")?))
}
