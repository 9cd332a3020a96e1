//! The connections that have authenticated as an author (NIP-42), where reading is for members: they end when the
//! author is no member any more.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use birdhouse_events::Pubkey;
use birdhouse_net::Meter;
use parking_lot::Mutex;

/// Connections by the authors that they have authenticated as. Each connection has a bound on those.
#[derive(Debug, Default)]
pub(super) struct Present(Mutex<HashMap<Pubkey, Vec<Weak<Meter>>>>);

// === impl Present ===

impl Present {
    /// Adds a connection of an author. One that it has already is not added again.
    pub(super) fn enter(&self, author: Pubkey, connection: &Arc<Meter>) {
        let mut present = self.0.lock();
        let connections = present.entry(author).or_default();
        if !connections.iter().any(|one| is(one, connection)) {
            connections.push(Arc::downgrade(connection));
        }
    }

    /// Removes a connection that ends.
    pub(super) fn leave(&self, authors: &[Pubkey], connection: &Arc<Meter>) {
        let mut present = self.0.lock();
        for author in authors {
            let Some(connections) = present.get_mut(author) else { continue };
            connections.retain(|one| !is(one, connection));
            if connections.is_empty() {
                present.remove(author);
            }
        }
    }

    /// Ends the connections of which no author has access, and returns their number.
    pub(super) fn end_unless(&self, has_access: &dyn Fn(&Pubkey) -> bool) -> usize {
        let present = self.0.lock();
        let of = |has: bool| present.iter().filter(move |(author, _)| has_access(author) == has).flat_map(|(_, of)| of);
        let kept: HashSet<*const Meter> = of(true).map(Weak::as_ptr).collect();
        end(of(false).filter(|one| !kept.contains(&one.as_ptr())))
    }

    /// Ends the connections of an author but one, and returns their number.
    pub(super) fn end_others(&self, author: &Pubkey, kept: &Arc<Meter>) -> usize {
        self.0.lock().get(author).map_or(0, |of| end(of.iter().filter(|one| !is(one, kept))))
    }

    /// Ends the connections of an author, and returns their number.
    pub(super) fn end(&self, author: &Pubkey) -> usize {
        self.0.lock().get(author).map_or(0, end)
    }
}

fn end<'a>(connections: impl IntoIterator<Item = &'a Weak<Meter>>) -> usize {
    connections.into_iter().filter_map(Weak::upgrade).inspect(|connection| connection.disconnect()).count()
}

fn is(one: &Weak<Meter>, connection: &Arc<Meter>) -> bool {
    std::ptr::eq(one.as_ptr(), Arc::as_ptr(connection))
}
