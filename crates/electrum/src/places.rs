//! The places of one listener: how many connections are open, in all and by client.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::client::Client;

/// All places of a listener.
#[derive(Debug)]
pub(crate) struct Places {
    connections_max: usize,
    per_client_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    connections: usize,
    by_client: HashMap<Client, usize>,
}

/// One connection's place; free again when dropped.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    /// Unknown until the PROXY header has come.
    client: Option<Client>,
}

/// Which bound is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Listener,
    Client,
}

impl Places {
    pub(crate) fn new(connections_max: usize, per_client_max: usize) -> Arc<Self> {
        Arc::new(Self { connections_max, per_client_max, taken: Mutex::default() })
    }

    /// A place for a connection that was just accepted.
    pub(crate) fn take(self: &Arc<Self>) -> Result<Place, Full> {
        let mut taken = self.taken();
        if taken.connections >= self.connections_max {
            return Err(Full::Listener);
        }
        taken.connections += 1;
        Ok(Place { places: Arc::clone(self), client: None })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Counters only: nothing under this lock can panic halfway.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Place {
    /// Now it is known whose place this is.
    pub(crate) fn assign(&mut self, client: Client) -> Result<(), Full> {
        let mut taken = self.places.taken();
        let connections = taken.by_client.get(&client).copied().unwrap_or(0);
        if connections >= self.places.per_client_max {
            return Err(Full::Client);
        }
        taken.by_client.insert(client, connections + 1);
        drop(taken);
        self.client = Some(client);
        Ok(())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.connections -= 1;
        let Some(client) = self.client else { return };
        if let Some(connections) = taken.by_client.get_mut(&client) {
            *connections -= 1;
            if *connections == 0 {
                taken.by_client.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn places_are_bounded_by_client_and_in_all_and_come_back() {
        let places = Places::new(3, 2);
        let (one, other) = (Client::TorCircuit(1), Client::TorCircuit(2));
        let mut first = places.take().unwrap();
        let mut second = places.take().unwrap();
        let mut third = places.take().unwrap();
        assert_eq!(places.take().unwrap_err(), Full::Listener);
        first.assign(one).unwrap();
        second.assign(one).unwrap();
        assert_eq!(third.assign(one), Err(Full::Client));
        third.assign(other).unwrap();
        drop(first);
        places.take().unwrap().assign(one).unwrap();
        drop((second, third));
        assert!(places.taken().by_client.is_empty(), "a client that is gone leaves no trace");
    }
}
