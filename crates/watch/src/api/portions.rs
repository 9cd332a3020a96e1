//! A text that is made of many things, some of them at a time, while the client reads it. Pure.

use crate::api::missing::{Incomplete, Missing};

/// Things of which a part is written already.
pub(super) struct Portions<T> {
    things: Vec<T>,
    frame: Frame,
    /// Things that are written together.
    together: usize,
    /// Things that are written.
    written: usize,
    has_ended: bool,
}

/// The text around things.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) head: &'static str,
    pub(super) separator: &'static str,
    pub(super) tail: &'static str,
}

impl<T> Portions<T> {
    pub(super) fn new(things: Vec<T>, frame: Frame, together: usize) -> Self {
        Self { things, frame, together, written: 0, has_ended: false }
    }

    /// Returns the next portion; `None` after the last.
    ///
    /// # Errors
    /// Those of `write`. Nothing has changed then: what failed for blocks that the node has removed is made again once
    /// the blocks are fetched, all those of the portion together.
    pub(super) fn next<E: Incomplete>(
        &mut self,
        mut write: impl FnMut(&T, &mut String) -> Result<(), E>,
    ) -> Result<Option<String>, E> {
        if self.has_ended {
            return Ok(None);
        }
        let Frame { head, separator, tail } = self.frame;
        let mut text = if self.written == 0 { head.to_owned() } else { String::new() };
        let end = self.things.len().min(self.written + self.together);
        let mut missing = Missing::default();
        for (index, thing) in self.things.iter().enumerate().take(end).skip(self.written) {
            text.push_str(if index == 0 { "" } else { separator });
            missing.take(write(thing, &mut text))?;
        }
        missing.end()?;
        self.written = end;
        if end == self.things.len() {
            self.has_ended = true;
            text.push_str(tail);
        }
        Ok(Some(text))
    }
}

#[cfg(test)]
mod tests {
    use birdhouse_chain::Error;
    use birdhouse_chain::source::BlockPart;
    use bitcoin::BlockHash;
    use bitcoin::hashes::Hash as _;

    use super::*;

    const LIST: Frame = Frame { head: "[", separator: ",", tail: "]" };

    fn part(number: u32) -> BlockPart {
        BlockPart { block: BlockHash::all_zeros(), offset: number, len: 1 }
    }

    /// Writes numbers; every other call fails in the middle of its portion.
    fn made(count: u32) -> String {
        let mut portions = Portions::new((0..count).collect(), LIST, 3);
        let (mut all, mut fails) = (String::new(), false);
        loop {
            fails = !fails;
            let next = portions.next(|number, text| {
                text.push_str(&number.to_string());
                if fails && number % 3 == 1 { Err(Error::Removed { parts: vec![part(*number)] }) } else { Ok(()) }
            });
            match next {
                Err(_) => {}
                Ok(Some(text)) => all += &text,
                Ok(None) => return all,
            }
        }
    }

    #[test]
    fn a_portion_names_all_that_it_lacks() {
        let mut portions = Portions::new((0..8).collect(), LIST, 5);
        let next = portions.next(|number, _| Err(Error::Removed { parts: vec![part(*number)] }));
        let Err(Error::Removed { parts }) = next else { panic!("{next:?}") };
        assert_eq!(parts, [0, 1, 2, 3, 4].map(part));
    }

    #[test]
    fn a_portion_that_failed_is_made_again_whole() {
        for (count, expected) in [(0, "[]"), (1, "[0]"), (3, "[0,1,2]"), (8, "[0,1,2,3,4,5,6,7]")] {
            assert_eq!(made(count), expected);
        }
    }
}
