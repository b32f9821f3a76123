//! JSON as the server has it: numbers keep their text, keys are sorted.
//!
//! The client uses the server's own tree, so that a number one stores is the number one reads
//! back, and there is one parser to fuzz. Of the server, a client command uses this, paths and ranges of addresses, and nothing else.

pub use kallisto_api::json::{Json, Map, parse, parse_object};
