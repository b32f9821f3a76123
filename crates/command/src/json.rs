//! JSON as the server has it: numbers keep their text, keys are sorted.
//!
//! The client uses the server's own tree, so that a number one stores is the number one reads
//! back, and there is one parser to fuzz. Nothing else of `core` is used by a client command.

pub use kallisto_core::json::{Json, Map, parse, parse_object};
