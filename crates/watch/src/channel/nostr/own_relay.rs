//! The relay of this server, which takes messages without a network.

use futures_util::future::BoxFuture;

/// The relay of this server.
pub trait OwnRelay: Send + Sync {
    /// Returns the URLs by which clients know it.
    fn urls(&self) -> Vec<String>;

    /// Returns true for a URL that names this relay, in whatever form.
    fn is_named(&self, url: &str) -> bool;

    /// Stores a signed event, given as JSON, and sends it to subscriptions. Returns once it is durable.
    ///
    /// # Errors
    /// The reason why it is not stored.
    fn publish(&self, event: String) -> BoxFuture<'_, Result<(), String>>;

    /// Returns the newest event of a kind and an author, as JSON.
    ///
    /// # Errors
    /// The reason why the relay cannot tell.
    fn newest(&self, kind: u16, author: [u8; 32]) -> BoxFuture<'_, Result<Option<String>, String>>;
}
