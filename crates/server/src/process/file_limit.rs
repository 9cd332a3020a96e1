//! The limit of open files: raised as far as the system allows, and connections fitted to it.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Files and sockets that are no clients': segments, arrays, block files, the full-text index, calls to the node, and
/// the temporary files of an index that is far behind, 321.
pub(crate) const RESERVED: u64 = 1024;

/// Raises the limit of open files to the system's maximum; returns the limit that holds then.
pub(crate) fn raise() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return u64::MAX };
    if soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_err() { soft } else { hard }
}

/// Reduces the bounds on connections in proportion, so that all of them together fit into `files_max` open files beside
/// the server's own. Returns the total that is left if it had to. Pure.
pub(crate) fn fit(files_max: u64, bounds: &mut [&mut usize]) -> Option<usize> {
    let wanted: u64 = bounds.iter().map(|bound| **bound as u64).sum();
    // At least half of the files are for clients, however low the limit is.
    let room = files_max.saturating_sub(RESERVED).max(files_max / 2);
    if wanted <= room {
        return None;
    }
    for bound in bounds.iter_mut() {
        let share = u128::from(room) * (**bound as u128) / u128::from(wanted);
        **bound = usize::try_from(share).unwrap_or(usize::MAX).max(1);
    }
    Some(bounds.iter().map(|bound| **bound).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fitted(files_max: u64, bounds: [usize; 2]) -> (Option<usize>, [usize; 2]) {
        let [mut first, mut second] = bounds;
        (fit(files_max, &mut [&mut first, &mut second]), [first, second])
    }

    #[test]
    fn connections_keep_their_bounds_where_files_suffice() {
        assert_eq!(fitted(21_024, [10_000, 10_000]), (None, [10_000, 10_000]));
        assert_eq!(fitted(u64::MAX, [10_000, 10_000]), (None, [10_000, 10_000]));
    }

    #[test]
    fn otherwise_all_of_them_shrink_alike() {
        assert_eq!(fitted(4096, [10_000, 5_000]), (Some(3072), [2048, 1024]));
        assert_eq!(fitted(600, [10_000, 10_000]), (Some(300), [150, 150]));
        assert_eq!(fitted(1, [10_000, 1]), (Some(2), [1, 1]));
    }
}
