//! What the fuzzers ask of the readers of HTTP: each function takes any bytes and panics when a promise breaks.

use super::{direct, heads, relay};

/// Reads any bytes as the requests of a connection.
pub fn direct(bytes: &[u8]) {
    direct::check(bytes);
}

/// Reads any bytes as hyper does too, and compares.
pub fn beside_hyper(bytes: &[u8]) {
    direct::check_beside_hyper(bytes);
}

/// Follows any bytes as the requests that hyper is to read.
pub fn heads(bytes: &[u8]) {
    heads::check(bytes);
}

/// Decodes any bytes as what servers relay.
pub fn relay(bytes: &[u8]) {
    relay::check(bytes);
}
