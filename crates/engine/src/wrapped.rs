//! What a wrapping token keeps: the record of an answer that waits to be unwrapped, in the token's cubbyhole.
//!
//! The server writes it, and gives it out once when it is unwrapped; the cubbyhole shows it to clients of before there was a route for
//! that.

/// Where it lies in the cubbyhole.
pub const RESPONSE: &str = "response";

/// The envelope in the record; `None` when the bytes are no record. Its first byte says of what kind the answer was.
pub fn envelope(record: &[u8]) -> Option<&str> {
    std::str::from_utf8(record.get(1..)?).ok()
}
