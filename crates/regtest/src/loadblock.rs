//! Files for Core's `-loadblock`: records of `magic | u32 LE size | block` in chain order, without obfuscation.
//!
//! Source: `LoadExternalBlockFile` of Core's `validation.cpp`.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use bitcoin::{Block, BlockHash, consensus};

use crate::bitcoind::{Bitcoind, Options, base_args};
use crate::child_guard::{ChildGuard, Launch};
use crate::error::{Result, at};
use crate::program::find_bitcoind;

/// Core's `CRegTestParams::pchMessageStart`.
const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
/// The time that an import may take: gigabytes take hours on a slow disk.
const IMPORT_PATIENCE: Duration = Duration::from_hours(6);

/// Writes one block as a record; returns the bytes written, record header included.
pub fn write_record(out: &mut impl Write, block: &[u8]) -> io::Result<u64> {
    let size = u32::try_from(block.len()).map_err(|_| io::Error::other("block of 4 GiB"))?;
    out.write_all(&MAGIC)?;
    out.write_all(&size.to_le_bytes())?;
    out.write_all(block)?;
    Ok(8 + block.len() as u64)
}

/// Reads all blocks of a file that [`write_record`] wrote.
///
/// # Errors
/// [`Error::Block`](crate::Error::Block) for a record that is not a block.
pub fn read_blocks(mut input: impl Read) -> Result<Vec<Block>> {
    let (mut blocks, mut head) = (Vec::new(), [0; 8]);
    loop {
        match input.read_exact(&mut head) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(blocks),
            other => other?,
        }
        let size = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let mut bytes = vec![0; size as usize];
        input.read_exact(&mut bytes)?;
        blocks.push(consensus::deserialize(&bytes)?);
    }
}

/// Imports a file into a new node's `datadir`, checks that the node reaches `tip`, and stops the node.
///
/// # Errors
/// [`Error::Start`](crate::Error::Start) when the import fails or ends at another tip.
pub fn import(file: &Path, datadir: &Path, tip: BlockHash) -> Result<()> {
    std::fs::create_dir_all(datadir).map_err(at(datadir))?;
    let datadir = &datadir.canonicalize().map_err(at(datadir))?;
    let mut loadblock = std::ffi::OsString::from("-loadblock=");
    loadblock.push(file.canonicalize().map_err(at(file))?);
    let mut args = base_args(datadir);
    args.push(loadblock);
    let rest = ["-stopafterblockimport=1", "-server=0", "-dbcache=1000", "-par=1"];
    args.extend(rest.map(std::ffi::OsString::from));
    let log = datadir.join("import.log");
    let mut child = ChildGuard::spawn(Launch { program: find_bitcoind()?, args, envs: Vec::new(), log })?;
    let status = child.wait(IMPORT_PATIENCE)?;
    if !status.success() {
        return Err(child.launch().failed(format!("ended with {status} during the import")));
    }
    let mut node = Bitcoind::start(Options::default().in_datadir(datadir))?;
    let reached = node.tip()?;
    if reached != tip {
        return Err(child.launch().failed(format!("imported up to {reached}, not to {tip}")));
    }
    node.stop()
}
