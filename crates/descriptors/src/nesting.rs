//! Nesting of a descriptor, measured before a parser reads it.
//!
//! Parsers of descriptors walk what they have read by recursion, so a stranger's nesting is a stranger's use of the
//! stack. In an unoptimised build a level of miniscript takes kilobytes.

/// Returns the number of levels of a text: brackets, and the wrappers of a fragment, of which each letter is one.
pub(crate) fn nesting(text: &str) -> usize {
    let (mut open, mut depth, mut most) = (Vec::new(), 0, 0);
    let (mut name_start, mut wrappers) = (0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b':' => {
                wrappers = at - name_start;
                most = most.max(depth + wrappers);
                continue;
            }
            b'(' | b'{' => {
                open.push(wrappers + 1);
                depth += wrappers + 1;
                most = most.max(depth);
            }
            b')' | b'}' => depth -= open.pop().unwrap_or(0),
            b',' => {}
            _ => continue,
        }
        (name_start, wrappers) = (at + 1, 0);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_and_wrappers_are_levels() {
        for (text, levels) in [
            ("", 0),
            ("wpkh(K)", 1),
            ("sh(wsh(multi(1,K,K)))", 3),
            ("wsh(and_v(v:pk(K),older(9)))", 4),
            ("wsh(and_v(or_c(pk(K),v:older(9)),tv:pk(K)))", 5),
            ("tr(K,{pk(K),{pk(K),pk(K)}})", 4),
            ("wsh(asv:older(1),older(2))", 5),
            ("wsh(lll:0)", 4),
            (")))(((", 3),
            ("::::", 3),
        ] {
            assert_eq!(nesting(text), levels, "{text}");
        }
    }
}
