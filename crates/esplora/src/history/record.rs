//! The state of the mempool at one moment, and its bytes:
//!
//! ```text
//! time u32 | transactions u32 | weight u64 | fees u64 | lowest rate f64 | next rate f64 | vbytes [u32; 39] | CRC-32C
//! ```
//!
//! Numbers are little-endian.

/// Lowest fee rates in sat/vB of the groups of `vbytes`, those of mempool's server.
pub const RATES: [u16; GROUPS] = [
    0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30, 40, 50, 60, 70, 80, 90, 100, 125, 150, 175, 200, 250, 300, 350, 400,
    500, 600, 700, 800, 900, 1000, 1200, 1400, 1600, 1800, 2000,
];
const GROUPS: usize = 39;

/// State of the mempool at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// In seconds since 1970.
    pub time: u32,
    /// Number of transactions.
    pub transactions: u32,
    /// Their weight.
    pub weight: u64,
    /// Their fees in satoshis.
    pub fees: u64,
    /// The lowest fee rate that the node takes, in sat/vB.
    pub lowest_rate: f64,
    /// The fee rate in the middle of the next block, in sat/vB; 0 without transactions.
    pub next_rate: f64,
    /// Virtual bytes that are mined at one of [`RATES`], and below the next one.
    pub vbytes: [u32; GROUPS],
}

impl Record {
    /// Bytes of a record.
    pub(super) const BYTES: usize = 4 + 4 + 8 + 8 + 8 + 8 + GROUPS * 4 + SUM_BYTES;

    /// Adds virtual bytes that are mined at a fee rate.
    pub(crate) fn add(&mut self, rate: f64, vbytes: u64) {
        let above = RATES.iter().filter(|lowest| f64::from(**lowest) <= rate).count();
        if let Some(group) = above.checked_sub(1) {
            let vbytes = u32::try_from(vbytes).unwrap_or(u32::MAX);
            self.vbytes[group] = self.vbytes[group].saturating_add(vbytes);
        }
    }

    pub(super) fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = Vec::with_capacity(Self::BYTES);
        bytes.extend(self.time.to_le_bytes());
        bytes.extend(self.transactions.to_le_bytes());
        bytes.extend(self.weight.to_le_bytes());
        bytes.extend(self.fees.to_le_bytes());
        bytes.extend(self.lowest_rate.to_le_bytes());
        bytes.extend(self.next_rate.to_le_bytes());
        bytes.extend(self.vbytes.iter().flat_map(|vbytes| vbytes.to_le_bytes()));
        let sum = crc32c::crc32c(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes.try_into().expect("its parts have this length")
    }

    /// Returns `None` for bytes that are not a whole record.
    pub(super) fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let (body, sum) = bytes.split_last_chunk::<SUM_BYTES>()?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*sum) {
            return None;
        }
        let (time, rest) = body.split_first_chunk()?;
        let (transactions, rest) = rest.split_first_chunk()?;
        let (weight, rest) = rest.split_first_chunk()?;
        let (fees, rest) = rest.split_first_chunk()?;
        let (lowest_rate, rest) = rest.split_first_chunk()?;
        let (next_rate, rest) = rest.split_first_chunk()?;
        let (groups, _) = rest.as_chunks::<4>();
        let [lowest_rate, next_rate] = [lowest_rate, next_rate].map(|rate| f64::from_le_bytes(*rate));
        Some(Self {
            time: u32::from_le_bytes(*time),
            transactions: u32::from_le_bytes(*transactions),
            weight: u64::from_le_bytes(*weight),
            fees: u64::from_le_bytes(*fees),
            lowest_rate: Some(lowest_rate).filter(|rate| rate.is_finite())?,
            next_rate: Some(next_rate).filter(|rate| rate.is_finite())?,
            vbytes: groups.iter().map(|vbytes| u32::from_le_bytes(*vbytes)).collect::<Vec<_>>().try_into().ok()?,
        })
    }
}

/// Bytes of the checksum.
const SUM_BYTES: usize = 4;
