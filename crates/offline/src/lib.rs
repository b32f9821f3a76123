//! Commands over a store in a directory, without a server: `kallisto engine` drives the storage engine by files of
//! commands, `kallisto exec` an embedded encrypted store.

#![forbid(unsafe_code)]

mod engine;
mod exec;

pub use engine::EngineCommand;
pub use exec::ExecArgs;
