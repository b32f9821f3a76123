//! Commands over a store in a directory, without a server: `kallisto engine` drives the storage engine by files of
//! commands, `kallisto exec` an embedded encrypted store, `operator raft snapshot inspect` and `verify` read a backup.

#![forbid(unsafe_code)]

mod engine;
mod exec;
mod snapshot;

pub use engine::EngineCommand;
pub use exec::ExecArgs;
pub use snapshot::{Inspect, Verify};
