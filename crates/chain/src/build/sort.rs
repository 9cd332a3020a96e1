//! Sorts records by a hash: its bits are even, so they tell where about a record belongs.

/// Records of a slot on average, if [`SLOT_BITS_MAX`] allows: so few are sorted by insertion.
const PER_SLOT: usize = 8;
/// The most bits that choose a slot. The ends of the slots fit the second cache, and so does one line of each.
const SLOT_BITS_MAX: u32 = 14;

/// Returns records sorted by `order`, which begins with a hash. The first `known_bits` bits of all hashes are equal.
/// Each record is moved once, to a slot of a few by its next bits; the slots are then sorted in the nearest cache.
pub(crate) fn sorted<R: Copy>(records: &[&[R]], known_bits: u32, order: impl Fn(&R) -> (u64, u64)) -> Vec<R> {
    let count: usize = records.iter().map(|some| some.len()).sum();
    let slot_bits = (count / PER_SLOT).max(2).ilog2().min(SLOT_BITS_MAX);
    let Partitioned { mut records, ends } = partitioned(records, slot_bits, |record| order(record).0 << known_bits);
    let mut start = 0;
    for end in ends {
        records[start..end].sort_unstable_by_key(&order);
        start = end;
    }
    records
}

/// Records by the first bits of their hashes.
#[derive(Debug)]
pub(crate) struct Partitioned<R> {
    records: Vec<R>,
    /// The end of each partition in `records`.
    ends: Box<[usize]>,
}

/// Moves records to partitions by the first `bits` bits of their hashes. In a partition they keep their order.
pub(crate) fn partitioned<R: Copy>(records: &[&[R]], bits: u32, hash: impl Fn(&R) -> u64) -> Partitioned<R> {
    let partition = |record: &R| usize::try_from(hash(record) >> (64 - bits)).expect("few bits");
    let mut ends = vec![0; 1 << bits].into_boxed_slice();
    for record in records.iter().copied().flatten() {
        ends[partition(record)] += 1;
    }
    let mut count = 0;
    for end in &mut ends {
        count += std::mem::replace(end, count);
    }
    let Some(any) = records.iter().find_map(|some| some.first()) else { return Partitioned { records: vec![], ends } };
    // Each entry is now the start of its partition, and moves to its end while the partition fills.
    let mut moved = vec![*any; count];
    for record in records.iter().copied().flatten() {
        let next = &mut ends[partition(record)];
        moved[*next] = *record;
        *next += 1;
    }
    Partitioned { records: moved, ends }
}

impl<R> Partitioned<R> {
    /// The number of records.
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// The records of one partition.
    pub(crate) fn part(&self, number: usize) -> &[R] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.records[start..self.ends[number]]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn records_are_sorted_whatever_their_hashes(
            records in prop::collection::vec((any::<u64>(), 0..4_u64), 0..600), known_bits in 0..9_u32, split: usize,
            is_even: bool,
        ) {
            let mask = if is_even { u64::MAX >> known_bits } else { 7 };
            let mut records: Vec<(u64, u64)> = records.iter().map(|(hash, second)| (hash & mask, *second)).collect();
            let halves = records.split_at(split % (records.len() + 1));
            let found = sorted(&[halves.0, halves.1], known_bits, |record| *record);
            records.sort_unstable();
            prop_assert_eq!(found, records);
        }

        #[test]
        fn partitions_have_their_records_in_order(records in prop::collection::vec((any::<u64>(), 0..4_u64), 0..600)) {
            let partitioned = partitioned(&[&records], 3, |record| record.0);
            prop_assert_eq!(partitioned.len(), records.len());
            for number in 0..8_usize {
                let expected: Vec<(u64, u64)> =
                    records.iter().copied().filter(|record| record.0 >> 61 == number as u64).collect();
                prop_assert_eq!(partitioned.part(number), expected);
            }
        }
    }
}
