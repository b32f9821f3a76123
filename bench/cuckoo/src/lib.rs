//! What the two benches share: the maps behind one trait, the keys, and who asks for which.
//!
//! Every map holds 39-byte keys and 128-byte values and is read as its user would: a lookup
//! touches the first and the last byte of the value. Maps that have guards hold one for a batch.
//! All hash with a keyed hash: ours with SipHash-2-4, the others with their default, SipHash-1-3.

pub mod keys;
pub mod maps;
