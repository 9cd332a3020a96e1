//! State that few connections have: a pointer until it is needed.

/// A value that is made when it is first changed.
#[derive(Debug, Default)]
pub(crate) struct Rare<T>(Option<Box<T>>);

impl<T: Default> Rare<T> {
    /// Returns the value, if it was ever changed.
    pub(crate) fn get(&self) -> Option<&T> {
        self.0.as_deref()
    }

    /// Returns the value to change it, if it was changed before.
    pub(crate) fn known(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// Returns the value to change it.
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_or_insert_default()
    }
}
