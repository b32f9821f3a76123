//! Why there is no room for a client.

/// Why there is nothing to be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crowd {
    /// The client holds its part already.
    Own,
    /// Everything is held.
    All,
}
